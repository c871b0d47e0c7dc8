"""Files of before: forms of older ML-Agents, each told in one sentence, and keys that this package had."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

from tau_trainer.settings.document import Location

_CURRICULUM = frozenset({"thresholds", "parameters"})
_LESSON = frozenset({"name", "value", "completion_criteria"})
_FLAT = frozenset({"trainer", "batch_size", "buffer_size", "learning_rate", "normalize", "num_layers", "hidden_units"})
"""What stood directly below a behavior, which stood at the top of the file."""
GONE = ("output_path", "summary_path", "model_path")
"""Keys of a behavior in older ML-Agents that say nothing any more."""
MOVED = ("curriculum", "parameter_randomization")
"""Sections of ML-Agents 0.17."""

_MOST_ACTORS = 1000

OldFile = Literal["curriculum", "curricula", "samplers", "behaviors"]
"""Kinds of file up to ML-Agents 0.16: one behavior's curriculum, several, samplers, behaviors' settings."""
_KINDS: dict[OldFile, str] = {
    "curriculum": "a curriculum file",
    "curricula": "a curriculum file",
    "samplers": "a sampler file",
    "behaviors": "a file",
}


def old_kind(data: Mapping[str, Any], known: Collection[str]) -> OldFile | None:
    """Which file of ML-Agents 0.16 or older this is; None for any other. ``known``: today's keys."""
    foreign = {key: value for key, value in data.items() if key not in known}
    sections = [frozenset(value) for value in foreign.values() if isinstance(value, Mapping)]
    if foreign.keys() >= _CURRICULUM:
        return "curriculum"
    if "behaviors" in data or any(key in data for key in MOVED):
        return None
    if any(keys >= _CURRICULUM for keys in sections):
        return "curricula"
    if "resampling-interval" in foreign or any("sampler-type" in keys for keys in sections):
        return "samplers"
    return "behaviors" if "default" in foreign or any(_FLAT & keys for keys in sections) else None


def old_format(data: Mapping[str, Any], known: Collection[str], name: str) -> tuple[Location, str] | None:
    """Where the file ``name`` is of an old format and what to say of it, or None; ``known`` are today's keys."""
    kind = old_kind(data, known)
    if kind is not None:
        alone = kind == "behaviors"
        remedy = name if alone else f"TRAINER-FILE {name}"
        return (), f"is {_KINDS[kind]} for ML-Agents 0.16 or older; convert it with: tau-train upgrade {remedy}"
    remedy = f"convert it with: tau-train upgrade {name}"
    for key in MOVED:
        if key in data:
            text = f"is how ML-Agents 0.17 wrote it; today it stands under `environment_parameters:`, so {remedy}"
            return (key,), text
    for parameter, value in _mapping(data.get("environment_parameters")).items():
        lessons = _mapping(value).get("curriculum")
        if isinstance(lessons, list) and any(lesson_name(lesson) for lesson in lessons):
            text = f"has lessons in an old form (`- Lesson0:`), which ML-Agents refuses today too; {remedy}"
            return ("environment_parameters", parameter), text
    return None


def lesson_name(lesson: object) -> str | None:
    """The name of a lesson that is a key itself, as in ``- Lesson0: {...}``; None for any other."""
    if isinstance(lesson, Mapping) and len(lesson) == 1 and not _LESSON & lesson.keys():
        return str(next(iter(lesson)))
    return None


_CLOCK = ("max_steps", "summary_freq", "checkpoint_interval", "keep_checkpoints")
"""What stood at the top of a file for ``tau-train batch``, and is a behavior's."""
_ACTORS = {
    "flush_record_interval": "behaviors.*.summary_freq (counted in decisions)",
    "record_compute_cost_interval": "behaviors.*.summary_freq (counted in decisions)",
    "record_agent_info_interval": "behaviors.*.summary_freq (counted in decisions)",
    "save_interval": "behaviors.*.checkpoint_interval (counted in decisions)",
    "warmup_period": "behaviors.*.hyperparameters.buffer_init_steps",
    "eps_min": "async_trainer.exploration",
    "eps_max": "async_trainer.exploration",
}
"""What stood in ``async_trainer``, and what says it now."""

OPTS_ALONE = {key: 50_000 if key == "save_interval" else 5_000 for key, new in _ACTORS.items() if "counted" in new}
"""Of these what counted in gradient steps, of which nothing is left, and how many they were unless a file said so."""
LEFT_OUT = "is left out; summary_freq and checkpoint_interval count decisions instead of gradient steps"
"""What is said of them."""


