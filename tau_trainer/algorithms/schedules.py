"""Numbers that change over a run: by their own schedules, or with ML-Agents' floors."""

from __future__ import annotations

from typing import Literal

from tau_trainer.settings.hyperparameters import Hyperparameters
from tau_trainer.settings.schedules import Scheduled, at

LEARNING_RATE_FLOOR = 1e-10
EPSILON_FLOOR = 0.1
BETA_FLOOR = 1e-5


def learning_rate(hyper: Hyperparameters, progress: float, max_steps: float) -> float:
    """The learning rate at ``progress``, as :func:`scheduled` has it."""
    return scheduled(hyper.learning_rate, hyper.learning_rate_schedule, progress, LEARNING_RATE_FLOOR, max_steps)


def scheduled(
    number: Scheduled,
    kind: Literal["constant", "linear"],
    progress: float,
    floor: float,
    max_steps: float,
) -> float:
    """The value at ``progress`` (0 = start, 1 = ``max_steps``; values outside are clamped).

    ``linear`` is ML-Agents' polynomial decay of power 1: ``(initial - floor) * (1 - progress) + floor``. An initial
    value below the floor stays as it is instead of rising to the floor. A number that is a schedule itself follows that
    schedule, by steps out of ``max_steps``.
    """
    progress = min(max(progress, 0.0), 1.0)
    if not isinstance(number, int | float):
        return at(number, progress * max_steps)
    if kind == "constant" or number <= floor:
        return number
    return (number - floor) * (1.0 - progress) + floor
