"""Policies over the values of discrete actions, with the formulas and defaults of Note.RL and border.

Where Note.RL makes probabilities, the best of the logarithms and Gumbel noise is taken here instead: the same draw, and
nothing is exponentiated that float32 could not hold.
"""

from __future__ import annotations

import math

import numpy as np
from typing_extensions import override

from tau_trainer.exploration.base import Exploration, drawn, greedy, gumbel, uniform
from tau_trainer.settings.exploration import (
    AdaptiveEpsGreedySettings,
    BoltzmannGumbelSettings,
    BoltzmannSettings,
    EpsGreedySettings,
    GumbelSoftmaxSettings,
    MaxBoltzmannSettings,
)
from tau_trainer.settings.schedules import at
from tau_trainer.specs import ActionSpec, BoolArray, Float64Array, FloatArray, IndexArray, IntArray


class Greedy(Exploration):
    """The best action."""

    @override
    def choose(
        self, values: FloatArray, forbidden: BoolArray | None, numbers: FloatArray, rng: np.random.Generator
    ) -> IndexArray:
        return greedy(values, forbidden)


class Softmax(Exploration):
    """A draw from probabilities that are given; of what a network says, from its softmax."""

    @override
    def choose(
        self, values: FloatArray, forbidden: BoolArray | None, numbers: FloatArray, rng: np.random.Generator
    ) -> IndexArray:
        """``values``: probabilities. Raises ValueError where they are none."""
        if not (values >= 0.0).all() or not (values.sum(axis=1) > 0.0).all():
            raise ValueError("softmax draws from probabilities: no row may be negative or nothing but zeros")
        with np.errstate(divide="ignore"):
            return drawn(np.log(values), forbidden, rng)

    @override
    def decide(
        self, values: FloatArray, forbidden: BoolArray | None, numbers: FloatArray, rng: np.random.Generator
    ) -> IntArray:
        powers = np.exp(values - values.max(axis=1, keepdims=True))
        return super().decide(powers, forbidden, numbers, rng)


class EpsGreedy(Exploration):
    """Any action with probability epsilon, else the best; epsilon may fall, linearly or exponentially."""

    def __init__(self, settings: EpsGreedySettings, actions: ActionSpec) -> None:
        super().__init__(settings, actions)
        self._own = settings

    @override
    def numbers(self, decisions: float, counts: Float64Array) -> FloatArray:
        own, eps = self._own, at(self._own.eps, decisions)
        if own.eps_min is not None and eps > 0:
            share, linear = own.fallen(decisions), own.annealing == "linear"
            eps = eps + share * (own.eps_min - eps) if linear else eps * (own.eps_min / eps) ** share
        return np.array([eps], np.float32)

    @override
    def choose(
        self, values: FloatArray, forbidden: BoolArray | None, numbers: FloatArray, rng: np.random.Generator
    ) -> IndexArray:
        return _mixed(float(numbers[0]), greedy(values, forbidden), values, forbidden, rng)


class AdaptiveEpsGreedy(Exploration):
    """The same with an epsilon that decays towards its least."""

    def __init__(self, settings: AdaptiveEpsGreedySettings, actions: ActionSpec) -> None:
        super().__init__(settings, actions)
        self._own = settings

    @override
    def numbers(self, decisions: float, counts: Float64Array) -> FloatArray:
        own = self._own
        decayed = (own.initial_eps - own.min_eps) * math.exp(-own.decay_rate * decisions)
        return np.array([own.min_eps + decayed], np.float32)

    @override
    def choose(
        self, values: FloatArray, forbidden: BoolArray | None, numbers: FloatArray, rng: np.random.Generator
    ) -> IndexArray:
        return _mixed(float(numbers[0]), greedy(values, forbidden), values, forbidden, rng)


class Boltzmann(Exploration):
    """A draw in proportion to ``exp(clip(value / tau))``."""

    def __init__(self, settings: BoltzmannSettings, actions: ActionSpec) -> None:
        super().__init__(settings, actions)
        self._tau, self._clip = np.float32(settings.tau), settings.clip

    @override
    def choose(
        self, values: FloatArray, forbidden: BoolArray | None, numbers: FloatArray, rng: np.random.Generator
    ) -> IndexArray:
        with np.errstate(over="ignore"):  # infinity is clipped as well
            return drawn((values / self._tau).clip(*self._clip), forbidden, rng)


class MaxBoltzmann(Boltzmann):
    """The same in a share of the decisions, else the best action."""

    def __init__(self, settings: MaxBoltzmannSettings, actions: ActionSpec) -> None:
        super().__init__(settings, actions)
        self._eps = settings.eps

    @override
    def choose(
        self, values: FloatArray, forbidden: BoolArray | None, numbers: FloatArray, rng: np.random.Generator
    ) -> IndexArray:
        random = rng.random(len(values)) < self._eps
        return np.where(random, super().choose(values, forbidden, numbers, rng), greedy(values, forbidden))


class BoltzmannGumbel(Exploration):
    """The best of ``value + C / sqrt(count) Gumbel`` (Cesa-Bianchi et al. 2017)."""

    counts = True

    def __init__(self, settings: BoltzmannGumbelSettings, actions: ActionSpec) -> None:
        super().__init__(settings, actions)
        self._c = settings.C

    @override
    def numbers(self, decisions: float, counts: Float64Array) -> FloatArray:
        """[M]: ``C / sqrt(count)``."""
        return (self._c / np.sqrt(counts)).astype(np.float32)

    @override
    def choose(
        self, values: FloatArray, forbidden: BoolArray | None, numbers: FloatArray, rng: np.random.Generator
    ) -> IndexArray:
        return greedy(values + numbers * gumbel(rng, values.shape), forbidden)


class GumbelSoftmax(Exploration):
    """The largest of :meth:`soft`, which is a draw from the values' softmax; any action in a share of the rows."""

    def __init__(self, settings: GumbelSoftmaxSettings, actions: ActionSpec) -> None:
        super().__init__(settings, actions)
        self._temperature, self._eps = np.float32(settings.temperature), settings.eps

    def soft(self, values: FloatArray, forbidden: BoolArray | None, rng: np.random.Generator) -> FloatArray:
        """``softmax((values + Gumbel) / temperature)``, [n, k] (Jang et al. 2017)."""
        scores = (values + gumbel(rng, values.shape)) / self._temperature
        if forbidden is not None:
            scores = np.where(forbidden, -np.inf, scores)
        powers: FloatArray = np.exp(scores - scores.max(axis=1, keepdims=True))
        powers /= powers.sum(axis=1, keepdims=True)
        return powers

    @override
    def choose(
        self, values: FloatArray, forbidden: BoolArray | None, numbers: FloatArray, rng: np.random.Generator
    ) -> IndexArray:
        return _mixed(self._eps, drawn(values, forbidden, rng), values, forbidden, rng)


def _mixed(
    share: float, often: IndexArray, values: FloatArray, forbidden: BoolArray | None, rng: np.random.Generator
) -> IndexArray:
    """[n]: of ``often``, but any that is not forbidden in a ``share`` of the rows."""
    random = rng.random(len(values)) < share
    return np.where(random, uniform(values.shape, forbidden, rng), often)
