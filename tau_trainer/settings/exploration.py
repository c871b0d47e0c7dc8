"""``hyperparameters: exploration``: how agents leave the best known action, with Note.RL's and border's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, Union

from pydantic import BeforeValidator, Discriminator, Tag, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import override

from tau_trainer.settings.kinds import TAG, Float, Fraction, NaturalFloat, PositiveFloat, PositiveInt, Section
from tau_trainer.settings.schedules import FractionSchedule, at

ANNEALING_SHARE = 0.2
"""Of a run's decisions: so long exploration falls where nobody says how many they are."""
_NO_RUN = 100_000
"""The same where there is no run."""


class ExplorationSettings(Section):
    """What every kind of exploration has: the name of its ``type``."""

    type: str

    def over(self, max_steps: int) -> Self:
        """The same with numbers of its own for a run of so many decisions; with 0 it has fallen from the beginning."""
        return self


class AnnealedSettings(ExplorationSettings):
    """What may fall while a run goes on."""

    n_steps_annealing: PositiveInt | None = None
    """Decisions until it is at its least; null = the first fifth of max_steps."""

    @override
    def over(self, max_steps: int) -> Self:
        if self.n_steps_annealing is not None:
            return self
        return self.model_copy(update={"n_steps_annealing": max(1, round(ANNEALING_SHARE * max_steps))})

    def fallen(self, decisions: float) -> float:
        """How far it has fallen, 0 to 1; where neither a file nor a run says how long, over 100,000 decisions."""
        return min(decisions / (self.n_steps_annealing or _NO_RUN), 1.0)


class SoftmaxSettings(ExplorationSettings):
    """``softmax``: draw from the probabilities that are given; of a network's values, from their softmax."""

    type: Literal["softmax"] = "softmax"


class GreedySettings(ExplorationSettings):
    """``greedy``: the best action, always; for networks that explore by themselves (``noisy``)."""

    type: Literal["greedy"] = "greedy"


class EpsGreedySettings(AnnealedSettings):
    """``eps_greedy``: any action with probability epsilon, else the best."""

    type: Literal["eps_greedy"] = "eps_greedy"
    eps: FractionSchedule = 0.1
    """Epsilon, or what it is at first, or its own schedule."""
    eps_min: Fraction | None = None
    """What it is after n_steps_annealing decisions; null = it stays."""
    annealing: Literal["linear", "exponential"] = "linear"
    """How it gets there: by the same amount, or by the same factor each decision."""

    @model_validator(mode="after")
    def _falls(self) -> Self:
        if self.eps_min is not None and not isinstance(self.eps, float):
            raise PydanticCustomError("two_schedules", "has eps_min, and an eps that is a schedule; leave one out")
        if self.eps_min is not None and self.eps_min > at(self.eps, 0):
            raise PydanticCustomError(
                "eps_falls", "eps_min {low} is larger than eps {eps}; lower it", {"low": self.eps_min, "eps": self.eps}
            )
        if self.annealing == "exponential" and self.eps_min == 0:
            raise PydanticCustomError("eps_above_zero", "eps_min must be above 0 where annealing is exponential")
        return self


class AdaptiveEpsGreedySettings(ExplorationSettings):
    """``adaptive_eps_greedy``: epsilon is ``min_eps + (initial_eps - min_eps) exp(-decay_rate decisions)``."""

    type: Literal["adaptive_eps_greedy"] = "adaptive_eps_greedy"
    initial_eps: Fraction = 1.0
    """Epsilon at first."""
    min_eps: Fraction = 0.1
    """What it goes to."""
    decay_rate: NaturalFloat = 1e-4
    """How fast, for each decision."""


class BoltzmannSettings(ExplorationSettings):
    """``boltzmann``: draw in proportion to ``exp(value / tau)``."""

    type: Literal["boltzmann"] = "boltzmann"
    tau: PositiveFloat = 1.0
    """Temperature: the larger, the more alike are all actions."""
    clip: tuple[Float, Float] = (-500.0, 500.0)
    """Limits of ``value / tau``."""

    @model_validator(mode="after")
    def _range(self) -> Self:
        if self.clip[0] >= self.clip[1]:
            raise PydanticCustomError("clip_range", "clip must name the smaller number first")
        return self


class MaxBoltzmannSettings(BoltzmannSettings):
    """``max_boltzmann``: as ``boltzmann`` with probability ``eps``, else the best action."""

    type: Literal["max_boltzmann"] = "max_boltzmann"  # type: ignore[assignment]
    eps: Fraction = 0.1
    """How often is drawn."""


