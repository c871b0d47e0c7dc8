"""Converts files of older ML-Agents to the current format for ``tau-train upgrade``, without writing files.

Up to 0.16, behaviors were at the top of the file with all their keys on one level, over a section ``default``, and
curricula and samplers had their own files. 0.17 had sections ``curriculum`` and ``parameter_randomization``. Source of
the formats: ML-Agents' migration notes, and its documentation of those versions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import yaml

from tau_trainer.settings.document import Document, Location, parse_document
from tau_trainer.settings.earlier import (
    CURIOSITY,
    GONE,
    LEFT_OUT,
    MOVED,
    NAMELESS,
    OPTS_ALONE,
    RECURRENT,
    RENAMED,
    REWARD_UPDATES,
    UPDATES,
    lesson_name,
    mapping,
    migrated,
    moved,
    nameless,
    old_kind,
    old_sampler,
)
from tau_trainer.settings.hyperparameters import PPOHyperparameters, SACHyperparameters
from tau_trainer.settings.kinds import is_number
from tau_trainer.settings.loading import interpret
from tau_trainer.settings.networks import NetworkSettings
from tau_trainer.settings.outlook import untrainable
from tau_trainer.settings.problems import Problems
from tau_trainer.settings.run import RunSettings
from tau_trainer.specs import Json

_NUMBERS: Mapping[str, Collection[str]] = {
    "ppo": PPOHyperparameters.model_fields.keys(),
    "sac": SACHyperparameters.model_fields.keys(),
    "bc": ("batch_size", "learning_rate"),
}
_NETWORK = NetworkSettings.model_fields.keys() - {"memory"}
_GONE = ("framework", *GONE)
_READ_TOGETHER = (*CURIOSITY, *RECURRENT, *UPDATES)
_CRITERIA = ("measure", "min_lesson_length", "signal_smoothing")
_OFFLINE, _ONLINE = "offline_bc", ("imitation", "online_bc")
_CLOCK = ("max_steps", "summary_freq", "time_horizon")
_ORDER = ("trainer_type", "hyperparameters", "network_settings", "reward_signals")
_Table = dict[str, Any]


@dataclass(slots=True)
class Upgraded:
    """A file in the current format."""

    data: _Table
    changed: bool = True
    """False if the file already had this format."""
    notes: list[str] = field(default_factory=list)
    """One sentence for each key that was left out or has another meaning now."""
    imitated: list[str] = field(default_factory=list)
    """One sentence for each behavior with a trainer that imitated a person during play, which has no successor."""


def upgrade(documents: Sequence[Document]) -> Upgraded:
    """One file in the current format from ``documents``: a trainer's file, and its curricula and samplers.

    Raises SettingsError for keys without a place in the current format, and for invalid values.
    """
    earlier = [*moved(documents[0].data)]
    if earlier:
        return _of_today(documents[0], earlier)
    result, sentences = Upgraded({}), list[str]()
    default: _Table | None = None
    for document in documents:
        file = _File(document, result, sentences)
        file.convert()
        default = file.default or default
    if result.data.get("behaviors") or default is not None:
        result.notes += [f"{sentence}; this behavior is left out" for sentence in result.imitated]
    else:
        sentences += result.imitated
    Problems(documents[0], sentences=sentences).raise_if_any()
    if len(documents) == 1 and default is None and result.data == documents[0].data:
        result.changed = False
        return result
    lean = result.data if default is None else _lean(result.data, default)
    name = documents[0].name
    settings, _ = interpret(Document(name, lean), {}, True, {}, result.notes.append)
    if default is not None:
        full, _ = interpret(Document(name, result.data), {}, True, {}, lambda text: None)
        kinds = {behavior.trainer_type for behavior in full.behaviors.values()} | {default.get("trainer_type", "ppo")}
        if len(kinds) == 1 and settings.behaviors == full.behaviors:
            result.data = lean
        else:  # default_settings would set more than default did, and mlagents-learn allows one trainer type there
            settings = full
            result.notes.append(
                f"{name}: default is merged into every behavior, because it does not work as default_settings; "
                "behaviors that the file does not name no longer get it"
            )
    result.data = _picked(result.data, settings.model_dump(mode="json"))
    refused = Problems(Document(name, {}))
    refused.add_all(untrainable(settings))
    result.notes += refused.sentences
    return result


def _of_today(document: Document, earlier: Sequence[tuple[Location, str]]) -> Upgraded:
    """A file of an earlier version of this package with the current keys; keys without an equivalent are noted."""
    problems, result = Problems(document), Upgraded(migrated(document.data))
    for place, _ in earlier:
        if place[-1] in OPTS_ALONE:
            result.notes.append(f"{problems.place(place)} {LEFT_OUT}")
    interpret(Document(document.name, result.data), {}, False, {})
    return result


def dumped(data: _Table, heading: str) -> str:
    """YAML below a comment, checked by reading it back. Raises SettingsError."""
    text = f"# {heading}\n{yaml.safe_dump(data, sort_keys=False, allow_unicode=True)}"
    interpret(parse_document(text, "the converted file"), {}, False, {})
    return text


def _lean(data: _Table, default: _Table) -> _Table:
    """``data`` with ``default`` as default_settings, and behaviors without the values that they inherit from it."""
    behaviors = {name: _beyond(behavior, default) for name, behavior in data.get("behaviors", {}).items()}
    return {"default_settings": default, **data, "behaviors": behaviors}


def _beyond(full: Any, below: Any) -> Any:
    if not isinstance(full, dict) or not isinstance(below, dict):
        return full
    known = {key: value for key, value in full.items() if key not in below or below[key] != value}
    return {key: _beyond(value, below.get(key)) for key, value in known.items()}


def _picked(template: Any, known: Any) -> Any:
    """The keys of ``known`` that ``template`` has, in the template's order."""
    if isinstance(template, dict) and isinstance(known, dict):
        if "curriculum" in template and "curriculum" not in known:  # a single lesson becomes its value
            return known
        return {key: _picked(value, known[key]) for key, value in template.items() if key in known}
    if isinstance(template, list) and isinstance(known, list):
        return [_picked(*pair) for pair in zip(template, known, strict=True)]
    return known


