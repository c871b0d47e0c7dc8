"""``hyperparameters: exploration``: how agents deviate from the best known action; names as in Note.RL and border."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import model_validator
from typing_extensions import override

from tau_trainer.settings.kinds import (
    Float,
    Fraction,
    NaturalFloat,
    PositiveFloat,
    PositiveInt,
    Section,
    invalid,
    one_of,
)
from tau_trainer.settings.schedules import FractionSchedule, at

ANNEALING_SHARE = 0.2
"""Share of a run's decisions over which exploration falls, unless the file sets their number."""
_NO_RUN = 100_000
"""Decisions over which exploration falls if there is no run."""


class ExplorationSettings(Section):
    """Base of every kind of exploration, with the name of its ``type``."""

    type: str

    def over(self, max_steps: int) -> Self:
        """These settings for a run of ``max_steps`` decisions; with 0, exploration starts at its minimum."""
        return self


class AnnealedSettings(ExplorationSettings):
    """Exploration that may fall during a run."""

    n_steps_annealing: PositiveInt | None = None
    """Decisions until exploration reaches its minimum; null = the first fifth of max_steps."""

    @override
    def over(self, max_steps: int) -> Self:
        if self.n_steps_annealing is not None:
            return self
        return self.having(n_steps_annealing=max(1, round(ANNEALING_SHARE * max_steps)))

    def fallen(self, decisions: float) -> float:
        """Progress of the fall, 0 to 1. If neither file nor run sets its length, it takes 100,000 decisions."""
        return min(decisions / (self.n_steps_annealing or _NO_RUN), 1.0)


class SoftmaxSettings(ExplorationSettings):
    """``softmax``: sample from the given probabilities; for a network's values, from their softmax."""

    type: Literal["softmax"] = "softmax"


class GreedySettings(ExplorationSettings):
    """``greedy``: always the best action; for networks that explore by themselves (``noisy``)."""

    type: Literal["greedy"] = "greedy"


class EpsGreedySettings(AnnealedSettings):
    """``eps_greedy``: a random action with probability epsilon, otherwise the best."""

    type: Literal["eps_greedy"] = "eps_greedy"
    eps: FractionSchedule = 0.1
    """Epsilon, its initial value, or its own schedule."""
    eps_min: Fraction | None = None
    """Epsilon after n_steps_annealing decisions; null = constant."""
    annealing: Literal["linear", "exponential"] = "linear"
    """How epsilon falls: by the same amount, or by the same factor with each decision."""

    @model_validator(mode="after")
    def _falls(self) -> Self:
        if self.eps_min is not None and not isinstance(self.eps, float):
            raise invalid("has both eps_min and a schedule as eps; remove one of them")
        if self.eps_min is not None and self.eps_min > at(self.eps, 0):
            raise invalid(f"eps_min {self.eps_min} is larger than eps {self.eps}; lower it")
        if self.annealing == "exponential" and self.eps_min == 0:
            raise invalid("eps_min must be above 0 if annealing is exponential")
        return self


class AdaptiveEpsGreedySettings(ExplorationSettings):
    """``adaptive_eps_greedy``: epsilon is ``min_eps + (initial_eps - min_eps) exp(-decay_rate decisions)``."""

    type: Literal["adaptive_eps_greedy"] = "adaptive_eps_greedy"
    initial_eps: Fraction = 1.0
    """Epsilon at the start."""
    min_eps: Fraction = 0.1
    """Epsilon in the limit."""
    decay_rate: NaturalFloat = 1e-4
    """Rate of decay for each decision."""


class BoltzmannSettings(ExplorationSettings):
    """``boltzmann``: sample in proportion to ``exp(value / tau)``."""

    type: Literal["boltzmann"] = "boltzmann"
    tau: PositiveFloat = 1.0
    """Temperature; the larger, the closer to uniform."""
    clip: tuple[Float, Float] = (-500.0, 500.0)
    """Limits of ``value / tau``."""

    @model_validator(mode="after")
    def _range(self) -> Self:
        if self.clip[0] >= self.clip[1]:
            raise invalid("clip must have the smaller number first")
        return self


class MaxBoltzmannSettings(BoltzmannSettings):
    """``max_boltzmann``: like ``boltzmann`` with probability ``eps``, otherwise the best action."""

    type: Literal["max_boltzmann"] = "max_boltzmann"  # type: ignore[assignment]
    eps: Fraction = 0.1
    """Probability of sampling."""


