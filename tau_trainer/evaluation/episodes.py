"""Episodes that agents have played to the end, and those that run: returns and lengths."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from tau_trainer.columns import GROUP, Column, ColumnTable, Rows
from tau_trainer.specs import BoolArray, FloatArray, IntArray

KINDS = ("own", "group", "paid")
"""Rewards that are summed up apart: the agents' own, their group's, and what is learned from, by its strength."""


@dataclass(frozen=True, slots=True)
class Episodes:
    """Whole episodes of one policy's agents, in the order in which they ended."""

    returns: list[float] = field(default_factory=list)
    """Undiscounted, what agents and their groups got together."""
    lengths: list[float] = field(default_factory=list)
    """In decisions."""

    def __len__(self) -> int:
        return len(self.returns)

    @property
    def mean_return(self) -> float | None:
        """What the policy is worth, whatever the order; None where no episode ended."""
        return math.fsum(self.returns) / len(self) if self.returns else None


class EpisodeScores:
    """Undiscounted returns and lengths of the agents of one behavior in one environment, by row."""

    def __init__(self) -> None:
        self.episodes = 0
        sums = [Column(kind, (), np.float64) for kind in KINDS]
        self._running = ColumnTable((*sums, Column("length", (), np.int64), Column("acted", (), np.bool_)), 64)
        self._groups = ColumnTable((GROUP,))  # of who has acted; empty until there is one

    def acted(self, rows: Rows) -> BoolArray:
        """Bool [n]: whose message answers a decision of this episode (else its reward belongs to none)."""
        self._running.fit(rows)
        acted: BoolArray = self._running["acted"][rows]
        return acted

    def join(self, rows: Rows, groups: IntArray) -> None:
        """Agents that decide now are in these groups [n]; 0: in none. They count there once they have decided."""
        if len(self._groups) or np.count_nonzero(groups):  # which is quicker than any()
            self._groups.fit(rows)
            self._groups[GROUP.name][rows] = groups

    def groups(self, *, but: Rows) -> IntArray:
        """The groups of agents whose episode runs, but for the rows ``but``: int32 [k], some more than once."""
        running = self._running["acted"].copy()
        running[but[but < len(running)]] = False
        groups = self._groups[GROUP.name][: len(running)]
        found: IntArray = groups[running[: len(groups)]]
        return found

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
        self._running.clear(rows)
        return returns, lengths

    def clear(self, rows: Rows | slice = slice(None)) -> None:
        """These episodes (all by default) will never end: they are not counted."""
        self._running.clear(rows)


def earned(returns: ArrayLike, groups: ArrayLike) -> FloatArray:
    """What agents and their groups got in ``k`` episodes together, float32 [k]: by this policies are compared.

    ``returns`` [k], ``groups`` [k] or [0]: see :meth:`~tau_trainer.metrics.MetricsHub.episode`.
    """
    alone, shared = np.asarray(returns, np.float32), np.asarray(groups, np.float32)
    return alone + np.nan_to_num(shared) if len(shared) else alone