class _File:
    """Converts one file into ``result``."""

    def __init__(self, document: Document, result: Upgraded, sentences: list[str]) -> None:
        self.problems = Problems(document, sentences=sentences)
        self.result = result
        self.default: _Table | None = None

    def convert(self) -> None:
        """Add the file's content to the result."""
        data, result = dict(self.problems.document.data), self.result.data
        for location, _ in self.problems.document.duplicates:
            self._note(location, "is defined twice; the later one counts")
        match old_kind(data, RunSettings.model_fields):
            case "curriculum":
                self._curriculum(PurePath(self.problems.document.name).stem, data, ())
            case "curricula":
                self._curricula(data, ())
            case "samplers":
                self._samplers(data, ())
            case "behaviors":
                self._behaviors(data)
            case "nameless":
                known = {key: value for key, value in data.items() if key not in RunSettings.model_fields}
                self.problems.add((nameless(known)[0],), f"{NAMELESS}, then run this command again")
            case None:
                moved = {key: data.pop(key) for key in MOVED if key in data}
                for key, value in data.items():
                    self._section(key, value)
                self._curricula(moved.get("curriculum"), ("curriculum",))
                self._samplers(moved.get("parameter_randomization"), ("parameter_randomization",))
        result.update({key: result.pop(key) for key in ("environment_parameters",) if key in result})

    def _table(self, value: Any, place: Location) -> _Table:
        """``value`` if it is a mapping, otherwise an empty one; any value but None is then reported."""
        if value is not None and not isinstance(value, dict):
            self.problems.add(place, "must be a mapping of keys")
        return value if isinstance(value, dict) else {}

    def _note(self, place: Location, text: str) -> None:
        self.result.notes.append(f"{self.problems.place(place)} {text}")

    def _section(self, key: str, value: Any) -> None:
        """Convert a section of a file of 0.17 or later."""
        data = self.result.data
        if key == "environment_parameters" and value is not None:
            data.setdefault(key, {})
            for name, parameter in self._table(value, (key,)).items():
                self._parameter(name, _parameter(parameter), (key, name))
        elif key == "behaviors":
            data.setdefault(key, {})
            for name, entry in self._table(value, (key,)).items():
                self._behavior(name, entry, (key, name))
        elif key == "default_settings" and isinstance(value, dict):
            data[key] = self._converted(value, (key,), value)
        else:
            data[key] = value

    def _behaviors(self, data: _Table) -> None:
        """Convert a file of 0.16 or older, in which a behavior's value may be another behavior's name."""
        default = self._table(data.pop("default", None), ("default",))
        if _kind(default) in _ONLINE:
            if not data:
                self._imitated(default, ("default",))
        elif default:
            converted = self._converted(default, ("default",), default)
            if _kind(default) != _OFFLINE or not data:  # each behavior names its own recordings
                self.default = converted
        for name, entry in data.items():
            passed = {name}
            while isinstance(entry, str) and entry in data and entry not in passed:
                passed.add(entry)
                entry = data[entry]
            self._behavior(name, entry, (name,), default)
        text = "max_steps and summary_freq count decisions of all agents since 0.14; multiply those of an older file "
        self.result.notes.append(f"{self.problems.document.name}: {text}by the number of agents in its scene")
        behaviors = [self.default, *self.result.data.get("behaviors", {}).values()]
        if any(mapping(mapping(entry).get("network_settings")).get("memory") for entry in behaviors):
            text = "memory_size is for the policy only since 0.15; halve that of an older file (for sac: a quarter)"
            self.result.notes.append(f"{self.problems.document.name}: {text}")

    def _behavior(self, name: str, entry: Any, place: Location, default: Json | None = None) -> None:
        behaviors = self.result.data.setdefault("behaviors", {})
        if name in behaviors:
            self.problems.add(place, "is in two of the files; remove it from one of them")
        elif isinstance(entry, Mapping) and _kind(whole := {**(default or {}), **entry}) in _ONLINE:
            self._imitated(whole, place)
        elif isinstance(entry, Mapping):
            behaviors[name] = self._converted({**(default or {}), **entry}, place, entry)
        else:
            behaviors[name] = entry

    def _imitated(self, entry: Json, place: Location) -> None:
        where = self.problems.place((*place, "trainer"))
        text = "which ML-Agents dropped in 0.11; record a demonstration, and use ppo with a behavioral_cloning section"
        self.result.imitated.append(f"{where} is {_kind(entry)}, {text}")

    def _converted(self, entry: Json, place: Location, said: Json) -> _Table:
        """A behavior's settings. Notes are added only for keys in ``said``, the behavior's own, not in ``default``."""
        kind = "bc" if _kind(entry) == _OFFLINE else _kind(entry)
        out: _Table = {}
        numbers: _Table = {}
        network: _Table = {}
        left_out: dict[str, str] = {}
        for key, value in entry.items():
            new = RENAMED.get(key, key)
            if key in _GONE:
                left_out[key] = "no longer has an effect and is left out"
            elif _kind(entry) == _OFFLINE and key in _CLOCK:
                left_out[key] = "counted decisions, but bc counts gradient steps; it is left out"
            elif any(new in known for known in _NUMBERS.values()):
                if new in _NUMBERS.get(kind, _NUMBERS["ppo"]):
                    numbers[new] = value
                else:
                    left_out[key] = f"is not supported by {kind} and is left out"
            elif new in _NETWORK:
                network[new] = value
            elif key in ("hyperparameters", "network_settings") and isinstance(value, Mapping):
                section = out[key] = numbers if key == "hyperparameters" else network
                section.update(_renamed(value))
            elif key in ("reward_signals", "self_play") and isinstance(value, Mapping):
                out[key] = {RENAMED.get(name, name): _signal(below) for name, below in value.items()}
            elif key not in _READ_TOGETHER:
                out[new] = kind if new == "trainer_type" else value
        if "use_recurrent" in entry:
            given = {key: entry[key] for key in RECURRENT[1:] if key in entry}
            network["memory"] = given if entry["use_recurrent"] else None
        if kind == "bc" or "reward_signals" in entry:  # a file of 0.9 or later, which ignores the old keys
            left_out |= {key: "no longer has an effect and is left out" for key in CURIOSITY if key in entry}
        else:
            out |= _rewards(entry)
        signals = out.get("reward_signals", {})
        rewards, every = (signals.pop(key, None) if isinstance(signals, dict) else None for key in REWARD_UPDATES)
        if kind == "sac":
            left_out |= self._updates(numbers, entry, rewards, place)
            numbers |= {} if every is None else {"reward_signal_steps_per_update": every}
        if (numbers or network) and not kind and not {"hyperparameters", "network_settings"} & entry.keys():
            out["trainer_type"] = "ppo"
        for key, text in left_out.items():
            if key in said:
                self._note((*place, key), text)
        out |= {"hyperparameters": numbers} if numbers else {}
        out |= {"network_settings": network} if network else {}
        return {key: out[key] for key in _ORDER if key in out} | out

    def _updates(self, numbers: _Table, entry: Json, rewards: Any, place: Location) -> dict[str, str]:
        """Set SAC's decisions for each update in ``numbers``; returns messages for keys from before 0.16."""
        old = {key: entry[key] for key in UPDATES if key in entry}
        for key, value in (old | {"reward_signal_num_update": 1 if rewards is None else rewards}).items():
            if not is_number(value) or not float(value) > 0:
                self.problems.add((*place, key), f"must be a number above 0, not {value}")
                return {}
        interval = float(old.get("train_interval", 1))
        if old and "steps_per_update" not in entry:
            numbers["steps_per_update"] = interval / float(old.get("num_update", old.get("num_updates", 1)))
            rewards = None if rewards is None else interval / float(rewards)
        if old or "steps_per_update" in entry:  # from 0.16, this number counts decisions, despite its name
            numbers["reward_signal_steps_per_update"] = numbers["steps_per_update"] if rewards is None else rewards
        text = f"became steps_per_update {numbers.get('steps_per_update')}, which counts decisions of all agents; "
        return dict.fromkeys(old, f"{text}multiply it by the number of agents in the scene")

    def _curricula(self, curricula: Any, place: Location) -> None:
        for behavior, table in self._table(curricula, place).items():
            self._curriculum(behavior, table, (*place, behavior))

    def _curriculum(self, behavior: str, table: Any, place: Location) -> None:
        """Convert a curriculum of a behavior for several parameters to one curriculum for each parameter."""
        if not isinstance(table, Mapping) or not isinstance(thresholds := table.get("thresholds"), list):
            return self.problems.add(place, "must be a curriculum: thresholds, measure and parameters")
        criteria = {"behavior": behavior, **{key: table[key] for key in _CRITERIA if key in table}}
        for name, values in self._table(table.get("parameters"), (*place, "parameters")).items():
            here = (*place, "parameters", name)
            if not isinstance(values, list) or len(values) != len(thresholds) + 1:
                self.problems.add(here, f"must be {len(thresholds) + 1} values, one more than there are thresholds")
                continue
            lessons = [{"name": f"Lesson{i}", "value": value} for i, value in enumerate(values)]
            for lesson, threshold in zip(lessons, thresholds, strict=False):
                lesson["completion_criteria"] = criteria | {"threshold": threshold}
            self._parameter(name, {"curriculum": lessons}, here)
        return None

    def _samplers(self, samplers: Any, place: Location) -> None:
        for name, sampler in self._table(samplers, place).items():
            here = (*place, name)
            if name == "resampling-interval":
                self._note(here, "is left out: values are now drawn whenever the scene asks for them")
            else:
                self._parameter(name, _parameter(sampler), here)

    def _parameter(self, name: str, value: Any, place: Location) -> None:
        if self.result.data.get("environment_parameters") is None:
            self.result.data["environment_parameters"] = {}
        parameters = self.result.data["environment_parameters"]
        if name in parameters:
            self.problems.add(place, f"is a second definition of {name}, which can have only one; remove one")
        parameters[name] = value


