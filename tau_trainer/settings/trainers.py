"""Trainer settings: one entry under ``behaviors`` (and ``default_settings``), with ML-Agents' names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    Tag,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from tau_trainer import plugins
from tau_trainer.errors import SettingsError
from tau_trainer.settings.hyperparameters import (
    A2CHyperparameters,
    DDPGHyperparameters,
    DQNHyperparameters,
    Hyperparameters,
    IQLHyperparameters,
    IQNHyperparameters,
    MADDPGHyperparameters,
    OfflineCriticHyperparameters,
    OfflineHyperparameters,
    POCAHyperparameters,
    PPOHyperparameters,
    SACHyperparameters,
    SACLNHyperparameters,
    TD3Hyperparameters,
)
from tau_trainer.settings.kinds import TAG, Bool, Float, Fraction, Int, PositiveInt, Section, TableSchema, Text, invalid
from tau_trainer.settings.networks import MemorySettings, NetworkSettings, NormalizingNetworkSettings
from tau_trainer.settings.signals import (
    BehavioralCloningSettings,
    RewardSignalSettings,
    SelfPlaySettings,
    SignalTable,
)

_SEQUENCES = 8
"""Sequences in a minibatch of ``sac_ln`` by default. 128 decisions are only two, so minibatches would differ a lot."""
LEAST_SUMMARIES = 20
"""Minimum points of a run's curve with ``summary_freq: auto``, even if the run is short."""
SummaryFreq = Annotated[
    Annotated[PositiveInt, Tag(TAG + "steps")] | Annotated[Literal["auto"], Tag(TAG + "auto")],
    Discriminator(lambda value: TAG + ("auto" if value == "auto" else "steps")),
]
"""Steps between two points of a curve; for ``auto``, see :func:`summary_every`."""


def _not_empty(value: dict[str, RewardSignalSettings]) -> dict[str, RewardSignalSettings]:
    if not value:
        raise invalid("is empty, so there is nothing to learn from; add `extrinsic: {}`")
    return value


RewardSignals = Annotated[dict[str, RewardSignalSettings], TableSchema(SignalTable), AfterValidator(_not_empty)]
"""Reward signals by name, each of the class for its name."""


