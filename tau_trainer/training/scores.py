"""Episodes that run, and what the newest summaries said of rewards: the figures that a run is told by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from tau_trainer.columns import Column, ColumnTable, Rows
from tau_trainer.metrics import Summary, keys
from tau_trainer.specs import BoolArray, FloatArray

KINDS = ("own", "group", "paid")
"""Rewards that are summed up apart: the agents' own, their group's, and what is learned from, by its strength."""


class EpisodeScores:
    """Undiscounted returns and lengths of the agents of one behavior in one environment, by row."""

    def __init__(self) -> None:
        self.episodes = 0
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
        self._running.clear(rows)
        return returns, lengths

    def clear(self, rows: Rows | slice = slice(None)) -> None:
        """These episodes (all by default) will never end: they are not counted."""
        self._running.clear(rows)


def earned(returns: ArrayLike, groups: ArrayLike) -> FloatArray:
    """What agents and their groups got in ``k`` episodes together, float32 [k]: by this policies are compared.

    ``returns`` [k], ``groups`` [k] or [0]: see :meth:`~tau_trainer.metrics.MetricsHub.episode`.
    """
    own, shared = np.asarray(returns, np.float32), np.asarray(groups, np.float32)
    return own + np.nan_to_num(shared) if len(shared) else own


class LastRewards:
    """What the newest summaries said of one learner's rewards: the figures of a run, at any moment and at its end.

    So their window is that of ML-Agents' console, and a run's last word agrees with its last line. A summary in which
    no episode ended changes nothing.
    """

    def __init__(self) -> None:
        self._overall: dict[str, tuple[int, float]] = {}
        self._pairs: dict[str, dict[str, float]] = {}

    def take(self, summary: Summary) -> None:
        """Keep what ``summary`` says."""
        for key in keys.EPISODE_REWARDS:
            one = summary.statistics.get(key)
            if one is not None and one.count:
                self._overall[key] = one.count, one.mean
        for pair, said in summary.pairs.items():
            self._pairs.setdefault(pair, {}).update({key: one.value for key, one in said.items() if one.count})

    @property
    def episodes(self) -> int:
        """Those that :attr:`mean` is the mean of."""
        return self._overall.get(keys.CUMULATIVE_REWARD, (0, 0.0))[0]

    @property
    def mean(self) -> float | None:
        """Mean of the agents' own rewards in an episode; None before the first summary that has one."""
        return self._mean(keys.CUMULATIVE_REWARD)

    @property
    def group_mean(self) -> float | None:
        """Mean of their group's; None where no group gets any."""
        return self._mean(keys.GROUP_CUMULATIVE_REWARD)

    def of_pair(self, pair: int, key: str) -> float | None:
        """What the newest summary said of ``key`` of one pair alone; None where none did."""
        return self._pairs.get(str(pair), {}).get(key)

    def state(self) -> dict[str, tuple[int, float]]:
        """What a checkpoint keeps: the figures of the learner, not those of each pair."""
        return dict(self._overall)

    def load(self, known: Mapping[str, Sequence[float]]) -> None:
        """Go on from :meth:`state`."""
        self._overall = {key: (int(count), float(mean)) for key, (count, mean) in known.items()}

    def _mean(self, key: str) -> float | None:
        known = self._overall.get(key)
        return None if known is None else known[1]