def _new_key(location: tuple[str, ...], anywhere: str = "default_settings") -> str | None:
    """What a key is called today; None: it is not one of an earlier version."""
    match location:
        case ("policies", name, "gamma"):
            return f"behaviors.{name}.reward_signals.extrinsic.gamma"
        case ("policies", *below):
            return ".".join(["behaviors", *below])
        case ("seed",):
            return "env_settings.seed"
        case (key,) if key in _CLOCK:
            return f"{anywhere}.{key}"
        case ("async_trainer", key):
            return _ACTORS.get(key)
    return None


def moved_override(dotted: str) -> str | None:
    """The key of today for an override of an earlier version; None: it is none."""
    return _new_key(tuple(dotted.split(".")), "behaviors.*")


def moved(data: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    """Where a file says a key that is called otherwise today, and what to say of it."""
    for key, value in data.items():
        places: list[tuple[str, ...]] = [(key,)]
        if key == "policies":
            places += [(key, name, "gamma") for name, policy in _mapping(value).items() if "gamma" in _mapping(policy)]
        elif key in ("seed", *_CLOCK) and "environment" not in data:
            continue
        elif key == "async_trainer":
            places = [(key, name) for name in _mapping(value)]
        for place in places:
            if (new := _new_key(place)) is not None:
                spread = _spread(_mapping(value)) if place[-1] in ("eps_min", "eps_max") else None
                yield place, f"is {new} today; write {f'exploration: {_written(spread)}' if spread else 'that'}"


def dropped(data: Mapping[str, Any]) -> list[Location]:
    """Where a stored run says something in :data:`OPTS_ALONE` that it had not by itself: :func:`migrated` loses that.

    A run stored every key, whoever had written it.
    """
    actors = _mapping(data.get("async_trainer"))
    return [("async_trainer", key) for key, usual in OPTS_ALONE.items() if actors.get(key, usual) != usual]


def migrated(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same in the keys of today.

    Actors' intervals that were counted in gradient steps are left out, for those that count decisions are there.
    """
    found = copy.deepcopy(dict(data))
    policies = found.pop("policies", None)
    if policies is not None:
        found["behaviors"] = policies
        for policy in map(_mapping, _mapping(policies).values()):
            if "gamma" in policy:
                signals = _mapping(policy.get("reward_signals"))
                extrinsic = {**_mapping(signals.get("extrinsic")), "gamma": policy.pop("gamma")}
                policy["reward_signals"] = {**signals, "extrinsic": extrinsic}
        if clock := {key: found.pop(key) for key in _CLOCK if key in found}:
            found["default_settings"] = clock
        if "seed" in found:
            found["env_settings"] = {"seed": found.pop("seed")}
    if isinstance(actors := found.get("async_trainer"), dict):
        spread = _spread(actors)
        warmup = {key: actors.pop(key) for key in _ACTORS if key in actors}.get("warmup_period")
        if spread is not None:
            actors["exploration"] = spread
        behaviors = [found.get("default_settings"), *_mapping(found.get("behaviors")).values()]
        for behavior in behaviors if warmup is not None else ():
            if isinstance(behavior, dict):
                behavior["hyperparameters"] = {**_mapping(behavior.get("hyperparameters")), "buffer_init_steps": warmup}
    return found


def _written(entries: Sequence[Mapping[str, Any]]) -> str:
    """A list of mappings as YAML has it in a line."""
    each = (", ".join(f"{key}: {value}" for key, value in entry.items()) for entry in entries)
    return f"[{', '.join(f'{{{entry}}}' for entry in each)}]"


def _spread(actors: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """What each actor explores with whose epsilons lie evenly from ``eps_min`` to ``eps_max``; None: they are not said.

    Source: border's Atari actors, ``(eps_max - eps_min) * i / (n - 1) + eps_min``.
    """
    low, high, count = actors.get("eps_min"), actors.get("eps_max"), actors.get("actors", 4)
    if not (isinstance(low, int | float) and isinstance(high, int | float) and isinstance(count, int)):
        return None
    count = min(count, _MOST_ACTORS)
    step = (high - low) / max(count - 1, 1)
    return [{"type": "eps_greedy", "eps": round(low + step * actor, 9)} for actor in range(count)]


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
