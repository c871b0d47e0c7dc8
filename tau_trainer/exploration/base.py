"""The contract of exploration: numbers that change with time, state of each agent, and the choice itself.

Learning counts decisions and chosen values: the *clock*, a float64 buffer of the network, which is sent with its
weights, stored in checkpoints and restored exactly. The process that acts computes its numbers from the clock and from
its own settings, so actors in other processes need no clock, and each may explore in its own way.

Values may be arrays with one of numpy's generators, or tensors with a generator of their device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import Column
from tau_trainer.settings.exploration import ExplorationSettings
from tau_trainer.specs import ActionSpec, Float64Array, FloatArray

if TYPE_CHECKING:
    import torch

Values: TypeAlias = Any
"""An array or a tensor."""
Source: TypeAlias = "np.random.Generator | torch.Generator"
"""A source of randomness: numpy's for arrays, torch's for tensors."""


class Exploration:
    """One kind of exploration; immutable. A subclass implements :meth:`choose` or :meth:`perturb`.

    Args:
        settings: its keys.
        actions: the random choices: continuous actions, and the sizes of branches.
    """

    state_columns: tuple[Column, ...] = ()
    """State to keep for each agent from decision to decision; rows hold ``fill`` at the start of an episode."""
    counts: bool = False
    """Whether it has a number for each value of each branch, from the count of its choices."""

    def __init__(self, settings: ExplorationSettings, actions: ActionSpec) -> None:
        self.settings, self.actions = settings, actions
        ends = np.cumsum(actions.discrete_branches, dtype=np.int64).tolist()  # end of each branch
        self._bounds = [(end - size, end) for end, size in zip(ends, actions.discrete_branches, strict=True)]

    def clock(self) -> Float64Array:
        """The clock before the first decision: [1], or with counts [1 + M]: each value counts as chosen once."""
        return np.concatenate((np.zeros(1), np.ones(self.actions.mask_size if self.counts else 0)))

    def tick(self, clock: Float64Array, discrete: NDArray[np.integer[Any]]) -> Float64Array:
        """The clock after ``n`` more decisions, whose branches' values are ``discrete`` [n, b]."""
        clock = clock.copy()
        clock[0] += len(discrete)
        if self.counts:
            for branch, (begin, end) in enumerate(self._bounds):
                clock[1 + begin : 1 + end] += np.bincount(discrete[:, branch], minlength=end - begin)
        return clock

    def numbers(self, decisions: float, counts: Float64Array) -> FloatArray:
        """The numbers that change with time (epsilon, sigma, widths), float32.

        Args:
            decisions: so far.
            counts: [M] number of times that each value of each branch was chosen, if it :attr:`counts`.
        """
        return np.zeros(0, np.float32)

    def choose(self, values: Values, forbidden: Values | None, numbers: FloatArray, rng: Source) -> Values:
        """Choose in one branch.

        Args:
            values: float [n, k], finite.
            forbidden: bool [n, k], never a whole row; None forbids nothing.
            numbers: from :meth:`numbers`; if it :attr:`counts`, the [k] of this branch.
            rng: source of randomness.

        Returns:
            [n], an index for each row.
        """
        raise NotImplementedError(f"{type(self).__name__} does not choose: it is for continuous actions")

    def decide(self, values: Values, forbidden: Values | None, numbers: FloatArray, rng: Source) -> Values:
        """Choose in every branch from a network's outputs: integers [n, b] from values and forbidden [n, M]."""
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
        """:meth:`choose` from a network's outputs."""
        return self.choose(values, forbidden, numbers, rng)

    def perturb(
        self, actions: Values, numbers: FloatArray, state: Mapping[str, Values], rng: Source
    ) -> tuple[Values, Mapping[str, Values]]:
        """Disturb continuous actions; the caller clips them to [-1, 1] afterwards.

        Args:
            actions: float32 [n, c] in [-1, 1]; must not be written to.
            numbers: from :meth:`numbers`.
            state: [n, *shape] for each of :attr:`state_columns`.
            rng: source of randomness.

        Returns:
            The actions, and the state after them.
        """
        raise NotImplementedError(f"{type(self).__name__} does not disturb actions: it is for discrete ones")


def greedy(values: Values, forbidden: Values | None) -> Values:
    """[n]: the best value of each row [n, k] that is not forbidden."""
    if forbidden is None:
        return values.argmax(1)
    if isinstance(values, np.ndarray):
        return np.where(forbidden, -np.inf, values).argmax(axis=1)
    return values.masked_fill(forbidden, -np.inf).argmax(1)


def uniform(values: Values, forbidden: Values | None, rng: Source) -> Values:
    """[n]: a uniformly random index of each row [n, k] that is not forbidden."""
    if not isinstance(rng, np.random.Generator):
        # The largest of uniform numbers is a uniform choice among the allowed ones.
        return greedy(values.new_empty(values.shape).uniform_(generator=rng), forbidden)
    if forbidden is None:
        return rng.integers(values.shape[1], size=len(values))
    return greedy(rng.random(values.shape, dtype=np.float32), forbidden)  # only here each value needs a number


def mixed(share: float, seldom: Callable[[], Values], often: Values, rng: Source) -> Values:
    """[n]: ``often`` [n], but ``seldom`` in a ``share`` of the rows."""
    if isinstance(rng, np.random.Generator):
        return np.where(rng.random(len(often)) < share, seldom(), often)
    import torch

    other = seldom()
    return other.where(torch.rand(len(often), device=often.device, generator=rng) < share, often)


def drawn(logarithms: Values, forbidden: Values | None, rng: Source) -> Values:
    """[n]: one index of each row, drawn in proportion to ``exp(logarithms)`` [n, k], which is not computed."""
    return greedy(logarithms + gumbel(rng, logarithms), forbidden)


def normal(rng: Source, like: Values) -> Values:
    """Standard normal noise, float32, one for each value."""
    if not isinstance(rng, np.random.Generator):
        return like.new_empty(like.shape).normal_(generator=rng)
    return rng.standard_normal(like.shape, dtype=np.float32)


def gumbel(rng: Source, like: Values) -> Values:
    """Standard Gumbel noise, float32, one for each value: ``argmax(logits + gumbel)`` is a draw from their softmax."""
    # An exponential of exactly 0 would be an infinite score.
    if not isinstance(rng, np.random.Generator):
        return -like.new_empty(like.shape).exponential_(generator=rng).clamp(min=1e-30).log()
    return -np.log(np.maximum(rng.standard_exponential(like.shape, dtype=np.float32), np.float32(1e-30)))
