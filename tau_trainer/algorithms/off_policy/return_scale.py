"""The scale of returns, which makes learning independent of the size of rewards."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError
from tau_trainer.memory import Rollout
from tau_trainer.specs import Float64Array, FloatArray

_LARGEST = 5.0
"""Returns divided by the scale stay within this (SimbaV2)."""
_NOTHING = 1e-8
"""Scales below this mean that nothing was paid yet."""


class ReturnScale:
    """Mean, deviation and largest size of discounted returns that agents have seen.

    ``G_t = gamma G_(t-1) + r_t`` of every agent, 0 at the start of an episode; streams with their own discounts are
    added up. The scale is ``max(std(G), max|G| / 5)``, as SimbaV2 scales rewards (Lee et al. 2025, arXiv 2502.15280).

    Args:
        gammas: float [S], of each reward stream.
    """

    def __init__(self, gammas: FloatArray) -> None:
        self._gammas = gammas.astype(np.float64)
        self._open: dict[int, Float64Array] = {}
        """By source: the newest returns of each row, [rows, S]."""
        self._count, self._mean, self._squares, self._largest = 0.0, 0.0, 0.0, 0.0
        self.least = _NOTHING
        """The scale as long as nothing was paid.

        For a run initialized from another's networks, it is the scale of these.
        """

    @property
    def value(self) -> float:
        """The scale, above 0."""
        deviation = math.sqrt(self._squares / self._count) if self._count else 0.0
        found = max(deviation, self._largest / _LARGEST)
        return found if found > _NOTHING else self.least

    def add(self, rollout: Rollout, rewards: FloatArray, source: int = 0) -> Callable[[], None]:
        """Take in a rollout's transitions; returns a function that undoes this.

        Args:
            rollout: the transitions since the last call.
            rewards: [N, S], of its transitions, times each stream's strength.
            source: the collector of the rows, if there are several.
        """
        before = self._count, self._mean, self._squares, self._largest, self._open.get(source)

        def forget() -> None:
            self._count, self._mean, self._squares, self._largest, known = before
            self._open.pop(source) if known is None else self._open.update({source: known})

        order = np.argsort(rollout.rows, kind="stable")  # by agent; each agent's transitions keep their order
        _, first, which = np.unique(rollout.rows[order], return_index=True, return_inverse=True)
        step = np.arange(len(order)) - first[which]  # int [N]: number of each transition among its agent's
        known = self._open.get(source, np.zeros((0, len(self._gammas))))
        room = np.zeros((max(int(rollout.rows.max()) + 1, len(known)), len(self._gammas)))
        room[: len(known)] = known
        over = rollout.terminated | rollout.truncated
        for number in range(int(step.max()) + 1):  # mostly one
            now = order[step == number]  # at most one transition per agent
            agents = rollout.rows[now]
            carried = np.where(rollout.begins[now, None], 0.0, room[agents])
            returns = carried * self._gammas + rewards[now]
            room[agents] = np.where(over[now, None], 0.0, returns)
            self._merge(returns.sum(axis=1))
        self._open[source] = room
        return forget

    def meet(self, largest: float) -> None:
        """Take in the size of rewards that are learned from although no agent earned them."""
        self._largest = max(self._largest, largest)

    def _merge(self, returns: Float64Array) -> None:
        """Chan et al. 1983, equation 1.5: mean and sum of squares of two samples together."""
        mean, count = float(returns.mean()), self._count + len(returns)
        away = mean - self._mean
        self._squares += float(np.square(returns - mean).sum()) + away**2 * self._count * len(returns) / count
        self._mean += away * len(returns) / count
        self._count = count
        self._largest = max(self._largest, float(np.abs(returns).max()))

    def state(self) -> dict[str, Float64Array]:
        """The state that a checkpoint keeps; agents' open returns restart at 0."""
        return {"returns": np.array([self._count, self._mean, self._squares, self._largest])}

    def load(self, arrays: Arrays) -> None:
        """Restore :meth:`state`. Raises CheckpointError for impossible values."""
        count, mean, squares, largest = (float(value) for value in arrays["returns"])
        if min(count, squares, largest) < 0.0:
            raise CheckpointError("The checkpoint's size of returns is negative; use an earlier checkpoint.")
        self._count, self._mean, self._squares, self._largest = count, mean, squares, largest
        self._open.clear()
