"""The scale of returns, which makes learning independent of the size of rewards."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError
from tau_trainer.memory import Rollout, TensorRollout
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


class CopyReturnScale:
    """The same for copies on tensors, on their device, which is not waited for.

    Args:
        gamma: of the reward.
        shape: ``E`` copies with ``A`` agents each.
        device: of the rewards.
    """

    def __init__(self, gamma: float, shape: tuple[int, int], device: torch.device) -> None:
        exact = torch.float32 if device.type == "mps" else torch.float64
        self._gamma, self.least = gamma, _NOTHING
        self._open = torch.zeros(shape, dtype=exact, device=device)
        """[E, A]: the newest returns."""
        self._sums = torch.zeros(4, dtype=exact, device=device)
        """Count, mean, sum of squares and largest size."""

    @property
    def value(self) -> torch.Tensor:
        """The scale [], above 0."""
        count, _, squares, largest = self._sums
        found = torch.maximum((squares / count.clamp(min=1.0)).sqrt(), largest / _LARGEST)
        return torch.where(found > _NOTHING, found, self.least)

    def add(self, rollout: Rollout | TensorRollout, rewards: torch.Tensor, source: int = 0) -> Callable[[], None]:
        """Take in a rollout's decisions; returns a function that undoes this.

        Args:
            rollout: the newest steps.
            rewards: [T E A, 1], of its decisions, times the stream's strength.
            source: there is one.
        """
        assert isinstance(rollout, TensorRollout)
        before, there, returns = (self._open, self._sums), rollout.present, list[torch.Tensor]()
        ended = rollout.terminated | rollout.truncated
        for reward, over in zip(rewards.view(ended.shape), ended, strict=True):
            returns.append(self._open * self._gamma + reward)
            self._open = returns[-1] * ~over
        self._sums = _merged(self._sums, torch.stack(returns), there)

        def forget() -> None:
            self._open, self._sums = before

        return forget

    def state(self) -> dict[str, Float64Array]:
        """The state that a checkpoint keeps."""
        return {"returns": self._sums.double().cpu().numpy(), "open": self._open.double().cpu().numpy()}

    def load(self, arrays: Arrays) -> None:
        """Restore :meth:`state`. Raises CheckpointError for impossible values."""
        if (arrays["returns"][[0, 2, 3]] < 0.0).any():
            raise CheckpointError("The checkpoint's size of returns is negative; use an earlier checkpoint.")
        self._sums = self._sums.new_tensor(arrays["returns"])
        self._open = self._open.new_tensor(arrays["open"])


def _merged(sums: torch.Tensor, returns: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
    """Chan et al. 1983, equation 1.5, for those of the ``returns`` that are ``there``, both [T, E, A]."""
    count, mean, squares, largest = sums
    more = there.sum()
    of_more = (returns * there).sum() / more.clamp(min=1)
    total, away = count + more, of_more - mean
    share = more / total.clamp(min=1.0)
    within = ((returns - of_more).square() * there).sum()
    largest = torch.maximum(largest, (returns.abs() * there).amax())
    squares = squares + within + away.square() * count * share
    return torch.stack((total, mean + away * share, squares, largest))
