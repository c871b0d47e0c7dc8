"""The scale of returns, which makes learning independent of the size of rewards.

The arithmetic is the same for engines' arrays and for copies' tensors, which stay on their device without waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError
from tau_trainer.memory import Rollout, TensorRollout
from tau_trainer.specs import Float64Array, FloatArray

_LARGEST = 5.0
"""Returns divided by the scale stay within this (SimbaV2)."""
_LEAST_SPREAD = 0.1
_NOTHING = 1e-8
"""Scales below this mean that nothing was paid yet."""


class ReturnScale:
    """Mean, deviation and largest size of discounted returns that agents have seen.

    ``G_t = gamma G_(t-1) + r_t`` of every agent, 0 at the start of an episode; streams with their own discounts are
    added up. The scale is ``max(std(G), max|G| / 5)``, as SimbaV2 scales rewards (Lee et al. 2025, arXiv 2502.15280).

    Args:
        gammas: float [S], of each reward stream.
        copies: float64 [E, A, S], zeros, on the copies' device (float32 where it has no float64); None: engines.
    """

    def __init__(self, gammas: FloatArray, copies: torch.Tensor | None = None) -> None:
        self._copies = copies is not None
        self._gammas: Any = gammas.astype(np.float64) if copies is None else copies.new_tensor(gammas)
        self._open: dict[int, Any] = {} if copies is None else {0: copies}
        """By source: the newest returns of each agent, [*agents, S]."""
        self._sums: Any = np.zeros(4) if copies is None else copies.new_zeros(4)
        """Count, mean, sum of squares and largest size."""
        self.least = _NOTHING
        """The scale as long as nothing was paid.

        For a run initialized from another's networks, it is the scale of these.
        """

    @property
    def value(self) -> Any:
        """The scale [], above 0."""
        found = self._deviation.clip(min=self._sums[3] / _LARGEST)
        paid = found > _NOTHING
        return found * paid + self.least * ~paid

    @property
    def spread(self) -> Any:
        """The standard deviation [] of returns as a share of the scale, from 0.1 to 1; 1 as long as nothing was paid.

        It is small if most returns are far below the largest, for example if each step earns little and a fall costs
        much.
        """
        largest = self._sums[3] / _LARGEST
        return ((self._deviation + _NOTHING) / (largest + _NOTHING)).clip(min=_LEAST_SPREAD, max=1.0)

    @property
    def _deviation(self) -> Any:
        count, _, squares, _ = self._sums
        return (squares / count.clip(min=1.0)) ** 0.5

    def add(self, rollout: Rollout | TensorRollout, rewards: Any, source: int = 0) -> Callable[[], None]:
        """Take in a rollout's transitions; returns a function that undoes this.

        Args:
            rollout: the transitions since the last call.
            rewards: [N, S], of its transitions, times each stream's strength.
            source: the collector of the rows, if there are several.
        """
        sums, before = self._sums, dict(self._open)

        def forget() -> None:
            self._sums, self._open = sums, before

        if isinstance(rollout, TensorRollout):
            there, over, carried = rollout.present, rollout.terminated | rollout.truncated, before[source]
            begins, paid = torch.zeros_like(over), rewards.view(*over.shape, -1)  # bool [T, E, A], [T, E, A, S]
        else:
            known = before.get(source, np.zeros((0, len(self._gammas))))
            agents = max(int(rollout.rows.max()) + 1, len(known))
            there, over, begins, paid = _by_step(rollout, rewards, agents)
            carried = np.concatenate((known, np.zeros((agents - len(known), len(self._gammas)))))
        for now, ended, begun, reward in zip(*(each[..., None] for each in (there, over, begins)), paid, strict=True):
            newest = carried * ~begun * self._gammas + reward
            carried = (newest * now + carried * ~now) * ~ended
            self._sums = _merged(self._sums, newest.sum(-1), now[..., 0])
        self._open[source] = carried
        return forget

    def meet(self, largest: float) -> None:
        """Take in the size of rewards that are learned from although no agent earned them."""
        count, mean, squares, known = self._sums
        self._sums = count, mean, squares, known.clip(min=largest)

    def state(self) -> dict[str, Float64Array]:
        """The state that a checkpoint keeps; open returns of engines' agents restart at 0, as their episodes do."""
        kept = {"returns": np.array([float(value) for value in self._sums])}
        return kept | ({"open": self._open[0].sum(-1).double().cpu().numpy()} if self._copies else {})

    def load(self, arrays: Arrays) -> None:
        """Restore :meth:`state`. Raises CheckpointError for impossible values."""
        returns = arrays["returns"].astype(np.float64)
        if (returns[[0, 2, 3]] < 0.0).any():
            raise CheckpointError("The checkpoint's size of returns is negative; use an earlier checkpoint.")
        self._sums = self._gammas.new_tensor(returns) if self._copies else returns
        # Copies have one reward stream.
        self._open = {0: self._gammas.new_tensor(arrays["open"])[..., None]} if self._copies else {}


def _by_step(rollout: Rollout, rewards: FloatArray, agents: int) -> list[Any]:
    """Which agents have a transition, end and begin, bool [T, agents], and their rewards [T, agents, S].

    Each step has at most one transition of an agent; mostly there is one step.
    """
    order = np.argsort(rollout.rows, kind="stable")  # by agent; each agent's transitions keep their order
    _, first, which = np.unique(rollout.rows[order], return_index=True, return_inverse=True)
    step = np.empty_like(order)
    step[order] = np.arange(len(order)) - first[which]  # int [N]: number of each transition among its agent's
    found = list[Any]()
    for each in (np.ones(len(order), np.bool_), rollout.terminated | rollout.truncated, rollout.begins, rewards):
        found.append(np.zeros((int(step.max()) + 1, agents, *each.shape[1:]), each.dtype))
        found[-1][step, rollout.rows] = each
    return found


def _merged(sums: Any, returns: Any, there: Any) -> Any:
    """Chan et al. 1983, equation 1.5: with those of the ``returns`` that are ``there``, [*agents]."""
    count, mean, squares, largest = sums
    more = there.sum()
    of_more = (returns * there).sum() / more.clip(min=1)
    total, away = count + more, of_more - mean
    share = more / total.clip(min=1.0)
    within = ((returns - of_more) ** 2 * there).sum()
    largest = largest.clip(min=(abs(returns) * there).max())
    return total, mean + away * share, squares + within + away**2 * count * share, largest
