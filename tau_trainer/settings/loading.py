"""From a YAML file and flags to frozen settings, and back to YAML.

Precedence: a given flag, then the file, then ML-Agents' default. Every problem is found before any is told.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from tau_trainer import plugins
from tau_trainer.errors import SettingsError
from tau_trainer.settings.batched import is_batched
from tau_trainer.settings.document import Document, Location, read_document
from tau_trainer.settings.kinds import Section
from tau_trainer.settings.legacy import old_format
from tau_trainer.settings.merging import apply_overrides, over_defaults
from tau_trainer.settings.problems import Problems, did_you_mean, key_path, without_tags
from tau_trainer.settings.run import RunSettings
from tau_trainer.settings.shipped import find_config
from tau_trainer.settings.trainable import untrainable
from tau_trainer.settings.trainers import TrainerSettings, trainer_type

_log = logging.getLogger(__name__)
_SectionT = TypeVar("_SectionT", bound=Section)
Warn = Callable[[str], None]


def load_settings(
    path: Path | str | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    lenient: bool = False,
    flags: Mapping[str, str] | None = None,
) -> RunSettings:
    """Settings that this version can train.

    Args:
        path: a YAML file in ML-Agents' form, or the name of a shipped one (``tau3``); None = defaults for whatever
            behavior the engine announces.
        overrides: values over the file by dotted key; ``behaviors.*.max_steps`` sets every behavior.
        lenient: log unknown and repeated keys and leave them out instead of refusing them.
        flags: names under which overrides are told of in messages (``env_settings.seed`` -> ``--seed``).

    Raises:
        SettingsError: one sentence for every problem, with file, line and key, and what to do.
    """
    settings, problems = read_settings(path, overrides or {}, lenient, flags or {})
    for location, text in untrainable(settings):
        problems.add(location, text)
    problems.raise_if_any()
    return settings


def dump_settings(settings: RunSettings) -> str:
    """YAML with every value written out; loading it gives equal settings."""
    text: str = yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    return text


def read_settings(
    path: Path | str | None,
    overrides: Mapping[str, Any],
    lenient: bool,
    flags: Mapping[str, str],
    warn: Warn = _log.warning,
) -> tuple[RunSettings, Problems]:
    """See :func:`load_settings`: everything that the file format knows, trainable or not, and where it stands."""
    document = read_document(find_config(path)) if path is not None else Document("", {"default_settings": {}})
    return interpret(document, overrides, lenient, flags, warn)


def interpret(
    document: Document, overrides: Mapping[str, Any], lenient: bool, flags: Mapping[str, str], warn: Warn = _log.warning
) -> tuple[RunSettings, Problems]:
    """See :func:`read_settings`, of a file that was read already; ``warn`` is told what is left out."""
    data, places = apply_overrides(document.data, overrides)
    names = {place: _flag_name(place, flags) for place in places}
    reader = _Reader(Problems(document, names), lenient, warn)
    file = reader.read(data)
    return file, reader.problems


def _flag_name(place: Location, flags: Mapping[str, str]) -> str:
    dotted = key_path(place)
    anywhere = ".".join(["behaviors", "*", *map(str, place[1 if place[0] == "default_settings" else 2 :])])
    return flags.get(dotted) or flags.get(anywhere) or f"override {dotted}"


class _Reader:
    """One pass over a file's data that validates section by section and gathers all problems."""

    def __init__(self, problems: Problems, lenient: bool, warn: Warn) -> None:
        self.problems = problems
        self.lenient = lenient
        self.warn = warn

    def read(self, data: dict[str, Any]) -> RunSettings:
        """The checked file; raises SettingsError with all problems."""
        self._duplicates()
        data = dict(data)
        entry = data.get("default_settings")
        defaults = data["default_settings"] = None if entry is None else self._trainer(("default_settings",), entry)
        read: dict[str, TrainerSettings | None] = {}
        if isinstance(data.get("behaviors"), dict):
            for name, entry in data["behaviors"].items():
                if isinstance(entry, dict) and defaults is not None:
                    entry = over_defaults(defaults, entry)
                read[name] = self._trainer(("behaviors", name), entry)
            data["behaviors"] = {name: settings for name, settings in read.items() if settings is not None}
        if not self._old_format(data):
            file = self._validate(RunSettings, data, ())
            if file is not None and not self.problems.sentences:
                return file
            # What could not be read is there all the same: a lesson may wait for it.
            there = {
                name: settings or trainer_type("ppo").settings.model_validate({}) for name, settings in read.items()
            }
            self._untrainable(data | ({"behaviors": there} if read else {}))
        self.problems.raise_if_any()
        raise AssertionError("what cannot be read has a problem")

    def _untrainable(self, data: Mapping[str, Any]) -> None:
        """Say of what is right in a file with mistakes what cannot be trained, to be told with them."""
        try:
            rest = RunSettings.model_validate(data)
        except ValidationError as error:
            wrong = {detail["loc"][0] for detail in error.errors()}
            rest = RunSettings.model_validate({key: value for key, value in data.items() if key not in wrong})
        for finding in untrainable(rest):
            self.problems.add(*finding)

    def _duplicates(self) -> None:
        for location, line in self.problems.document.duplicates:
            place = f"{self.problems.document.name}:{line}: {key_path(location)}"
            if self.lenient:
                self.warn(f"{place} stands twice; the later one counts")
            else:
                self.problems.sentences.append(f"{place} stands twice; remove one of the two")

    def _old_format(self, data: Mapping[str, Any]) -> bool:
        """Whether this is a file of another kind, or of an older ML-Agents, which is said in one sentence."""
        found = old_format(data, set(RunSettings.model_fields), self.problems.document.name)
        if is_batched(data):
            found = (), f"is of batched environments; train it with: tau-train batch {self.problems.document.name}"
        if found is not None:
            self.problems.add(*found)
        return found is not None

    def _trainer(self, place: Location, entry: Any) -> TrainerSettings | None:
        """One behavior's settings, of the class that its trainer_type asks for."""
        if not isinstance(entry, dict):
            return self._validate(trainer_type("ppo").settings, entry, place)
        if "framework" in entry:
            self.warn(f"{self.problems.place((*place, 'framework'))} is deprecated and has no effect")
            entry = {key: value for key, value in entry.items() if key != "framework"}
        if "hyperparameters" in entry and "trainer_type" not in entry and not self.lenient:
            self.problems.add((*place, "trainer_type"), "is missing beside hyperparameters; add `trainer_type: ppo`")
        kind, known = entry.get("trainer_type", "ppo"), plugins.names("trainers")
        if not isinstance(kind, str) or not (kind in known or plugins.is_place("trainers", kind)):
            text = f"is {kind!r}, which is no trainer type; {did_you_mean(str(kind), known)}"
            package = plugins.package_for_mlagents(str(kind))
            if package is not None:
                text = (
                    f"is {kind!r}, which the package {package} brings for mlagents-learn: it is made of classes of "
                    "mlagents and cannot train here; docs/guides/plugins.md says what it has to change"
                )
            self.problems.add((*place, "trainer_type"), text)
            return None
        try:
            return self._validate(trainer_type(kind).settings, entry, place)
        except SettingsError as error:
            self.problems.add((*place, "trainer_type"), str(error))
            return None

    def _validate(self, model: type[_SectionT], data: Any, prefix: Location) -> _SectionT | None:
        try:
            return model.model_validate(data)
        except ValidationError as error:
            unknown = [without_tags(e["loc"]) for e in error.errors() if e["type"] == "extra_forbidden"]
            if not (self.lenient and unknown):
                self.problems.add_errors(error, model, prefix)
                return None
            for location in unknown:
                self.warn(f"{self.problems.place((*prefix, *location))} is no known key and is left out")
            return self._validate(model, _without(data, unknown), prefix)


def _without(data: Any, locations: list[Location]) -> Any:
    """A copy of ``data`` without the keys at ``locations``."""
    result = copy.deepcopy(data)
    for location in locations:
        here = result
        for part in location[:-1]:
            here = here[part]
        here.pop(location[-1], None)
    return result