class BoltzmannGumbelSettings(ExplorationSettings):
    """``boltzmann_gumbel``: the best of ``value + C / sqrt(count) Gumbel``, where an action's count begins at 1."""

    type: Literal["boltzmann_gumbel"] = "boltzmann_gumbel"
    C: NaturalFloat = 1.0
    """How much is explored."""


class GumbelSoftmaxSettings(ExplorationSettings):
    """``gumbel_softmax``: a Gumbel softmax of the values, made hard; any action with probability ``eps``."""

    type: Literal["gumbel_softmax"] = "gumbel_softmax"
    temperature: PositiveFloat = 1.0
    """Of the softmax, before it is made hard."""
    eps: Fraction = 0.01
    """How often any action is taken."""


class GaussianWhiteNoiseSettings(AnnealedSettings):
    """``gaussian_white_noise``: ``N(mu, sigma)`` on every continuous action, which are within [-1, 1]."""

    type: Literal["gaussian_white_noise"] = "gaussian_white_noise"
    mu: Float = 0.0
    """Mean."""
    sigma: NaturalFloat = 1.0
    """Standard deviation, or what it is at first."""
    sigma_min: NaturalFloat | None = None
    """What it is after n_steps_annealing decisions; null = it stays."""

    @model_validator(mode="after")
    def _sigma_falls(self) -> Self:
        if self.sigma_min is not None and self.sigma_min > self.sigma:
            raise PydanticCustomError(
                "sigma_falls",
                "sigma_min {low} is larger than sigma {sigma}; lower it",
                {"low": self.sigma_min, "sigma": self.sigma},
            )
        return self


class OrnsteinUhlenbeckSettings(GaussianWhiteNoiseSettings):
    """``ornstein_uhlenbeck``: noise that goes on from decision to decision, and is drawn anew where an episode begins.

    ``x += theta (mu - x) dt + sigma sqrt(dt) N(0, 1)`` for every continuous action.
    """

    type: Literal["ornstein_uhlenbeck"] = "ornstein_uhlenbeck"  # type: ignore[assignment]
    theta: PositiveFloat
    """How strongly it is drawn back to mu."""
    dt: PositiveFloat = 1e-2
    """Time that a decision takes."""

    @model_validator(mode="after")
    def _stable(self) -> Self:
        if self.theta * self.dt >= 2.0:
            raise PydanticCustomError(
                "stable_noise", "theta times dt must be below 2, or the noise grows without limit; lower dt"
            )
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
"""What chooses among discrete actions by their values."""
NOISES: dict[str, type[ExplorationSettings]] = {
    "gaussian_white_noise": GaussianWhiteNoiseSettings,
    "ornstein_uhlenbeck": OrnsteinUhlenbeckSettings,
}
"""What disturbs continuous actions."""


def _tag(value: object) -> str:
    return f"{TAG}{value.get('type') if isinstance(value, Mapping) else getattr(value, 'type', '')}"


def by_type(table: Mapping[str, type[ExplorationSettings]]) -> Any:
    """The annotation of a key whose ``type`` says which of ``table`` its settings are."""

    def known(value: object) -> object:
        if isinstance(value, ExplorationSettings) or (isinstance(value, Mapping) and value.get("type") in table):
            return value
        if not isinstance(value, Mapping) or "type" not in value:
            raise PydanticCustomError("no_type", "has no type; known: {known}", {"known": ", ".join(table)})
        raise PydanticCustomError(
            "unknown_choice", "has an unknown type", {"given": str(value["type"]), "known": [*table]}
        )

    members = tuple(Annotated[settings, Tag(TAG + name)] for name, settings in table.items())
    return Annotated[Union[members], Discriminator(_tag), BeforeValidator(known)]  # noqa: UP007 made at run time


ValueExploration = ExplorationSettings
"""One of :data:`VALUE_EXPLORATIONS`, by its ``type``."""
NoiseExploration = ExplorationSettings
"""One of :data:`NOISES`, by its ``type``."""
ActorExploration = ExplorationSettings
"""One of :data:`NOISES`, or ``gumbel_softmax``."""

AnyExploration = ExplorationSettings
"""One of both."""

if not TYPE_CHECKING:
    AnyExploration = by_type(VALUE_EXPLORATIONS | NOISES)
    ValueExploration = by_type(VALUE_EXPLORATIONS)
    NoiseExploration = by_type(NOISES)
    ActorExploration = by_type({"gumbel_softmax": GumbelSoftmaxSettings, **NOISES})
