"""Policies over the values of discrete actions, with the formulas and defaults of Note.RL and border.

Where Note.RL computes probabilities, this takes the best of the logarithms plus Gumbel noise instead: the same draw,
without exponentials that overflow float32.
"""

from __future__ import annotations

import math

import numpy as np
from typing_extensions import override

from tau_trainer.exploration.base import Exploration, Source, Values, drawn, greedy, gumbel, mixed, uniform
from tau_trainer.settings.exploration import (
    AdaptiveEpsGreedySettings,
    BoltzmannGumbelSettings,
    BoltzmannSettings,
    EpsGreedySettings,
    GumbelSoftmaxSettings,
    MaxBoltzmannSettings,
)
from tau_trainer.settings.schedules import at
from tau_trainer.specs import ActionSpec, Float64Array, FloatArray


class Greedy(Exploration):
    """The best action."""

    @override
    def choose(self, values: Values, forbidden: Values | None, numbers: FloatArray, rng: Source) -> Values:
        return greedy(values, forbidden)


class Softmax(Exploration):
    """A draw from given probabilities; for a network's outputs, from their softmax."""

    @override
    def choose(self, values: Values, forbidden: Values | None, numbers: FloatArray, rng: Source) -> Values:
        """``values``: probabilities. Raises ValueError if they are not."""
        if not (values >= 0.0).all() or not (values.sum(axis=1) > 0.0).all():
            raise ValueError("softmax draws from probabilities: no value may be negative, and no row may be all zeros")
        with np.errstate(divide="ignore"):  # log 0 is -inf, which Gumbel noise does not change
            return drawn(np.log(values), forbidden, rng)

    @override
    def _decide(self, values: Values, forbidden: Values | None, numbers: FloatArray, rng: Source) -> Values:
        return drawn(values, forbidden, rng)


class _Epsilon(Exploration):
    """A random action with probability epsilon, otherwise the best."""

    @override
    def choose(self, values: Values, forbidden: Values | None, numbers: FloatArray, rng: Source) -> Values:
        return mixed(float(numbers[0]), lambda: uniform(values, forbidden, rng), greedy(values, forbidden), rng)


class EpsGreedy(_Epsilon):
    """An epsilon that may fall, linearly or exponentially."""

    settings: EpsGreedySettings

    @override
    def numbers(self, decisions: float, counts: Float64Array) -> FloatArray:
        settings, eps = self.settings, at(self.settings.eps, decisions)
        if settings.eps_min is not None and eps > 0:
            share, linear = settings.fallen(decisions), settings.annealing == "linear"
            # To eps_min, linearly or by a constant factor.
            eps = eps + share * (settings.eps_min - eps) if linear else eps * (settings.eps_min / eps) ** share
        return np.array([eps], np.float32)


class AdaptiveEpsGreedy(_Epsilon):
    """An epsilon that decays towards its minimum."""

    settings: AdaptiveEpsGreedySettings

    @override
    def numbers(self, decisions: float, counts: Float64Array) -> FloatArray:
        least, begin = self.settings.min_eps, self.settings.initial_eps
        return np.array([least + (begin - least) * math.exp(-self.settings.decay_rate * decisions)], np.float32)


class Boltzmann(Exploration):
    """A draw in proportion to ``exp(clip(value / tau))``."""

    def __init__(self, settings: BoltzmannSettings, actions: ActionSpec) -> None:
        super().__init__(settings, actions)
        self._tau, self._clip = np.float32(settings.tau), settings.clip

    @override
    def choose(self, values: Values, forbidden: Values | None, numbers: FloatArray, rng: Source) -> Values:
        with np.errstate(over="ignore"):  # infinity is clipped too
            return drawn((values / self._tau).clip(*self._clip), forbidden, rng)


class MaxBoltzmann(Boltzmann):
    """The same in a share of the decisions, otherwise the best action."""

    settings: MaxBoltzmannSettings

    @override
    def choose(self, values: Values, forbidden: Values | None, numbers: FloatArray, rng: Source) -> Values:
        warm = super().choose
        return mixed(self.settings.eps, lambda: warm(values, forbidden, numbers, rng), greedy(values, forbidden), rng)


class BoltzmannGumbel(Exploration):
    """The best of ``value + C / sqrt(count) Gumbel`` (Cesa-Bianchi et al. 2017)."""

    settings: BoltzmannGumbelSettings
    counts = True

    @override
    def numbers(self, decisions: float, counts: Float64Array) -> FloatArray:
        """[M]: ``C / sqrt(count)``."""
        return (self.settings.C / np.sqrt(counts)).astype(np.float32)  # counts start at 1, so there is no division by 0

    @override
    def choose(self, values: Values, forbidden: Values | None, numbers: FloatArray, rng: Source) -> Values:
        return greedy(values + numbers * gumbel(rng, values), forbidden)


class GumbelSoftmax(Exploration):
    """A draw from the values' softmax, which is the best value plus Gumbel noise; sometimes a random action.

    The temperature of a Gumbel softmax (Jang et al. 2017) does not change which value is the best.
    """

    settings: GumbelSoftmaxSettings

    @override
    def choose(self, values: Values, forbidden: Values | None, numbers: FloatArray, rng: Source) -> Values:
        return mixed(self.settings.eps, lambda: uniform(values, forbidden, rng), drawn(values, forbidden, rng), rng)
