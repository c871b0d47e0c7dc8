"""The contract of exploration: what changes with time, what is kept by agent, and the choice itself.

Learning counts decisions and the values that were chosen: the *clock*, a float64 buffer of the network, which travels
with its weights, is in checkpoints and goes on exactly. Whoever acts works out its numbers from that and from settings
of its own, so actors in other processes need no clock, and each may explore in its own way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import Arrays, Column
from tau_trainer.settings.exploration import ExplorationSettings
from tau_trainer.specs import ActionSpec, BoolArray, Float64Array, FloatArray, IndexArray, IntArray


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
        ends = np.cumsum(actions.discrete_branches, dtype=np.int64).tolist()
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

    def choose(
        self, values: FloatArray, forbidden: BoolArray | None, numbers: FloatArray, rng: np.random.Generator
    ) -> IndexArray:
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

    def decide(
        self, values: FloatArray, forbidden: BoolArray | None, numbers: FloatArray, rng: np.random.Generator
    ) -> IntArray:
        """Choose in every branch by what a network says: int32 [n, b] from values and forbidden [n, M]."""
        discrete = np.empty((len(values), len(self._bounds)), np.int32)
        for branch, (begin, end) in enumerate(self._bounds):
            mask = None if forbidden is None else forbidden[:, begin:end]
            own = numbers[begin:end] if self.counts else numbers
            discrete[:, branch] = self.choose(values[:, begin:end], mask, own, rng)
        return discrete

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


def greedy(values: FloatArray, forbidden: BoolArray | None) -> IndexArray:
    """[n]: the best of each row [n, k] that is not forbidden."""
    best: IndexArray = (values if forbidden is None else np.where(forbidden, -np.inf, values)).argmax(axis=1)
    return best


def uniform(shape: tuple[int, ...], forbidden: BoolArray | None, rng: np.random.Generator) -> IndexArray:
    """[n]: any of each row [n, k] that is not forbidden."""
    if forbidden is None:
        return rng.integers(shape[1], size=shape[0])
    return greedy(rng.random(shape, dtype=np.float32), forbidden)


def drawn(logarithms: FloatArray, forbidden: BoolArray | None, rng: np.random.Generator) -> IndexArray:
    """[n]: one of each row in proportion to the exponential of ``logarithms`` [n, k], none of which is ever made."""
    return greedy(logarithms + gumbel(rng, logarithms.shape), forbidden)


def gumbel(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Standard Gumbel noise, float32: ``argmax(logits + gumbel)`` is a draw from ``softmax(logits)``."""
    exponential = rng.standard_exponential(shape, dtype=np.float32)
    # An exponential of exactly 0 would be an infinite score.
    np.maximum(exponential, np.float32(1e-30), out=exponential)
    return -np.log(exponential)
