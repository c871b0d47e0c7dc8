"""Files that older ML-Agents wrote otherwise: recognised, so that one sentence says so instead of one for every key."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tau_trainer.settings.document import Location

_CURRICULUM = frozenset({"thresholds", "measure"})
_LESSON = frozenset({"name", "value", "completion_criteria"})
_FLAT = frozenset({"trainer", "batch_size", "buffer_size", "learning_rate", "normalize", "num_layers", "hidden_units"})
"""What stood directly below a behavior, which stood at the top of the file."""
_NO_LESSONS = "this version trains no curricula yet, so give the parameter a number or a sampler"


def old_format(data: Mapping[str, Any], known: Collection[str]) -> tuple[Location, str] | None:
    """Where a file is of an old format and what to say about it; None for any other. ``known``: today's keys."""
    foreign = {key: value for key, value in data.items() if key not in known}
    sections = {key: frozenset(value) for key, value in foreign.items() if isinstance(value, Mapping)}
    if foreign.keys() >= _CURRICULUM or any(keys >= _CURRICULUM for keys in sections.values()):
        text = "is a curriculum file for ML-Agents 0.16 or older; today lessons stand under `environment_parameters:`, "
        return (), f"{text}but {_NO_LESSONS}"
    if "behaviors" not in data and ("default" in foreign or any(_FLAT & keys for keys in sections.values())):
        text = "is a file for ML-Agents 0.16 or older; move its behaviors under `behaviors:` and their numbers under "
        return (
            (),
            f"{text}`hyperparameters:`, or let `python -m mlagents.trainers.upgrade_config` of mlagents 1.x do it",
        )
    for key in ("curriculum", "parameter_randomization"):
        if key in foreign:
            more = f"; {_NO_LESSONS}" if key == "curriculum" else ""
            return (key,), f"is how ML-Agents 0.17 wrote it; today it stands under `environment_parameters:`{more}"
    return _named_lessons(data.get("environment_parameters"))


def _named_lessons(parameters: object) -> tuple[Location, str] | None:
    """Lessons that are keys themselves, as in ``- Lesson0: {...}``."""
    for name, value in parameters.items() if isinstance(parameters, Mapping) else ():
        lessons = value.get("curriculum") if isinstance(value, Mapping) else None
        for lesson in lessons if isinstance(lessons, list) else ():
            if isinstance(lesson, Mapping) and len(lesson) == 1 and not _LESSON & lesson.keys():
                text = "has lessons in an old form (`- Lesson0:`), which ML-Agents refuses today too; "
                return ("environment_parameters", name), text + _NO_LESSONS
    return None
