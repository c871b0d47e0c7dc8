"""The settings of a run, each with its default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from tau_trainer.errors import TauError
from tau_trainer.metrics.history import mapping
from tau_trainer.metrics.tensorboard import flattened
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.settings.kinds import Section


@dataclass(frozen=True, slots=True)
class Setting:
    """One value."""

    place: str
    """Its dotted key."""
    value: object
    default: object

    @property
    def changed(self) -> bool:
        """Whether it is not the default."""
        return self.value != self.default


@dataclass(frozen=True, slots=True)
class Configuration:
    """``configuration.yaml``."""

    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Values by dotted key; if the file is not valid, its own values, without defaults."""
    environment: str | None = None
    """The environment."""
    trainers: Mapping[str, str] = field(default_factory=dict)
    """``trainer_type`` by behavior."""
    fault: str | None = None
    """Reason why the file is not valid; empty if it is."""

    @classmethod
    def load(cls, path: Path) -> Configuration:
        """Never raises."""
        if not path.is_file():
            return cls(fault=f"{path.name} is missing")
        try:
            settings = load_settings(path)
        except TauError as error:
            return cls(_plain(path), fault=f"{path.name} cannot be read: {error}")
        trainers = {name: behavior.trainer_type for name, behavior in settings.behaviors.items() if behavior.learns}
        played = settings.env_settings.env_path or "the editor"
        if settings.environment is not None:
            played = f"{settings.played.num_envs:,} x {settings.played.name}"
        return cls(_compared(settings), played, trainers)


def _plain(path: Path) -> dict[str, Setting]:
    """All values of an invalid file, each its own default."""
    try:
        values = dict(flattened(mapping(yaml.safe_load(path.read_text("utf-8")))))
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return {}
    return {place: Setting(place, value, value) for place, value in values.items()}


def _compared(settings: RunSettings) -> dict[str, Setting]:
    """All values with their defaults."""
    defaults = dict(flattened(_defaults(settings, on_tensors=settings.environment is not None)))
    values = flattened(settings.model_dump(mode="json"))
    return {place: Setting(place, value, defaults.get(place)) for place, value in values}


def _defaults(model: BaseModel, *, on_tensors: bool) -> dict[str, Any]:
    """Defaults of a section of this kind, with the same entries in its tables."""
    result: dict[str, Any] = {}
    for name in type(model).model_fields:
        value = getattr(model, name)
        bare = type(model).model_construct()
        bare = bare.on_tensors() if on_tensors and isinstance(bare, Section) else bare
        if isinstance(value, BaseModel):
            result[name] = _defaults(value, on_tensors=on_tensors)
        elif isinstance(value, dict) and value and all(isinstance(entry, BaseModel) for entry in value.values()):
            result[name] = {key: _defaults(entry, on_tensors=on_tensors) for key, entry in value.items()}
        else:
            result[name] = bare.model_dump(mode="json", include={name}, warnings=False).get(name)
    return result