def _kind(entry: Json) -> str:
    """The trainer of a behavior, by its name in the file."""
    return str(entry.get("trainer_type", entry.get("trainer", "")))


def _renamed(section: Json) -> _Table:
    return {RENAMED.get(key, key): value for key, value in section.items()}


def _rewards(entry: Json) -> _Table:
    """``reward_signals`` of a behavior of 0.8 or older, where curiosity shared the game's discount."""
    gamma = {"gamma": entry["gamma"]} if "gamma" in entry else {}
    curious = bool(entry.get("use_curiosity"))
    if not (gamma or curious):
        return {}
    signals = {"extrinsic": gamma}
    if curious:
        moved = {"curiosity_strength": "strength", "curiosity_enc_size": "encoding_size"}
        signals["curiosity"] = _signal(gamma | {new: entry[key] for key, new in moved.items() if key in entry})
    return {"reward_signals": signals}


def _signal(value: Any) -> Any:
    """A reward signal, with ``encoding_size`` converted to its network's hidden_units."""
    if isinstance(value, Mapping) and isinstance(value.get("network_settings"), Mapping):
        value = {**value, "network_settings": _renamed(value["network_settings"])}
    if not isinstance(value, Mapping) or "encoding_size" not in value:
        return value
    size = value["encoding_size"]
    network = {} if size is None else {"network_settings": {"hidden_units": size}}
    return network | {key: below for key, below in value.items() if key != "encoding_size"}


def _parameter(value: Any) -> Any:
    """An environment parameter of any format, with named lessons and samplers in the current format."""
    if not isinstance(value, Mapping):
        return value
    if isinstance(lessons := value.get("curriculum"), list):
        return {**value, "curriculum": [_lesson(lesson) for lesson in lessons]}
    if not old_sampler(value):
        return value
    kind = value.get("sampler-type", value.get("sampler_type"))
    kind = "multirangeuniform" if kind == "multirange_uniform" else kind
    parameters = _renamed({key: below for key, below in value.items() if not key.startswith("sampler")})
    return {"sampler_type": kind, "sampler_parameters": parameters}


def _lesson(lesson: Any) -> Any:
    name = lesson_name(lesson)
    if name is not None and isinstance(lesson[name], Mapping):
        lesson = {"name": name, **lesson[name]}
    if isinstance(lesson, Mapping) and "value" in lesson:
        return {**lesson, "value": _parameter(lesson["value"])}
    return lesson
