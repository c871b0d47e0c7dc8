"""The contract of exploration: what changes with time, what is kept by agent, and the choice itself.

Learning counts decisions and the values that were chosen: the *clock*, a float64 buffer of the network, which travels
with its weights, is in checkpoints and goes on exactly. Whoever acts works out its numbers from that and from settings
of its own, so actors in other processes need no clock, and each may explore in its own way.

Values are chosen from as they lie: arrays with a generator of numpy's, or tensors with one of their device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import Arrays, Column
from tau_trainer.settings.exploration import ExplorationSettings
from tau_trainer.specs import ActionSpec, Float64Array, FloatArray

if TYPE_CHECKING:
    import torch

Values: TypeAlias = Any
"""An array or a tensor."""
Source: TypeAlias = "np.random.Generator | torch.Generator"
"""Of randomness: numpy's for arrays, torch's for tensors."""


class Exploration:
    """One kind of exploration; immutable. A subclass fulfils :meth:`choose` or :meth:`perturb`.

    Args:
        settings: its keys.
        actions: what is drawn: continuous actions, and the sizes of branches.
    """

    state_columns: tuple[Column, ...] = ()
    """What is kept by agent from decision to decision; rows hold ``fill`` where an episode begins."""
    counts: bool = False
    """Whether its numbers are one for each value of each branch, from how often each was chosen."""

    def __init__(self, settings: ExplorationSettings, actions: ActionSpec) -> None:
        self.actions = actions
        ends = np.cumsum(actions.discrete_branches, dtype=np.int64).tolist()  # behind each branch's last value
        self._bounds = [(end - size, end) for end, size in zip(ends, actions.discrete_branches, strict=True)]

    def clock(self) -> Float64Array:
        """The clock before the first decision: [1], or with counts [1 + M]: each value counts as chosen once."""
        return np.concatenate((np.zeros(1), np.ones(self.actions.mask_size if self.counts else 0)))

    def tick(self, clock: Float64Array, discrete: NDArray[np.integer[Any]]) -> Float64Array:
        """The clock after ``n`` decisions more, of which ``discrete`` [n, b] are the branches' values."""
        clock = clock.copy()
        clock[0] += len(discrete)
        if self.counts:
            for branch, (begin, end) in enumerate(self._bounds):
                clock[1 + begin : 1 + end] += np.bincount(discrete[:, branch], minlength=end - begin)
        return clock

    def numbers(self, decisions: float, counts: Float64Array) -> FloatArray:
        """What changes with time (epsilon, sigma, widths), float32.

        Args:
            decisions: so far.
            counts: [M] how often each value of each branch was chosen, where it :attr:`counts`.
        """
        return np.zeros(0, np.float32)

    def choose(self, values: Values, forbidden: Values | None, numbers: FloatArray, rng: Source) -> Values:
        """Choose in one branch.

        Args:
            values: float [n, k], finite.
            forbidden: bool [n, k], nowhere a whole row; None forbids nothing.
            numbers: of :meth:`numbers`; where it :attr:`counts`, the [k] of this branch.
            rng: source of randomness.

        Returns:
            [n], an index each.
        """
        raise NotImplementedError(f"{type(self).__name__} chooses nothing: it is for continuous actions")

    def decide(self, values: Values, forbidden: Values | None, numbers: FloatArray, rng: Source) -> Values:
        """Choose in every branch by what a network says: integers [n, b] from values and forbidden [n, M]."""
        if isinstance(values, np.ndarray):
            chosen = np.empty((len(values), len(self._bounds)), np.int32)  # [n, b]
        else:
            chosen = values.new_empty((len(values), len(self._bounds)), dtype=int)
        for branch, (begin, end) in enumerate(self._bounds):
            mask = None if forbidden is None else forbidden[:, begin:end]
            width = numbers[begin:end] if self.counts else numbers
            chosen[:, branch] = self._decide(values[:, begin:end], mask, width, rng)
        return chosen

    def _decide(self, values: Values, forbidden: Values | None, numbers: FloatArray, rng: Source) -> Values:
        """:meth:`choose` by what a network says."""
        return self.choose(values, forbidden, numbers, rng)

    def perturb(
        self, actions: FloatArray, numbers: FloatArray, state: Arrays, rng: np.random.Generator
    ) -> tuple[FloatArray, Arrays]:
        """Disturb continuous actions; whoever asks clips them to [-1, 1] afterwards.

        Args:
            actions: float32 [n, c] in [-1, 1]; not to be written to.
            numbers: of :meth:`numbers`.
            state: [n, *shape] for each of :attr:`state_columns`.
            rng: source of randomness.

        Returns:
            The actions, and the state after them.
        """
        raise NotImplementedError(f"{type(self).__name__} disturbs nothing: it is for discrete actions")


def greedy(values: Values, forbidden: Values | None) -> Values:
    """[n]: the best of each row [n, k] that is not forbidden."""
    if forbidden is None:
        return values.argmax(1)
    if isinstance(values, np.ndarray):
        return np.where(forbidden, -np.inf, values).argmax(axis=1)
    return values.masked_fill(forbidden, -np.inf).argmax(1)


def uniform(values: Values, forbidden: Values | None, rng: Source) -> Values:
    """[n]: any of each row [n, k] that is not forbidden."""
    if not isinstance(rng, np.random.Generator):
        # The largest of uniform numbers is any of those allowed.
        return greedy(values.new_empty(values.shape).uniform_(generator=rng), forbidden)
    if forbidden is None:
        return rng.integers(values.shape[1], size=len(values))
    return greedy(rng.random(values.shape, dtype=np.float32), forbidden)  # only then is a number for each value needed


def mixed(share: float, seldom: Callable[[], Values], often: Values, rng: Source) -> Values:
    """[n]: of ``often`` [n], but in a ``share`` of the rows of ``seldom``."""
    if isinstance(rng, np.random.Generator):
        return np.where(rng.random(len(often)) < share, seldom(), often)
    import torch

    other = seldom()
    return other.where(torch.rand(len(often), device=often.device, generator=rng) < share, often)


def drawn(logarithms: Values, forbidden: Values | None, rng: Source) -> Values:
    """[n]: one of each row in proportion to the exponential of ``logarithms`` [n, k], none of which is ever made."""
    return greedy(logarithms + gumbel(rng, logarithms), forbidden)


def gumbel(rng: Source, like: Values) -> Values:
    """Standard Gumbel noise, float32, one for each value: ``argmax(logits + gumbel)`` is a draw from their softmax."""
    # An exponential of exactly 0 would be an infinite score.
    if not isinstance(rng, np.random.Generator):
        return -like.new_empty(like.shape).exponential_(generator=rng).clamp(min=1e-30).log()
    return -np.log(np.maximum(rng.standard_exponential(like.shape, dtype=np.float32), np.float32(1e-30)))