class BoltzmannGumbelSettings(ExplorationSettings):
    """``boltzmann_gumbel``: the best of ``value + C / sqrt(count) Gumbel``; an action's count starts at 1."""

    type: Literal["boltzmann_gumbel"] = "boltzmann_gumbel"
    C: NaturalFloat = 1.0
    """Amount of exploration."""


class GumbelSoftmaxSettings(ExplorationSettings):
    """``gumbel_softmax``: a hard Gumbel softmax of the values; a random action with probability ``eps``."""

    type: Literal["gumbel_softmax"] = "gumbel_softmax"
    temperature: PositiveFloat = 1.0
    """Temperature of the softmax."""
    eps: Fraction = 0.01
    """Probability of a random action."""


class GaussianWhiteNoiseSettings(AnnealedSettings):
    """``gaussian_white_noise``: noise ``N(mu, sigma)`` on every continuous action; actions are within [-1, 1]."""

    type: Literal["gaussian_white_noise"] = "gaussian_white_noise"
    mu: Float = 0.0
    """Mean."""
    sigma: NaturalFloat = 1.0
    """Standard deviation, or its initial value."""
    sigma_min: NaturalFloat | None = None
    """Standard deviation after n_steps_annealing decisions; null = constant."""

    @model_validator(mode="after")
    def _sigma_falls(self) -> Self:
        if self.sigma_min is not None and self.sigma_min > self.sigma:
            raise invalid(f"sigma_min {self.sigma_min} is larger than sigma {self.sigma}; lower it")
        return self


class OrnsteinUhlenbeckSettings(GaussianWhiteNoiseSettings):
    """``ornstein_uhlenbeck``: noise correlated over decisions, which starts again with each episode.

    ``x += theta (mu - x) dt + sigma sqrt(dt) N(0, 1)`` for every continuous action.
    """

    type: Literal["ornstein_uhlenbeck"] = "ornstein_uhlenbeck"  # type: ignore[assignment]
    theta: PositiveFloat
    """Strength of the pull back to mu."""
    dt: PositiveFloat = 1e-2
    """Time of a decision."""

    @model_validator(mode="after")
    def _stable(self) -> Self:
        if self.theta * self.dt >= 2.0:
            raise invalid("theta times dt must be below 2, or the noise grows without limit; lower dt")
        return self


VALUE_EXPLORATIONS: dict[str, type[ExplorationSettings]] = {
    "softmax": SoftmaxSettings,
    "eps_greedy": EpsGreedySettings,
    "adaptive_eps_greedy": AdaptiveEpsGreedySettings,
    "greedy": GreedySettings,
    "boltzmann": BoltzmannSettings,
    "max_boltzmann": MaxBoltzmannSettings,
    "boltzmann_gumbel": BoltzmannGumbelSettings,
    "gumbel_softmax": GumbelSoftmaxSettings,
}
"""Explorations that choose among discrete actions by their values."""
NOISES: dict[str, type[ExplorationSettings]] = {
    "gaussian_white_noise": GaussianWhiteNoiseSettings,
    "ornstein_uhlenbeck": OrnsteinUhlenbeckSettings,
}
"""Noises on continuous actions."""


def by_type(table: Mapping[str, type[ExplorationSettings]]) -> Any:
    """The annotation of a key whose ``type`` selects a class of ``table``."""
    return one_of("type", table)


ValueExploration = ExplorationSettings
"""One of :data:`VALUE_EXPLORATIONS`, by its ``type``."""
NoiseExploration = ExplorationSettings
"""One of :data:`NOISES`, by its ``type``."""
ActorExploration = ExplorationSettings
"""One of :data:`NOISES`, or ``gumbel_softmax``."""

AnyExploration = ExplorationSettings
"""One of :data:`VALUE_EXPLORATIONS` or :data:`NOISES`."""

if not TYPE_CHECKING:
    AnyExploration = by_type(VALUE_EXPLORATIONS | NOISES)
    ValueExploration = by_type(VALUE_EXPLORATIONS)
    NoiseExploration = by_type(NOISES)
    ActorExploration = by_type({"gumbel_softmax": GumbelSoftmaxSettings, **NOISES})
