"""Noise on continuous actions: annealed Gaussian, and Ornstein and Uhlenbeck's, which has a state.

Formulas and defaults are those of Note.RL. Time is counted in decisions of all agents together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from typing_extensions import override

from tau_trainer.columns import Column
from tau_trainer.exploration.base import Exploration, Source, Values, normal
from tau_trainer.settings.exploration import GaussianWhiteNoiseSettings, OrnsteinUhlenbeckSettings
from tau_trainer.specs import ActionSpec, Float64Array, FloatArray

_NOISE, _BEGUN = "noise", "noise_begun"


class GaussianWhiteNoise(Exploration):
    """``N(mu, sigma)`` on every action; sigma may fall from ``sigma`` to ``sigma_min``."""

    settings: GaussianWhiteNoiseSettings

    @override
    def numbers(self, decisions: float, counts: Float64Array) -> FloatArray:
        """Sigma [1]: ``sigma - (sigma - sigma_min) min(decisions / n, 1)``."""
        settings, sigma = self.settings, self.settings.sigma
        if settings.sigma_min is not None:
            sigma -= (sigma - settings.sigma_min) * settings.fallen(decisions)
        return np.array([sigma], np.float32)

    @override
    def perturb(
        self, actions: Values, numbers: FloatArray, state: Mapping[str, Values], rng: Source
    ) -> tuple[Values, Mapping[str, Values]]:
        noise = normal(rng, actions)  # float32 [n, c]
        noise *= float(numbers[0])  # sigma
        noise += self.settings.mu
        noise += actions
        return noise, {}


class OrnsteinUhlenbeck(GaussianWhiteNoise):
    """``x += theta (mu - x) dt + sigma sqrt(dt) N(0, 1)`` on every action, separately for each agent and action.

    An episode starts at ``x ~ N(mu, sigma)``.
    """

    def __init__(self, settings: OrnsteinUhlenbeckSettings, actions: ActionSpec) -> None:
        super().__init__(settings, actions)
        self._pull = np.float32(settings.theta * settings.dt)
        self._spread = np.float32(math.sqrt(settings.dt))
        self.state_columns = (Column(_NOISE, (actions.continuous_size,)), Column(_BEGUN, (), np.bool_))

    @override
    def perturb(
        self, actions: Values, numbers: FloatArray, state: Mapping[str, Values], rng: Source
    ) -> tuple[Values, Mapping[str, Values]]:
        assert isinstance(rng, np.random.Generator), "tensors have no state for each agent"
        x = state[_NOISE].copy()  # a copy, because learning may keep the previous state
        begun = state[_BEGUN]
        mu = np.float32(self.settings.mu)
        if not begun.all():  # rows whose episode starts
            fresh = np.flatnonzero(~begun)
            x[fresh] = mu + numbers * rng.standard_normal((len(fresh), x.shape[1]), dtype=np.float32)
        noise = rng.standard_normal(x.shape, dtype=np.float32)
        noise *= numbers * self._spread  # sigma sqrt(dt) N(0, 1)
        x += (mu - x) * self._pull  # theta (mu - x) dt
        x += noise
        return actions + x, {_NOISE: x, _BEGUN: np.ones(len(x), np.bool_)}
