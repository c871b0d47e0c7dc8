"""Numbers that change over a run, with ML-Agents' floors."""

from __future__ import annotations

from typing import Literal

LEARNING_RATE_FLOOR = 1e-10
EPSILON_FLOOR = 0.1
BETA_FLOOR = 1e-5


def scheduled(initial: float, kind: Literal["constant", "linear"], progress: float, floor: float) -> float:
    """The value at ``progress`` (0 = start, 1 = ``max_steps``; values outside are clamped).

    ``linear`` is ML-Agents' polynomial decay of power 1: ``(initial - floor) * (1 - progress) + floor``. An initial
    value below the floor stays where it is instead of rising to it.
    """
    if kind == "constant" or initial <= floor:
        return initial
    return (initial - floor) * (1.0 - min(max(progress, 0.0), 1.0)) + floor
