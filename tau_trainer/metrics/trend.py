"""Rewards and losses of all summaries so far, for the live table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tau_trainer.metrics import keys
from tau_trainer.metrics.summary import Summary

_LOSSES = "Losses/"
_OTHERS = {keys.POLICY_ENTROPY: "entropy", keys.APPROXIMATE_KL: "KL"}


@dataclass(slots=True)
class Trend:
    """One behavior's mean reward by summary, that of each pair, and its newest losses."""

    rewards: list[float] = field(default_factory=list)
    groups: list[float] = field(default_factory=list)
    """The mean reward of agents' groups; empty without groups."""
    pairs: dict[str, list[float]] = field(default_factory=dict)
    """By the pair's id."""
    losses: dict[str, float] = field(default_factory=dict)
    """``policy loss``, ``value loss``, ``entropy``, ``KL``, as far as the algorithm has them."""

    def add(self, summary: Summary, task_reward: str | None = None) -> None:
        """Add a summary. ``task_reward``: the task's key for rewards of single decisions."""
        key = next((key for key in (task_reward, keys.CUMULATIVE_REWARD) if key in summary.statistics), None)
        if key is not None:
            self.rewards.append(summary.statistics[key].value)
            for pair, statistics in summary.pairs.items():
                if key in statistics:
                    self.pairs.setdefault(pair, []).append(statistics[key].value)
        if keys.GROUP_CUMULATIVE_REWARD in summary.statistics:
            self.groups.append(summary.statistics[keys.GROUP_CUMULATIVE_REWARD].value)
        for key, value in summary.values.items():
            name = key.removeprefix(_LOSSES).lower() if key.startswith(_LOSSES) else _OTHERS.get(key)
            if name is not None and math.isfinite(value):
                self.losses[name] = value


def mean_losses(trends: Mapping[str, Trend]) -> dict[str, float]:
    """The newest losses, each the mean over the behaviors that have it."""
    names = dict.fromkeys(name for trend in trends.values() for name in trend.losses)
    found = {name: [trend.losses[name] for trend in trends.values() if name in trend.losses] for name in names}
    return {name: sum(values) / len(values) for name, values in found.items()}


def sparkline(values: Sequence[float], width: int, levels: str) -> str:
    """A curve of at most ``width`` characters of ``levels``; a character may show the mean of several values."""
    count = min(len(values), width)
    ends = [round(len(values) * (i + 1) / count) for i in range(count)] if count > 0 else []
    parts = [values[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    means = [sum(part) / len(part) for part in parts]
    low, high = min(means, default=0.0), max(means, default=0.0)
    scale = (len(levels) - 1) / (high - low) if high > low else 0.0
    return "".join(levels[round((mean - low) * scale)] for mean in means)
