"""Laying settings over one another: flags over the file, behaviors over ``default_settings``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from tau_trainer.settings.batched import PolicySettings
from tau_trainer.settings.document import Location
from tau_trainer.settings.trainers import TrainerSettings


def deep_merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """A new mapping: where both hold mappings they are merged, elsewhere ``above`` wins."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = deep_merge(old, value) if both and old is not None else copy.deepcopy(value)
    return merged


def over_defaults(
    defaults: TrainerSettings,
    behavior: Mapping[str, Any],
    class_of: Callable[[object], type[TrainerSettings] | None],
) -> dict[str, Any]:
    """``behavior`` over ``default_settings``; ``class_of`` a ``trainer_type``.

    As in ML-Agents the defaults count in full, those not written included; of a batched run what was written. Where the
    behavior's trainer type is another one (which ML-Agents cannot do), it takes of the hyperparameters only those that
    were written and that its type has; a fixed player takes nothing that is of networks.
    """
    batched = isinstance(defaults, PolicySettings)
    base = defaults.model_dump(exclude_unset=batched)
    kind = class_of(behavior.get("trainer_type", defaults.trainer_type))
    if kind is not None and kind is not type(defaults):
        written = defaults.hyperparameters.model_dump(exclude_unset=True)
        known = _hyperparameter_names(kind)
        base["hyperparameters"] = {name: value for name, value in written.items() if name in known}
    if isinstance(defaults, PolicySettings) and behavior.get("player") is not None:
        base = {key: value for key, value in base.items() if key not in defaults.of_networks}
    return deep_merge(base, behavior)


def _hyperparameter_names(kind: type[TrainerSettings]) -> set[str]:
    numbers = kind.model_fields["hyperparameters"].annotation
    return set(numbers.model_fields) if isinstance(numbers, type) and issubclass(numbers, BaseModel) else set()


def apply_overrides(data: Mapping[str, Any], overrides: Mapping[str, Any]) -> tuple[dict[str, Any], set[Location]]:
    """Set ``overrides`` (keys as ``env_settings.seed``; ``behaviors.*.x`` means every behavior) in a copy of ``data``.

    Returns the new data and the locations that were set.
    """
    result = copy.deepcopy(dict(data))
    places: set[Location] = set()
    for dotted, value in overrides.items():
        for location in _expand(result, tuple(dotted.split("."))):
            if _put(result, location, value):
                places.add(location)
    return result, places


def _expand(data: Mapping[str, Any], parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Locations meant by ``parts``: for ``behaviors.*`` those of all behaviors and of the defaults."""
    if parts[:2] != ("behaviors", "*"):
        return [parts]
    behaviors = data.get("behaviors")
    homes: list[tuple[str, ...]] = [("behaviors", name) for name in behaviors] if isinstance(behaviors, dict) else []
    if "default_settings" in data or not homes:
        homes.append(("default_settings",))
    return [(*home, *parts[2:]) for home in homes]


def _put(data: dict[str, Any], location: tuple[str, ...], value: Any) -> bool:
    """Set one value, making sections on the way; False where something that is no section stands in the way."""
    here: Any = data
    for part in location[:-1]:
        here = here.setdefault(part, {})
        if not isinstance(here, dict):
            return False
    here.update(deep_merge(here, {location[-1]: value}))
    return True
