"""Recognizes older files: formats of older ML-Agents, with one message each, and earlier keys of this package."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

from tau_trainer.settings.document import Location
from tau_trainer.settings.engines import MOST_ENGINES
from tau_trainer.specs import Json

_CURRICULUM = frozenset({"thresholds", "parameters"})
_SAMPLER = frozenset({"sampler_type", "sampler_parameters"})
_LESSON = frozenset({"name", "value", "completion_criteria"})
CURIOSITY = ("gamma", "use_curiosity", "curiosity_strength", "curiosity_enc_size")
"""Keys of ML-Agents 0.8 and older, replaced by ``reward_signals``."""
RECURRENT = ("use_recurrent", "memory_size", "sequence_length")
"""Keys of ML-Agents up to 0.16, replaced by ``memory``."""
UPDATES = ("train_interval", "num_update", "num_updates")
"""Keys of SAC up to ML-Agents 0.15, replaced by ``steps_per_update``."""
REWARD_UPDATES = ("reward_signal_num_update", "reward_signal_steps_per_update")
"""Keys that SAC had in ``reward_signals`` up to ML-Agents 0.16."""
RENAMED = {
    "trainer": "trainer_type",
    "pretraining": "behavioral_cloning",
    "play_against_current_self_ratio": "play_against_latest_model_ratio",
    "play_against_current_best_ratio": "play_against_latest_model_ratio",
    "conditioning_type": "goal_conditioning_type",
    "var": "st_dev",  # always used as the standard deviation
}
"""Old and new names of renamed keys."""
GONE = ("output_path", "summary_path", "model_path", "graph_scope", "burn_in_ratio", "batches_per_epoch")
"""Keys of a behavior in older ML-Agents that no longer have a meaning."""
_FLAT = frozenset(
    {
        *CURIOSITY,
        *RECURRENT,
        *UPDATES,
        *GONE,
        "batch_size",
        "beta",
        "buffer_init_steps",
        "buffer_size",
        "epsilon",
        "hidden_units",
        "init_entcoef",
        "lambd",
        "learning_rate",
        "learning_rate_schedule",
        "max_steps",
        "normalize",
        "num_epoch",
        "num_layers",
        "save_replay_buffer",
        "steps_per_update",
        "summary_freq",
        "tau",
        "time_horizon",
        "vis_encode_type",
        "brain_to_imitate",
        "trainer",
        "pretraining",
    }
)
"""Keys that were directly below a behavior when behaviors were at the top of the file."""
_OF_A_BEHAVIOR = frozenset({"trainer_type", "hyperparameters", "network_settings", "reward_signals", "self_play"})
"""Keys of a behavior that are not a behavior's name."""
_CONVERTED = {
    "trainer_type": {"trainer", "pretraining", *CURIOSITY, *RECURRENT, *UPDATES},
    "extrinsic": {*REWARD_UPDATES},
    "goal_conditioning_type": {"conditioning_type"},
    "play_against_latest_model_ratio": {name for name in RENAMED if name.startswith("play_against")},
}
"""Old keys that ``upgrade`` converts, by a current key of the section in which users may still write them."""
MOVED = ("curriculum", "parameter_randomization")
"""Sections of ML-Agents 0.17."""

OldFile = Literal["curriculum", "curricula", "samplers", "behaviors", "nameless"]
"""Kinds of file up to ML-Agents 0.16: one behavior's curriculum, several, samplers, behaviors' settings.

``nameless`` is not a format of any version: a behavior's settings without its name.
"""
_KINDS: dict[OldFile, str] = {
    "curriculum": "a curriculum file",
    "curricula": "a curriculum file",
    "samplers": "a sampler file",
    "behaviors": "a file",
}
NAMELESS = "is a behavior's key at the top of the file; move all of them below `behaviors:` and the behavior's name"
"""Message for a file without the name of a behavior."""


