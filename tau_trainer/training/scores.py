"""Running scores of one pair: episodes, mean reward, success rate."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from tau_trainer.columns import Column, ColumnTable, Rows
from tau_trainer.specs import BoolArray, FloatArray

_RECENT_DECISIONS = 4000
_RECENT_EPISODES = 100


class RecentMean:
    """Mean over about the last ``memory`` values (exponential weights, corrected for the start)."""

    def __init__(self, memory: int) -> None:
        self._decay = 1.0 - 1.0 / memory
        self._sum = 0.0
        self._weight = 0.0

    def add(self, values: FloatArray) -> None:
        """Add every value of an array, as if they came one after another with their mean."""
        count = len(values)
        if count:
            keep = self._decay**count
            self._sum = self._sum * keep + float(values.mean()) * (1.0 - keep)
            self._weight = self._weight * keep + (1.0 - keep)

    @property
    def value(self) -> float | None:
        """The mean; None before the first value."""
        return self._sum / self._weight if self._weight > 0 else None


KINDS = ("own", "group", "paid")
"""Rewards that are summed up apart: the agents' own, their group's, and what is learned from, by its strength."""


class EpisodeScores:
    """Undiscounted returns and lengths of the agents of one behavior in one environment, by row."""

    def __init__(self) -> None:
        self.episodes = 0
        self.recent_return = RecentMean(_RECENT_EPISODES)
        sums = [Column(kind, (), np.float64) for kind in KINDS]
        self._running = ColumnTable((*sums, Column("length", (), np.int64), Column("acted", (), np.bool_)), 64)

    def acted(self, rows: Rows) -> BoolArray:
        """Bool [n]: whose message answers a decision of this episode (else its reward belongs to none)."""
        self._running.fit(rows)
        acted: BoolArray = self._running["acted"][rows]
        return acted

    def step(self, rows: Rows, acted: BoolArray, **rewards: FloatArray) -> None:
        """Agents that decide now: ``rewards`` [n] by kind came with their observation; a kind left out is 0."""
        for kind, reward in rewards.items():
            self._running[kind][rows] += np.where(acted, reward, 0.0)
        self._running["length"][rows] += 1
        self._running["acted"][rows] = True

    def end(self, rows: Rows, acted: BoolArray, **rewards: FloatArray) -> tuple[dict[str, FloatArray], FloatArray]:
        """Agents whose episode ended with ``rewards`` [m]: returns by kind and lengths in decisions, float32 [k].

        Agents that ended without a decision are left out.
        """
        known = rows[acted]
        sums = {kind: self._running[kind][known] for kind in KINDS}
        sums |= {kind: sums[kind] + reward[acted] for kind, reward in rewards.items()}
        returns = {kind: values.astype(np.float32) for kind, values in sums.items()}
        lengths = self._running["length"][known].astype(np.float32)
        self.episodes += len(known)
        self.recent_return.add(returns["own"])
        self._running.clear(rows)
        return returns, lengths

    def clear(self, rows: Rows | slice = slice(None)) -> None:
        """These episodes (all by default) will never end: they are not counted."""
        self._running.clear(rows)


def mean_return(scores: Iterable[EpisodeScores]) -> float | None:
    """Mean of what recent episodes returned, over environments and behaviors; None: none has ended, or no number."""
    known = [one.recent_return.value for one in scores if one.recent_return.value is not None]
    mean = sum(known) / len(known) if known else math.nan
    return mean if math.isfinite(mean) else None


class DecisionScores:
    """Mean reward and success rate of one pair's recent decisions."""

    def __init__(self) -> None:
        self.reward = RecentMean(_RECENT_DECISIONS)
        self.success = RecentMean(_RECENT_DECISIONS)
