"""Rewards by decision, read from the TensorBoard files of either trainer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

REWARD = "Environment/Cumulative Reward"
Curve = list[tuple[int, float]]
"""(decisions, mean reward of the episodes that ended in the summary period before)."""


def reward_curve(results: Path) -> Curve:
    """The mean episode reward by decision, from every event file under a results folder; empty without any."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    points: dict[int, float] = {}
    for folder in sorted({path.parent for path in results.rglob("events.out.tfevents.*")}):
        accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
        accumulator.Reload()
        if REWARD in accumulator.Tags()["scalars"]:
            points.update({event.step: event.value for event in accumulator.Scalars(REWARD)})
    return sorted(points.items())


def reward_at(curve: Curve, decisions: float) -> float:
    """The reward at a number of decisions, between two summaries in proportion; NaN outside of the curve."""
    if not curve or not curve[0][0] <= decisions <= curve[-1][0]:
        return float("nan")
    steps, rewards = zip(*curve, strict=True)
    return float(np.interp(decisions, steps, rewards))


def common_decisions(curves: Sequence[Curve]) -> int:
    """The largest number of decisions that every curve has reached; 0 if one is empty."""
    return min((curve[-1][0] if curve else 0 for curve in curves), default=0)