def old_kind(data: Json, known: Collection[str]) -> OldFile | None:
    """The kind of file of ML-Agents 0.16 or older; None for any other file. ``known``: the current keys."""
    foreign = {key: value for key, value in data.items() if key not in known}
    sections = [frozenset(value) for value in foreign.values() if isinstance(value, Mapping)]
    if foreign.keys() >= _CURRICULUM:
        return "curriculum"
    if any(key in data for key in ("behaviors", "policies", *MOVED)):
        return None
    if "default_settings" not in data and nameless(foreign):
        return "nameless"
    if any(keys >= _CURRICULUM for keys in sections):
        return "curricula"
    if "resampling-interval" in foreign or any("sampler-type" in keys for keys in sections):
        return "samplers"
    return "behaviors" if "default" in foreign or any(_FLAT & keys for keys in sections) else None


def nameless(data: Json) -> list[str]:
    """Keys of a behavior that are at the top of a file."""
    return [key for key, value in data.items() if key in _OF_A_BEHAVIOR or (key in _FLAT and not mapping(value))]


def is_converted(key: str, known: Collection[str]) -> bool:
    """Whether ``upgrade`` converts ``key`` of a section to one of its current keys, ``known``."""
    return any(place in known and key in keys for place, keys in _CONVERTED.items())


def old_format(data: Json, known: Collection[str], name: str) -> tuple[Location, str] | None:
    """Location and message if the file ``name`` has an old format, or None; ``known``: the current keys."""
    kind = old_kind(data, known)
    if kind == "nameless":
        key = nameless({key: value for key, value in data.items() if key not in known})[0]
        return (key,), f"{NAMELESS}, then run: tau-train upgrade {name}"
    if kind is not None:
        alone = kind == "behaviors"
        remedy = name if alone else f"TRAINER-FILE {name}"
        return (), f"is {_KINDS[kind]} for ML-Agents 0.16 or older; convert it with: tau-train upgrade {remedy}"
    remedy = f"convert it with: tau-train upgrade {name}"
    for key in MOVED:
        if key in data:
            text = f"is a section of ML-Agents 0.17, replaced by `environment_parameters:`; {remedy}"
            return (key,), text
    for parameter, value in mapping(data.get("environment_parameters")).items():
        lessons = mapping(value).get("curriculum")
        if isinstance(lessons, list) and any(lesson_name(lesson) for lesson in lessons):
            text = f"has lessons in an old format (`- Lesson0:`), which current ML-Agents rejects too; {remedy}"
            return ("environment_parameters", parameter), text
        values = (
            [value, *(mapping(lesson).get("value") for lesson in lessons)] if isinstance(lessons, list) else [value]
        )
        if any(old_sampler(each) for each in values):
            return ("environment_parameters", parameter), f"has a sampler in the format of ML-Agents 0.17; {remedy}"
    return None


def old_sampler(value: object) -> bool:
    """Whether this is a sampler of ML-Agents 0.17 or older, with its numbers next to its type."""
    parts = mapping(value)
    return "sampler-type" in parts or (len(parts) > 1 and parts.keys() & _SAMPLER == {"sampler_type"})


def lesson_name(lesson: object) -> str | None:
    """The name of a lesson if the name is a key, as in ``- Lesson0: {...}``; otherwise None."""
    if isinstance(lesson, Mapping) and len(lesson) == 1 and not _LESSON & lesson.keys():
        return str(next(iter(lesson)))
    return None


_CLOCK = ("max_steps", "summary_freq", "checkpoint_interval", "keep_checkpoints")
"""Keys that were at the top of a file for ``tau-train batch`` and now belong to a behavior."""
_ACTORS = {
    "flush_record_interval": "behaviors.*.summary_freq (counted in decisions)",
    "record_compute_cost_interval": "behaviors.*.summary_freq (counted in decisions)",
    "record_agent_info_interval": "behaviors.*.summary_freq (counted in decisions)",
    "save_interval": "behaviors.*.checkpoint_interval (counted in decisions)",
    "warmup_period": "behaviors.*.hyperparameters.buffer_init_steps",
    "eps_min": "async_trainer.exploration",
    "eps_max": "async_trainer.exploration",
}
"""Old keys of ``async_trainer``, and the keys that replace them."""

