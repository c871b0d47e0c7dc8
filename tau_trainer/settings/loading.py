"""Converts a YAML file and flags to frozen settings, and settings back to YAML.

Precedence: a given flag, then the file, then the default. All problems are collected and reported together.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from tau_trainer import plugins
from tau_trainer.errors import SettingsError
from tau_trainer.settings.document import Document, Location, find_config, read_document
from tau_trainer.settings.earlier import LEFT_OUT, dropped, migrated, moved, moved_override, old_format
from tau_trainer.settings.engines import MOST_ENGINES
from tau_trainer.settings.kinds import Section
from tau_trainer.settings.outlook import untrainable
from tau_trainer.settings.problems import CODE, Problems, ask_again, did_you_mean, key_path, withheld, without_tags
from tau_trainer.settings.run import RunSettings
from tau_trainer.settings.tasks import is_batched
from tau_trainer.settings.trainers import PPOTrainerSettings, TrainerSettings, trainer_type
from tau_trainer.specs import Json

_log = logging.getLogger(__name__)
_SectionT = TypeVar("_SectionT", bound=Section)
Warn = Callable[[str], None]
STORED = "configuration.yaml"
"""File name of a run's own settings. Files of earlier versions are migrated when they are read."""


def load_settings(
    path: Path | str | None = None,
    overrides: Json | None = None,
    *,
    lenient: bool = False,
    flags: Mapping[str, str] | None = None,
    batched: bool | None = None,
) -> RunSettings:
    """Settings that this version can train; of a batched run if the file has an ``environment``.

    Args:
        path: a YAML file in ML-Agents' format, or the name of a shipped one (``tau3``); None = defaults for every
            behavior that the engine announces.
        overrides: values that override the file, by dotted key; ``behaviors.*.max_steps`` sets every behavior.
        lenient: log and ignore unknown and repeated keys instead of raising.
        flags: names of overrides in messages (``env_settings.seed`` -> ``--seed``).
        batched: True if the file must have a batched environment, False if it must not.

    Raises:
        SettingsError: one sentence for every problem, with file, line, key and remedy.
    """
    settings, problems = read_settings(path, overrides or {}, lenient, flags or {}, batched=batched)
    problems.add_all(untrainable(settings))
    problems.raise_if_any()
    return settings


def load_batched(
    path: Path | str, overrides: Json | None = None, flags: Mapping[str, str] | None = None
) -> RunSettings:
    """:func:`load_settings` for a file with an ``environment``. Also raises SettingsError for any other file."""
    return load_settings(path, overrides, flags=flags, batched=True)


def dump_settings(settings: RunSettings) -> str:
    """YAML of all values, defaults included; loading it gives equal settings."""
    text: str = yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    return text


def read_settings(
    path: Path | str | None,
    overrides: Json,
    lenient: bool,
    flags: Mapping[str, str],
    warn: Warn = _log.warning,
    *,
    batched: bool | None = None,
) -> tuple[RunSettings, Problems]:
    """See :func:`load_settings`: all settings of the file format, trainable or not, and their places in the file."""
    document = Document("", {"default_settings": {}}) if path is None else read_file(path, warn)
    return interpret(document, overrides, lenient, flags, warn, batched=batched)


def read_file(path: Path | str, warn: Warn = _log.warning) -> Document:
    """A settings file, or the shipped one of that name, with the current keys. Raises SettingsError."""
    document = read_document(find_config(path))
    if Path(document.name).name == STORED:
        for place in dropped(document.data):
            warn(f"{Problems(document).place(place)} {LEFT_OUT}")
        document = replace(document, data=migrated(document.data))
    return document


def interpret(
    document: Document,
    overrides: Json,
    lenient: bool,
    flags: Mapping[str, str],
    warn: Warn = _log.warning,
    *,
    batched: bool | None = None,
) -> tuple[RunSettings, Problems]:
    """See :func:`read_settings`, for a file that is already read; ``warn`` receives a message for each ignored key."""
    data, places = apply_overrides(document.data, overrides)
    names = {place: _flag_name(place, flags) for place in places}
    problems = Problems(document, names)
    for dotted in overrides:
        if (new := moved_override(dotted)) is not None:
            problems.sentences.append(f"{flags.get(dotted) or f'override {dotted}'} is now {new}; write that instead")
    _check_names(document.data, overrides, problems, warn)
    if code := [place for place in withheld(data) if place[-1] in CODE]:
        raise SettingsError(f"{document.name}: {ask_again(code)}")
    found = is_batched(data)
    if batched and not found:
        problems.add(("environment",), "is missing, so this file is for tau-train learn; batch requires it")
    elif found and not data.keys() & {"behaviors", "policies"}:
        problems.add(("behaviors",), "is missing; name the policies there, such as behaviors: {agent: {}}")
    elif found and batched is False:
        problems.add((), f"is for a batched environment; train it with: tau-train batch {document.name}")
    problems.raise_if_any()
    if not found:
        _give_actors_engines(data, places)
    return _Reader(problems, lenient, warn, batched=found).read(data), problems


