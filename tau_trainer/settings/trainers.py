"""Trainer settings: one entry under ``behaviors`` (and ``default_settings``), with ML-Agents' names and defaults."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from tau_trainer.settings.hyperparameters import (
    Hyperparameters,
    POCAHyperparameters,
    PPOHyperparameters,
    SACHyperparameters,
)
from tau_trainer.settings.kinds import Bool, Int, PositiveInt, Section, TableSchema
from tau_trainer.settings.networks import NetworkSettings
from tau_trainer.settings.signals import (
    BehavioralCloningSettings,
    RewardSignalSettings,
    SelfPlaySettings,
    SignalTable,
)


def _not_empty(value: dict[str, RewardSignalSettings]) -> dict[str, RewardSignalSettings]:
    if not value:
        raise PydanticCustomError("no_signal", "is empty, so there is nothing to learn from; add `extrinsic: {}`")
    return value


RewardSignals = Annotated[dict[str, RewardSignalSettings], TableSchema(SignalTable), AfterValidator(_not_empty)]
"""Reward signals by name, each of the class that its name asks for."""


class CommonTrainerSettings(Section):
    """What every trainer type has. A *step* is one decision of one agent, summed over all engines."""

    network_settings: NetworkSettings = NetworkSettings()
    """Shape of the policy's network."""
    reward_signals: RewardSignals = Field(default_factory=lambda: {"extrinsic": RewardSignalSettings()})
    """Signals by name; if given, extrinsic is not added by itself."""
    init_path: str | None = None
    """A checkpoint to start from."""
    keep_checkpoints: Int = 5
    """Newest checkpoints kept; 0 or less keeps all."""
    checkpoint_interval: PositiveInt = 500000
    """Steps between checkpoints."""
    even_checkpoints: Bool = False
    """Ignore checkpoint_interval and spread keep_checkpoints evenly over max_steps."""
    max_steps: PositiveInt = 500000
    """Steps after which this behavior stops learning."""
    time_horizon: PositiveInt = 64
    """Longest piece of one agent's episode that is learned from at once."""
    summary_freq: PositiveInt = 50000
    """Steps between two points of every TensorBoard curve."""
    threaded: Bool = False
    """Kept for ML-Agents' files; learning always runs beside collection here."""
    self_play: SelfPlaySettings | None = None
    """Play against earlier selves; ``{}`` means the defaults."""
    behavioral_cloning: BehavioralCloningSettings | None = None
    """Imitate demonstrations as well."""

    @property
    def checkpoint_every(self) -> int:
        """Steps between two checkpoints, with even_checkpoints applied."""
        if not self.even_checkpoints:
            return self.checkpoint_interval
        return max(1, self.max_steps // self.keep_checkpoints)

    @model_validator(mode="after")
    def _even_needs_count(self) -> Self:
        if self.even_checkpoints and self.keep_checkpoints < 1:
            raise PydanticCustomError(
                "even_checkpoints", "even_checkpoints needs a keep_checkpoints of at least 1 to divide max_steps by"
            )
        return self

    @model_validator(mode="after")
    def _sequence_fits_batch(self) -> Self:
        numbers = getattr(self, "hyperparameters", None)
        memory = self.network_settings.memory
        if memory and isinstance(numbers, Hyperparameters) and memory.sequence_length > numbers.batch_size:
            raise PydanticCustomError(
                "sequence_fits_batch",
                "network_settings.memory.sequence_length {length} is larger than hyperparameters.batch_size {batch}; "
                "make it at most the batch size",
                {"length": memory.sequence_length, "batch": numbers.batch_size},
            )
        return self


class TrainerSettings(CommonTrainerSettings):
    """A behavior that PPO trains."""

    trainer_type: Literal["ppo"] = "ppo"
    """The algorithm."""
    hyperparameters: PPOHyperparameters = PPOHyperparameters()
    """Its numbers."""


class SACTrainerSettings(CommonTrainerSettings):
    """A behavior for SAC: read and checked, not trained by this version."""

    trainer_type: Literal["sac"] = "sac"
    """The algorithm."""
    hyperparameters: SACHyperparameters = SACHyperparameters()
    """Its numbers."""


class POCATrainerSettings(CommonTrainerSettings):
    """A behavior for POCA or MAPPO: read and checked, not trained by this version."""

    trainer_type: Literal["poca", "mappo"] = "poca"
    """The algorithm."""
    hyperparameters: POCAHyperparameters = POCAHyperparameters()
    """Its numbers."""


AnyTrainerSettings = TrainerSettings | SACTrainerSettings | POCATrainerSettings
"""Settings of a behavior, whatever trains it."""

TRAINER_TYPES: dict[str, type[TrainerSettings] | type[SACTrainerSettings] | type[POCATrainerSettings]] = {
    "ppo": TrainerSettings,
    "sac": SACTrainerSettings,
    "poca": POCATrainerSettings,
    "mappo": POCATrainerSettings,
}
"""Every trainer type of the file format, by its name."""
