"""Returns and lengths of agents' episodes, finished and running."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from tau_trainer.columns import GROUP, Column, ColumnTable, Rows
from tau_trainer.specs import BoolArray, FloatArray, IntArray

KINDS = ("own", "group", "paid")
"""Kinds of rewards with separate sums: the agents' own, their group's, and the learned one, with its strength."""


@dataclass(frozen=True, slots=True)
class EpisodeLog:
    """Finished episodes of one policy's agents, in the order of their ends."""

    returns: list[float] = field(default_factory=list)
    """Undiscounted returns of agents and their groups together."""
    lengths: list[float] = field(default_factory=list)
    """Lengths in decisions."""

    def __len__(self) -> int:
        return len(self.returns)

    @property
    def mean_return(self) -> float | None:
        """Mean return, independent of the order of episodes; None if no episode has ended."""
        return math.fsum(self.returns) / len(self) if self.returns else None


class EpisodeScores:
    """Undiscounted returns and lengths of the agents of one behavior in one environment, by row."""

    def __init__(self) -> None:
        self.episodes = 0
        sums = [Column(kind, (), np.float64) for kind in KINDS]
        self._running = ColumnTable((*sums, Column("length", (), np.int64), Column("acted", (), np.bool_)), 64)
        self._groups = ColumnTable((GROUP,))  # of who has acted; empty until there is one

    def acted(self, rows: Rows) -> BoolArray:
        """Bool [n]: agents whose message follows a decision of this episode; other rewards belong to no episode."""
        self._running.fit(rows)
        acted: BoolArray = self._running["acted"][rows]
        return acted

    def join(self, rows: Rows, groups: IntArray) -> None:
        """Record the groups [n] of agents that decide now; 0: no group. They count there once they have decided."""
        if len(self._groups) or np.count_nonzero(groups):  # which is quicker than any()
            self._groups.fit(rows)
            self._groups[GROUP.name][rows] = groups

    def groups(self, *, but: Rows) -> IntArray:
        """The groups of agents in a running episode, except the rows ``but``: int32 [k], with repetitions."""
        running = self._running["acted"].copy()
        running[but[but < len(running)]] = False
        groups = self._groups[GROUP.name][: len(running)]
        found: IntArray = groups[running[: len(groups)]]
        return found

    def step(self, rows: Rows, acted: BoolArray, **rewards: FloatArray) -> None:
        """Record agents that decide now; ``rewards`` [n] by kind came with their observation, omitted kinds are 0."""
        for kind, reward in rewards.items():
            self._running[kind][rows] += np.where(acted, reward, 0.0)
        self._running["length"][rows] += 1
        self._running["acted"][rows] = True

    def end(self, rows: Rows, acted: BoolArray, **rewards: FloatArray) -> tuple[dict[str, FloatArray], FloatArray]:
        """Record agents whose episode ended with ``rewards`` [m]; returns sums by kind and lengths, float32 [k].

        Lengths are in decisions. Agents that ended without a decision are left out.
        """
        known = rows[acted]
        sums = {kind: self._running[kind][known] for kind in KINDS}
        sums |= {kind: sums[kind] + reward[acted] for kind, reward in rewards.items()}
        returns = {kind: values.astype(np.float32) for kind, values in sums.items()}
        lengths = self._running["length"][known].astype(np.float32)
        self.episodes += len(known)
        self._running.clear(rows)
        return returns, lengths

    def clear(self, rows: Rows | slice = slice(None)) -> None:
        """Discard these running episodes (default: all) without counting them."""
        self._running.clear(rows)


def earned(returns: ArrayLike, groups: ArrayLike) -> FloatArray:
    """Returns of agents and their groups together in ``k`` episodes, float32 [k], for comparing policies.

    ``returns`` [k], ``groups`` [k] or [0]: see :meth:`~tau_trainer.metrics.MetricsHub.episode`.
    """
    alone, shared = np.asarray(returns, np.float32), np.asarray(groups, np.float32)
    return alone + np.nan_to_num(shared) if len(shared) else alone