def _give_actors_engines(data: dict[str, Any], given: set[Location]) -> None:
    """If actors play, set their number to ``num_envs``: each actor has one engine.

    A number that a flag has set (``given``) overrides the other one in the file.
    """
    env, actors = data.get("env_settings"), data.get("async_trainer", {})
    asynchronous = data.get("execution", "sync" if data.get("cluster") is None else "async") == "async"
    if not asynchronous or not isinstance(env, dict) or not isinstance(actors, dict):
        return
    engines, by_flag = str(env.get("num_envs")), ("env_settings", "num_envs") in given
    said = engines.isdecimal() and 0 < int(engines) <= MOST_ENGINES  # a wrong value is reported later
    if ("async_trainer", "actors") in given:
        if not by_flag:
            env.pop("num_envs", None)
    elif said and (
        by_flag or ("actors" not in actors and engines != "1")
    ):  # 1 may be the default that a run has stored
        data["async_trainer"] = {**actors, "actors": int(engines)}


def _check_names(data: Json, overrides: Json, problems: Problems, warn: Warn) -> None:
    """Report overrides of behaviors that the file does not have: a typo would add a behavior that no agent uses."""
    behaviors = data.get("behaviors")
    known = list(behaviors) if isinstance(behaviors, Mapping) else []
    for place in (tuple(dotted.split(".")) for dotted in overrides if problems.document.name):
        if place[0] != "behaviors" or len(place) < 2 or place[1] in ("*", *known):
            continue
        near = did_you_mean(place[1], known) if known else "behaviors.* means every behavior"
        text = f"is for behavior {place[1]}, which is not in {problems.document.name}; {near}"
        if data.get("default_settings") is None:
            problems.add(place, text)
        else:
            warn(f"{problems.place(place)} {text}")


def _flag_name(place: Location, flags: Mapping[str, str]) -> str:
    dotted = key_path(place)
    anywhere = ".".join(["behaviors", "*", *map(str, place[1 if place[0] == "default_settings" else 2 :])])
    return flags.get(dotted) or flags.get(anywhere) or f"override {dotted}"


class _Reader:
    """One pass over a file's data that validates section by section and collects all problems."""

    def __init__(self, problems: Problems, lenient: bool, warn: Warn, *, batched: bool) -> None:
        self.problems = problems
        self.lenient = lenient
        self.warn = warn
        self.batched = batched

    def read(self, data: dict[str, Any]) -> RunSettings:
        """The checked file; raises SettingsError with all problems."""
        self._duplicates()
        self._other_forms(data)
        data = dict(data)
        entry = data.get("default_settings")
        defaults = data["default_settings"] = None if entry is None else self._trainer(("default_settings",), entry)
        read: dict[str, TrainerSettings | None] = {}
        if isinstance(data.get("behaviors"), dict):
            for name, entry in data["behaviors"].items():
                if isinstance(entry, dict) and defaults is not None:
                    entry = over_defaults(defaults, entry, self._class_of, batched=self.batched)
                read[name] = self._trainer(("behaviors", name), entry)
            # Keep the names of behaviors that could not be read: a lesson may refer to them.
            data["behaviors"] = {name: settings or PPOTrainerSettings() for name, settings in read.items()}
        file = self._validate(RunSettings, data, ())
        if file is not None and not self.problems.sentences:
            return file
        if not self.batched:  # behaviors of a batched run are compared with each other once all are valid
            self._untrainable(data)
        self.problems.raise_if_any()
        raise AssertionError("unreadable settings have a problem")

    def _untrainable(self, data: Json) -> None:
        """Add what cannot be trained among the valid parts of a file with mistakes, to report all at once."""
        try:
            rest = RunSettings.model_validate(data)
        except ValidationError as error:
            wrong = {detail["loc"][0] for detail in error.errors()}
            rest = RunSettings.model_validate({key: value for key, value in data.items() if key not in wrong})
        self.problems.add_all(untrainable(rest))

    def _duplicates(self) -> None:
        for location, line in self.problems.document.duplicates:
            place = f"{self.problems.document.name}:{line}: {key_path(location)}"
            if self.lenient:
                self.warn(f"{place} is defined twice; the later one counts")
            else:
                self.problems.sentences.append(f"{place} is defined twice; remove one of the two")

    def _other_forms(self, data: Json) -> None:
        """Report a file of an older ML-Agents in one sentence, and a file of an earlier version by its renamed keys."""
        name = self.problems.document.name
        old = None if self.batched else old_format(data, set(RunSettings.model_fields), name)
        findings = [old] if old is not None else [*moved(data)]
        for location, text in findings:
            self.problems.add(location, text if old is not None else f"{text}, or run: tau-train upgrade {name}")
        if findings:
            self.problems.raise_if_any()

    def _class_of(self, kind: object) -> type[TrainerSettings] | None:
        """The settings class of a ``trainer_type``; None if it is unknown."""
        known = isinstance(kind, str) and (kind in plugins.names("trainers") or plugins.is_place("trainers", kind))
        return trainer_type(str(kind)).settings if known else None

    def _trainer(self, place: Location, entry: Any) -> TrainerSettings | None:
        """One behavior's settings, of the class of its trainer_type."""
        if not isinstance(entry, dict):
            return self._validate(PPOTrainerSettings, entry, place)
        if "framework" in entry:
            self.warn(f"{self.problems.place((*place, 'framework'))} is deprecated and has no effect")
            entry = {key: value for key, value in entry.items() if key != "framework"}
        if "hyperparameters" in entry and "trainer_type" not in entry and not self.lenient:
            self.problems.add(
                (*place, "trainer_type"), "is missing, but hyperparameters are given; add `trainer_type: ppo`"
            )
        kind = entry.get("trainer_type", "ppo")
        try:
            settings = self._class_of(kind)
        except SettingsError as error:
            self.problems.add((*place, "trainer_type"), str(error))
            return None
        if settings is None:
            self.problems.add((*place, "trainer_type"), f"is {kind!r}, {self._unknown(str(kind))}")
            return None
        return self._validate(settings, entry, place)

    def _unknown(self, kind: str) -> str:
        """Message for an unknown ``trainer_type``."""
        package = plugins.package_for_mlagents(kind)
        if package is None:
            return f"which is not a trainer type; {did_you_mean(kind, plugins.names('trainers'))}"
        return (
            f"which the package {package} provides for mlagents-learn: it uses classes of mlagents and cannot train "
            "here; docs/guides/extending.md shows what to change"
        )

    def _validate(self, model: type[_SectionT], data: Any, prefix: Location) -> _SectionT | None:
        try:
            return model.model_validate(data)
        except ValidationError as error:
            unknown = [without_tags(e["loc"]) for e in error.errors() if e["type"] == "extra_forbidden"]
            if not (self.lenient and unknown):
                self.problems.add_errors(error, model, prefix)
                return None
            for location in unknown:
                self.warn(f"{self.problems.place((*prefix, *location))}: unknown key, ignored")
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


