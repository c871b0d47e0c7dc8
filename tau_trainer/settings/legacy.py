"""Files that older ML-Agents wrote otherwise: recognised, so that one sentence says so instead of one for every key."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

from tau_trainer.settings.document import Location

_CURRICULUM = frozenset({"thresholds", "parameters"})
_LESSON = frozenset({"name", "value", "completion_criteria"})
_FLAT = frozenset({"trainer", "batch_size", "buffer_size", "learning_rate", "normalize", "num_layers", "hidden_units"})
"""What stood directly below a behavior, which stood at the top of the file."""
MOVED = ("curriculum", "parameter_randomization")
"""Sections of ML-Agents 0.17."""

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


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