OPTS_ALONE = {key: 50_000 if key == "save_interval" else 5_000 for key, new in _ACTORS.items() if "counted" in new}
"""The old keys that counted gradient steps and have no equivalent, with their old defaults."""
LEFT_OUT = "is left out; summary_freq and checkpoint_interval count decisions instead of gradient steps"
"""Message for these keys."""


def _new_key(location: tuple[str, ...], anywhere: str = "default_settings") -> str | None:
    """The current name of a key of an earlier version; None for any other key."""
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
    """The current key for an override of an earlier version; None for any other key."""
    return _new_key(tuple(dotted.split(".")), "behaviors.*")


def moved(data: Json) -> Iterator[tuple[Location, str]]:
    """Locations of renamed keys in a file, with a message for each."""
    for key, value in data.items():
        places: list[tuple[str, ...]] = [(key,)]
        if key == "policies":
            places += [(key, name, "gamma") for name, policy in mapping(value).items() if "gamma" in mapping(policy)]
        elif key in ("seed", *_CLOCK) and "environment" not in data:
            continue
        elif key == "async_trainer":
            places = [(key, name) for name in mapping(value)]
        for place in places:
            if (new := _new_key(place)) is not None:
                spread = _spread(mapping(value)) if place[-1] in ("eps_min", "eps_max") else None
                yield place, f"is now {new}; write {f'exploration: {_written(spread)}' if spread else 'that instead'}"


def dropped(data: Json) -> list[Location]:
    """Locations of :data:`OPTS_ALONE` keys with other values than the defaults, which :func:`migrated` drops.

    A run stored every key, even if the user had not set it.
    """
    actors = mapping(data.get("async_trainer"))
    return [("async_trainer", key) for key, usual in OPTS_ALONE.items() if actors.get(key, usual) != usual]


def migrated(data: Json) -> dict[str, Any]:
    """The same settings with the current keys.

    Intervals of actors in gradient steps are dropped; the current keys count decisions.
    """
    found = copy.deepcopy(dict(data))
    policies = found.pop("policies", None)
    if policies is not None:
        found["behaviors"] = policies
        for policy in map(mapping, mapping(policies).values()):
            if "gamma" in policy:
                signals = mapping(policy.get("reward_signals"))
                extrinsic = {**mapping(signals.get("extrinsic")), "gamma": policy.pop("gamma")}
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
        behaviors = [found.get("default_settings"), *mapping(found.get("behaviors")).values()]
        for behavior in behaviors if warmup is not None else ():
            if isinstance(behavior, dict):
                behavior["hyperparameters"] = {**mapping(behavior.get("hyperparameters")), "buffer_init_steps": warmup}
    return found


def _written(entries: Sequence[Json]) -> str:
    """A list of mappings as YAML on one line."""
    each = (", ".join(f"{key}: {value}" for key, value in entry.items()) for entry in entries)
    return f"[{', '.join(f'{{{entry}}}' for entry in each)}]"


def _spread(actors: Json) -> list[dict[str, Any]] | None:
    """Exploration of each actor, with epsilons spaced evenly from ``eps_min`` to ``eps_max``; None if not given.

    Source: border's Atari actors, ``(eps_max - eps_min) * i / (n - 1) + eps_min``.
    """
    low, high, count = actors.get("eps_min"), actors.get("eps_max"), actors.get("actors", 4)
    if not (isinstance(low, int | float) and isinstance(high, int | float) and isinstance(count, int)):
        return None
    count = min(count, MOST_ENGINES)
    step = (high - low) / max(count - 1, 1)
    return [{"type": "eps_greedy", "eps": round(low + step * actor, 9)} for actor in range(count)]


def mapping(value: object) -> dict[str, Any]:
    """``value`` if it is a mapping, otherwise an empty one."""
    return value if isinstance(value, dict) else {}