def deep_merge(below: Json, above: Json) -> dict[str, Any]:
    """A new mapping: if both values of a key are mappings, they are merged; otherwise ``above`` wins."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = deep_merge(old, value) if both and old is not None else copy.deepcopy(value)
    return merged


def over_defaults(
    defaults: TrainerSettings,
    behavior: Json,
    class_of: Callable[[object], type[TrainerSettings] | None],
    *,
    batched: bool = False,
) -> dict[str, Any]:
    """``behavior`` merged over ``default_settings``; ``class_of`` returns the class of a ``trainer_type``.

    As in ML-Agents, all values of the defaults count, also those that the file does not write; in a ``batched`` run,
    only written ones. If the behavior has another trainer type, which ML-Agents does not support, it takes only the
    hyperparameters that the file writes and that its type has. A fixed player takes no keys of networks.
    """
    base = defaults.model_dump(exclude_unset=batched)
    kind = class_of(behavior.get("trainer_type", defaults.trainer_type))
    if kind is not None and kind is not type(defaults):
        written = defaults.hyperparameters.model_dump(exclude_unset=True)
        known = _hyperparameter_names(kind)
        base["hyperparameters"] = {name: value for name, value in written.items() if name in known}
    if behavior.get("player") is not None:
        base = {key: value for key, value in base.items() if key not in defaults.of_networks}
    return deep_merge(base, behavior)


def _hyperparameter_names(kind: type[TrainerSettings]) -> set[str]:
    numbers = kind.model_fields["hyperparameters"].annotation
    return set(numbers.model_fields) if isinstance(numbers, type) and issubclass(numbers, BaseModel) else set()


def apply_overrides(data: Json, overrides: Json) -> tuple[dict[str, Any], set[Location]]:
    """Set ``overrides`` (keys such as ``env_settings.seed``; ``behaviors.*.x`` = every behavior) in a copy of ``data``.

    Returns the new data and the locations that were set.
    """
    result = copy.deepcopy(dict(data))
    places: set[Location] = set()
    for dotted, value in overrides.items():
        for location in _expand(result, tuple(dotted.split("."))):
            if put(result, location, value):
                places.add(location)
    return result, places


def _expand(data: Json, parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Locations that ``parts`` selects: for ``behaviors.*``, those in all behaviors and in the defaults."""
    if parts[:2] != ("behaviors", "*"):
        return [parts]
    behaviors = data.get("behaviors")
    homes: list[tuple[str, ...]] = [("behaviors", name) for name in behaviors] if isinstance(behaviors, dict) else []
    if "default_settings" in data or not homes:
        homes.append(("default_settings",))
    return [(*home, *parts[2:]) for home in homes]


def put(data: dict[str, Any], location: Location, value: Any) -> bool:
    """Set one value, creating sections on the way; False if a value on the way is not a section."""
    here: Any = data
    for part in location[:-1]:
        here = here.setdefault(part, {})
        if not isinstance(here, dict):
            return False
    here.update(deep_merge(here, {str(location[-1]): value}))
    return True