def summary_every(given: SummaryFreq, usual: int, max_steps: int) -> int:
    """Steps between two points of a curve: ``given``, or for ``auto`` the ``usual`` steps.

    In a short run, ``auto`` is a twentieth of ``max_steps``. ``max_steps`` 0: a run without end.
    """
    if given != "auto":
        return given
    return min(usual, max(max_steps // LEAST_SUMMARIES, 1)) if max_steps else usual


class TrainerSettings(Section):
    """Base of every trainer type's settings. A *step* is one decision of one agent, summed over all engines."""

    trainer_type: str
    """The algorithm: a name of :func:`tau_trainer.plugins.names`."""
    algorithm: ClassVar[str]
    """``module:Class`` of the algorithm below :mod:`tau_trainer.algorithms`; only trainer types of our own have it."""
    hyperparameters: SerializeAsAny[Hyperparameters]
    """Hyperparameters of the algorithm."""
    network_settings: NetworkSettings = NetworkSettings()
    """Shape of the policy's network."""
    reward_signals: RewardSignals = Field(default_factory=lambda: {"extrinsic": RewardSignalSettings()})
    """Signals by name; if given, extrinsic is not added automatically."""
    init_path: str | None = None
    """A checkpoint to start from."""
    keep_checkpoints: Int = 5
    """Number of newest checkpoints to keep; 0 or less keeps all."""
    checkpoint_interval: PositiveInt = 500000
    """Steps between checkpoints."""
    even_checkpoints: Bool = False
    """Ignore checkpoint_interval and spread keep_checkpoints evenly over max_steps."""
    max_steps: PositiveInt = 500000
    """Steps after which this behavior stops learning."""
    criterion: Float | None = None
    """Mean reward over trial_count episodes, of agent and group, at which this behavior stops learning; None = only
    max_steps ends it."""
    trial_count: PositiveInt = 100
    """Number of newest episodes, of all agents and engines, that criterion and save_best_only average."""
    save_best_only: Bool = False
    """Write a checkpoint only if the behavior has become better: by validation, or by the mean reward over trial_count
    episodes."""
    save_param_only: Bool = False
    """Save only weights and counters in checkpoints: no optimizer, no experience, no random numbers."""
    time_horizon: PositiveInt = 64
    """Maximum length of a piece of one agent's episode that is learned from at once."""
    summary_freq: SummaryFreq = "auto"
    """Steps between two points of every TensorBoard curve; auto = usual_summary_freq, or in short runs a twentieth of
    max_steps."""
    usual_summary_freq: ClassVar[int] = 50000
    """Value of ``auto`` in a run that is long enough."""
    threaded: Bool = False
    """Accepted for ML-Agents' files; here, learning always runs in parallel with collection."""
    self_play: SelfPlaySettings | None = None
    """Play against earlier versions of the policy; ``{}`` means the defaults."""
    behavioral_cloning: BehavioralCloningSettings | None = None
    """Imitate demonstrations in addition."""
    agents: tuple[Text, ...] | None = None
    """With a batched environment: the behavior's agents, by name or by the part of the name before the number; null =
    all agents."""
    to_train: Bool = True
    """With a batched environment: whether the policy learns; if False, it acts without changing."""
    player: Text | None = None
    """A fixed player of the batched environment that acts instead of a network."""

    tensor_defaults: ClassVar[Mapping[str, Any]] = {"max_steps": 1_000_000}
    of_networks: ClassVar[frozenset[str]] = frozenset(
        {"trainer_type", "hyperparameters", "network_settings", "reward_signals", "init_path"}
    )
    """Keys that have no meaning for a player."""
    of_copies: ClassVar[tuple[str, ...]] = ("agents", "to_train", "player")
    """Keys that only a batched environment gives a meaning."""

    @property
    def learns(self) -> bool:
        """Whether training changes the policy."""
        return self.to_train and self.player is None

    @property
    def checkpoint_every(self) -> int:
        """Steps between two checkpoints, with even_checkpoints applied."""
        if not self.even_checkpoints:
            return self.checkpoint_interval
        return max(1, self.max_steps // self.keep_checkpoints)

    def summary_every(self, max_steps: int) -> int:
        """Steps between two points of a learner's curve, with ``auto`` resolved; ``max_steps`` 0: a run without end."""
        return summary_every(self.summary_freq, self.usual_summary_freq, max_steps)

    @model_validator(mode="before")
    @classmethod
    def _goals_are_inputs(cls, data: Any) -> Any:
        """With hindsight, feed goals as inputs: almost every row has its own goal, and a layer for each is too slow."""
        numbers = data.get("hyperparameters") if isinstance(data, Mapping) else None
        if not isinstance(numbers, Mapping) or numbers.get("hindsight") is None:
            return data
        network = data.get("network_settings") or {}
        return {**data, "network_settings": {"goal_conditioning_type": "none", **network}}

    @model_serializer(mode="wrap")
    def _readable(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit the network's keys for a player, and unused keys of batched environments: neither could be read back."""
        values: dict[str, Any] = handler(self)
        left_out = {key for key in self.of_copies if not self.changed(key)}
        left_out |= frozenset() if self.player is None else self.of_networks
        return {key: value for key, value in values.items() if key not in left_out}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        given = self.of_networks & self.model_fields_set
        if self.player is not None and given:
            raise invalid(f"has a player, which has no network, and {min(given)}; remove one of them")
        if self.even_checkpoints and self.keep_checkpoints < 1:
            raise invalid("even_checkpoints divides max_steps by keep_checkpoints, which must be at least 1")
        hyper, memory = self.hyperparameters, self.network_settings.memory
        if memory and memory.sequence_length > hyper.batch_size:
            raise invalid(
                f"network_settings.memory.sequence_length {memory.sequence_length} is larger than "
                f"hyperparameters.batch_size {hyper.batch_size}; make it at most the batch size"
            )
        return self


class PPOTrainerSettings(TrainerSettings):
    """A behavior that PPO trains."""

    trainer_type: Literal["ppo"] = "ppo"
    algorithm: ClassVar[str] = "ppo:PPO"
    hyperparameters: PPOHyperparameters = PPOHyperparameters()


class A2CTrainerSettings(TrainerSettings):
    """A behavior that A2C trains."""

    trainer_type: Literal["a2c"] = "a2c"
    algorithm: ClassVar[str] = "a2c:A2C"
    hyperparameters: A2CHyperparameters = A2CHyperparameters()
    reward_signals: RewardSignals = Field(default_factory=lambda: {"extrinsic": RewardSignalSettings(gamma=0.98)})

    @field_validator("reward_signals", mode="before")
    @classmethod
    def _its_own_gamma(cls, value: Any) -> Any:
        """An extrinsic signal without a gamma gets A2C's."""
        extrinsic = value.get("extrinsic") if isinstance(value, Mapping) else None
        return {**value, "extrinsic": {"gamma": 0.98, **extrinsic}} if isinstance(extrinsic, Mapping) else value


class SACTrainerSettings(TrainerSettings):
    """A behavior that SAC trains."""

    trainer_type: Literal["sac"] = "sac"
    algorithm: ClassVar[str] = "off_policy.sac:SAC"
    hyperparameters: SACHyperparameters = SACHyperparameters()


class SACLNTrainerSettings(TrainerSettings):
    """A behavior that SAC with layer normalization trains."""

    trainer_type: Literal["sac_ln"] = "sac_ln"
    algorithm: ClassVar[str] = "off_policy.sac_ln:SACLN"
    hyperparameters: SACLNHyperparameters = SACLNHyperparameters()
    network_settings: NormalizingNetworkSettings = NormalizingNetworkSettings()

    @model_validator(mode="before")
    @classmethod
    def _several_sequences(cls, data: Any) -> Any:
        """With a memory, a minibatch is eight sequences unless ``batch_size`` is given."""
        if not isinstance(data, Mapping):
            return data
        network, numbers = data.get("network_settings"), data.get("hyperparameters", {})
        memory = network.get("memory") if isinstance(network, Mapping) else getattr(network, "memory", None)
        if memory is not None and isinstance(numbers, Mapping):
            with suppress(ValidationError):  # it is reported with its place later
                length = MemorySettings.model_validate(memory).sequence_length
                return {**data, "hyperparameters": {"batch_size": _SEQUENCES * length, **numbers}}
        return data


class DQNTrainerSettings(TrainerSettings):
    """A behavior that deep Q-learning trains."""

    trainer_type: Literal["dqn"] = "dqn"
    algorithm: ClassVar[str] = "off_policy.dqn:DQN"
    hyperparameters: DQNHyperparameters = DQNHyperparameters()


class IQNTrainerSettings(DQNTrainerSettings):
    """A behavior that an implicit quantile network trains."""

    trainer_type: Literal["iqn"] = "iqn"  # type: ignore[assignment]
    algorithm: ClassVar[str] = "off_policy.iqn:IQN"
    hyperparameters: IQNHyperparameters = IQNHyperparameters()


class DDPGTrainerSettings(TrainerSettings):
    """A behavior that DDPG trains."""

    trainer_type: Literal["ddpg"] = "ddpg"
    algorithm: ClassVar[str] = "off_policy.ddpg:DDPG"
    hyperparameters: DDPGHyperparameters = DDPGHyperparameters()

    @model_validator(mode="after")
    def _without_memory(self) -> Self:
        if self.network_settings.memory is not None:
            raise invalid(
                f"network_settings.memory: {self.trainer_type} does not support it; remove it, "
                "or use trainer_type: sac or ppo"
            )
        return self


class TD3TrainerSettings(DDPGTrainerSettings):
    """A behavior that TD3 trains."""

    trainer_type: Literal["td3"] = "td3"  # type: ignore[assignment]
    algorithm: ClassVar[str] = "off_policy.td3:TD3"
    hyperparameters: TD3Hyperparameters = TD3Hyperparameters()


class MADDPGTrainerSettings(DDPGTrainerSettings):
    """A behavior whose agents MADDPG trains together."""

    trainer_type: Literal["maddpg"] = "maddpg"  # type: ignore[assignment]
    algorithm: ClassVar[str] = "off_policy.maddpg:MADDPG"
    hyperparameters: MADDPGHyperparameters = MADDPGHyperparameters()


class OfflineTrainerSettings(TrainerSettings):
    """A behavior that is learned from recordings, without an engine. A *step* is a gradient step."""

    demo_path: Text
    """A ``.demo`` file or a folder of them."""
    held_out: Annotated[Fraction, Field(lt=1.0)] = 0.1
    """Share of episodes that are not learned from; their losses show how well the policy generalizes."""
    evaluation_episodes: PositiveInt = 10
    """Episodes to play at each checkpoint, if an environment is named."""
    max_steps: PositiveInt = 20000
    """Gradient steps."""
    checkpoint_interval: PositiveInt = 5000
    """Steps between checkpoints."""
    usual_summary_freq: ClassVar[int] = 1000


class BCTrainerSettings(OfflineTrainerSettings):
    """Behavioral cloning."""

    trainer_type: Literal["bc"] = "bc"
    algorithm: ClassVar[str] = "offline.bc:BC"
    hyperparameters: OfflineHyperparameters = OfflineHyperparameters()


class IQLTrainerSettings(OfflineTrainerSettings):
    """Implicit Q-learning."""

    trainer_type: Literal["iql"] = "iql"
    algorithm: ClassVar[str] = "offline.iql:IQL"
    hyperparameters: IQLHyperparameters = IQLHyperparameters()


class AWACTrainerSettings(OfflineTrainerSettings):
    """Advantage-weighted actor-critic."""

    trainer_type: Literal["awac"] = "awac"
    algorithm: ClassVar[str] = "offline.awac:AWAC"
    hyperparameters: OfflineCriticHyperparameters = OfflineCriticHyperparameters()


class POCATrainerSettings(TrainerSettings):
    """A behavior whose groups MA-POCA trains."""

    trainer_type: Literal["poca"] = "poca"
    algorithm: ClassVar[str] = "poca:POCA"
    hyperparameters: POCAHyperparameters = POCAHyperparameters()


class MAPPOTrainerSettings(POCATrainerSettings):
    """A behavior whose groups MAPPO trains."""

    trainer_type: Literal["mappo"] = "mappo"  # type: ignore[assignment]
    algorithm: ClassVar[str] = "poca:MAPPO"


@dataclass(frozen=True, slots=True)
class TrainerType:
    """The settings and the algorithm of a ``trainer_type``."""

    settings: type[TrainerSettings]
    """Class of the settings; ``trainer_type`` and ``hyperparameters`` need defaults."""
    algorithm: str
    """``module:Class`` of a :class:`tau_trainer.algorithms.Algorithm`."""


def trainer_type(name: str) -> TrainerType:
    """The trainer type of that name. Raises SettingsError if there is none."""
    found = plugins.load("trainers", name)
    if name in plugins.own("trainers"):
        return TrainerType(found, f"tau_trainer.algorithms.{found.algorithm}")
    if not isinstance(found, TrainerType) and hasattr(found, "trainer"):  # the class of a tau_trainer.Agent
        found = found.trainer()
    if not isinstance(found, TrainerType):
        raise SettingsError(f"'{name}' is neither a class of tau_trainer.Agent nor a tau_trainer.settings.TrainerType")
    return found


def shared_out(settings: TrainerSettings, learners: int) -> TrainerSettings:
    """Divide one learner's rollout among ``learners``.

    The learners of a parameter server then take as many gradient steps per decision as one process.
    """
    hyper = settings.hyperparameters
    whole = getattr(hyper, "rollout_size", hyper.buffer_size)
    changed: dict[str, int] = {"buffer_size": max(hyper.batch_size, whole // learners)}
    if "updates_per_buffer" in type(hyper).model_fields:
        changed["updates_per_buffer"] = 1
    return settings.having(hyperparameters=changed)


def _of_its_type(value: object) -> object:
    """Read a plain mapping as the class of its ``trainer_type``."""
    if not isinstance(value, Mapping):
        return value
    return trainer_type(str(value.get("trainer_type", "ppo"))).settings.model_validate(value)


AnyTrainerSettings = Annotated[SerializeAsAny[TrainerSettings], BeforeValidator(_of_its_type)]
"""Settings of a behavior with any trainer type."""
