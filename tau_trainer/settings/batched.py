"""Settings of a batched run: behaviors as everywhere, and an environment whose copies are tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from tau_trainer.settings.engines import EnvSettings
from tau_trainer.settings.hyperparameters import (
    DQNHyperparameters,
    Hyperparameters,
    OffPolicyHyperparameters,
    PPOHyperparameters,
    Schedule,
)
from tau_trainer.settings.kinds import (
    Bool,
    Fraction,
    NaturalFloat,
    NaturalInt,
    PositiveFloat,
    PositiveInt,
    Section,
    Text,
)
from tau_trainer.settings.run import RunSettings
from tau_trainer.settings.schedules import NaturalSchedule, PositiveSchedule
from tau_trainer.settings.signals import RewardSignalSettings
from tau_trainer.settings.trainers import RewardSignals, TrainerSettings

Compile = Literal["auto", "on", "off"]
"""Whether stepping and acting are compiled: where a probe says that it is faster, always, or never."""
_FOR_ENGINES = (
    *("engine_settings", "environment_parameters", "tau", "collection", "execution", "async_trainer"),
    *("strategy", "max_staleness"),
)
"""Keys that mean nothing where copies are tensors."""
_CLOCK = ("max_steps", "summary_freq", "checkpoint_interval", "even_checkpoints")
"""What all behaviors of a batched run have alike: they play in the same copies, step by step."""


class A2CHyperparameters(Hyperparameters):
    """Numbers of A2C, with WarpDrive's names where it has them."""

    batch_size: PositiveInt = 64
    """Decisions in one gradient step; buffer_size where that alone is given, so that an update is one step."""
    buffer_size: PositiveInt | None = None  # type: ignore[assignment]
    """Decisions gathered before an update (``train_batch_size``); null = eight of every agent, and at least 512."""
    learning_rate: PositiveSchedule = 1e-3
    """Step size of the optimizer at the start (``lr``), or its own schedule."""
    learning_rate_schedule: Schedule = "linear"
    """Linear: down to 1e-10 at max_steps."""
    vf_loss_coeff: NaturalFloat = 0.5
    """Factor on the mean squared error of the values."""
    entropy_coeff: NaturalSchedule = 0.01
    """Coefficient of the entropy bonus, or its own schedule."""
    entropy_coeff_schedule: Schedule = "constant"
    """Linear: down to 1e-5 at max_steps."""
    lambd: Fraction = 0.95
    """Lambda of generalised advantage estimation; 1: whole discounted returns."""
    max_grad_norm: PositiveFloat | None = 0.5
    """Gradients are scaled down to this norm; null = never (``clip_grad_norm: false``)."""
    normalize_advantage: Bool = True
    """Advantages get mean 0 and deviation 1 over the update's decisions."""
    normalize_return: Bool = False
    """So do the returns that values learn."""
    shared_critic: Bool = False
    """Policy and value function share one body."""

    @model_validator(mode="before")
    @classmethod
    def _one_step(cls, data: Any) -> Any:
        """Beside a buffer_size an omitted batch_size is all that was gathered."""
        if not isinstance(data, dict) or data.get("buffer_size") is None:
            return data
        return {"batch_size": data["buffer_size"]} | data

    def gathered(self, agents: int) -> int:
        """Decisions before an update, where so many are made in one step."""
        return self.buffer_size or max(512, 8 * agents)


class BatchedDQNHyperparameters(DQNHyperparameters):
    """Numbers of deep Q-learning on tensors."""

    steps_per_update: PositiveFloat = 64.0
    """Decisions for each gradient update."""

    @model_validator(mode="after")
    def _what_tensors_have(self) -> Self:
        self.refuse("{key} is not there on tensors; remove it", "prioritized", "hindsight", "n_step", "noisy")
        if self.exploration.type == "boltzmann_gumbel":
            raise PydanticCustomError("tensors", "exploration.type boltzmann_gumbel is not there on tensors; remove it")
        return self


class EnvironmentSettings(Section):
    """``environment``: what is played."""

    name: Text
    """A batched environment by its name, or MODULE:CLASS of one's own."""
    num_envs: PositiveInt = 1024
    """Copies that are played at once."""
    starts: Literal["drawn", "fixed", "pool"] | None = None
    """Episodes begin drawn anew, each as its copy's first one, or as one of a pool of starts; null = as the environment
    does by itself."""
    pool: PositiveInt = 1024
    """Starts in the pool."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Its own, by name."""


class EvaluationSettings(Section):
    """``evaluation``: episodes of the most likely actions, in copies of their own."""

    interval: NaturalInt = 0
    """Decisions between two evaluations; 0: at the end alone."""
    episodes: NaturalInt = 16
    """Copies, of which each plays one episode; 0: there is no evaluation."""
    max_episode_steps: PositiveInt = 10000
    """Steps after which an episode that has not ended is counted as it stands."""
    trace: Bool = False
    """Keep one episode of the last evaluation: trace.npz, and trace.gif where the environment draws pictures."""


class PolicySettings(TrainerSettings):
    """A behavior of a batched environment. A *step* is a decision of any agent; those that have left count too."""

    agents: tuple[Text, ...] | None = None
    """Whose it is: agents by name, or by what stands before their number; null = all there are."""
    to_train: Bool = True
    """Whether it learns; else it acts as it is."""
    player: Text | None = None
    """A fixed player of the environment that decides instead of a network."""
    max_steps: PositiveInt = 1_000_000
    """Decisions of all agents together after which the run ends."""

    of_networks: ClassVar[frozenset[str]] = frozenset(
        {"trainer_type", "hyperparameters", "network_settings", "reward_signals", "init_path"}
    )
    """Keys that a player has no use for."""

    @property
    def learns(self) -> bool:
        """Whether anything changes it."""
        return self.to_train and self.player is None

    @model_validator(mode="after")
    def _players_are_no_networks(self) -> Self:
        given = self.of_networks & self.model_fields_set
        if self.player is not None and given:
            text = "has a player, which is no network, and {key}; remove one of them"
            raise PydanticCustomError("player", text, {"key": min(given)})
        return self

    @model_validator(mode="after")
    def _what_tensors_have(self) -> Self:
        if self.network_settings.memory is not None:
            text = "asks for network_settings.memory, which is not learned on tensors; remove it"
            raise PydanticCustomError("no_memory", text)
        if set(self.reward_signals) != {"extrinsic"} and self.trainer_type == "dqn":
            text = "has reward_signals other than extrinsic, which ppo and a2c alone have on tensors; remove them"
            raise PydanticCustomError("extrinsic_alone", text)
        if "extrinsic" not in self.reward_signals:
            text = "has no reward_signals.extrinsic, which counts on tensors; add it, with strength: 0 if need be"
            raise PydanticCustomError("no_extrinsic", text)
        engines = "time_horizon", "save_param_only", "threaded", "self_play", "behavioral_cloning"
        self.refuse("asks for {key}, which is for engines; remove it", *engines)
        return self

    @model_serializer(mode="wrap")
    def _without_a_network(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What can be read again: a player has no network."""
        values: dict[str, Any] = handler(self)
        left_out = frozenset() if self.player is None else self.of_networks
        return {key: value for key, value in values.items() if key not in left_out}


class PPOPolicySettings(PolicySettings):
    """A behavior that PPO trains on tensors."""

    trainer_type: Literal["ppo"] = "ppo"
    hyperparameters: PPOHyperparameters = PPOHyperparameters()

    @model_validator(mode="after")
    def _once(self) -> Self:
        if self.hyperparameters.updates_per_buffer == 2:
            text = "asks for hyperparameters.updates_per_buffer 2, which is for engines; remove it"
            raise PydanticCustomError("once", text)
        self.hyperparameters.refuse("asks for hyperparameters.{key}, which is for engines; remove it", "shrink_at")
        return self


class A2CPolicySettings(PolicySettings):
    """A behavior that A2C trains."""

    trainer_type: Literal["a2c"] = "a2c"
    hyperparameters: A2CHyperparameters = A2CHyperparameters()
    reward_signals: RewardSignals = Field(default_factory=lambda: {"extrinsic": RewardSignalSettings(gamma=0.98)})

    @field_validator("reward_signals", mode="before")
    @classmethod
    def _its_own_gamma(cls, value: Any) -> Any:
        """An extrinsic signal that says no gamma has A2C's."""
        extrinsic = value.get("extrinsic") if isinstance(value, Mapping) else None
        return {**value, "extrinsic": {"gamma": 0.98, **extrinsic}} if isinstance(extrinsic, Mapping) else value


class DQNPolicySettings(PolicySettings):
    """A behavior that deep Q-learning trains on tensors."""

    trainer_type: Literal["dqn"] = "dqn"
    hyperparameters: BatchedDQNHyperparameters = BatchedDQNHyperparameters()


POLICIES: dict[str, type[PolicySettings]] = {
    "a2c": A2CPolicySettings,
    "ppo": PPOPolicySettings,
    "dqn": DQNPolicySettings,
}
"""By ``trainer_type``."""


def _as_word(value: object) -> object:
    """``on`` and ``off``, which YAML reads as true and false."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


def _of_its_type(value: object) -> object:
    """A plain mapping as the class that its ``trainer_type`` asks for."""
    if not isinstance(value, Mapping):
        return value
    return POLICIES[value.get("trainer_type", "ppo")].model_validate(value)


AnyPolicySettings = Annotated[SerializeAsAny[PolicySettings], BeforeValidator(_of_its_type)]


class BatchedSettings(RunSettings):
    """Settings of a run whose environment is tensors: what engines have is refused."""

    default_settings: AnyPolicySettings | None = None
    behaviors: Annotated[dict[str, AnyPolicySettings], Field(min_length=1)]  # type: ignore[assignment]
    """Who decides for whom, by name."""
    environment: EnvironmentSettings
    """What is played."""
    evaluation: EvaluationSettings = EvaluationSettings()
    """Episodes beside learning."""
    compile: Annotated[Compile, BeforeValidator(_as_word)] = "auto"
    """Whether stepping and acting are compiled."""

    @property
    def device(self) -> str:
        """Where the tensors are."""
        return self.torch_settings.device or "cpu"

    def on(self, device: str) -> BatchedSettings:
        """The same on that device."""
        chosen = self.torch_settings.model_copy(update={"device": device})
        return self.model_copy(update={"torch_settings": chosen})

    @property
    def seed(self) -> int:
        """Of everything random; -1: a random one."""
        return self.env_settings.seed

    @property
    def clock(self) -> PolicySettings:
        """A behavior that learns: how long, and what is written when, is the same for all of them."""
        return next(policy for policy in self.behaviors.values() if policy.learns)

    @field_validator(*_FOR_ENGINES, mode="before")
    @classmethod
    def _no_engines(cls, value: object) -> object:
        raise PydanticCustomError("for_engines", "is for engines, and the file is of a batched environment; remove it")

    @field_validator("env_settings", mode="before")
    @classmethod
    def _seed_alone(cls, value: object) -> object:
        for key in value if isinstance(value, Mapping) else ():
            if key not in EnvSettings.model_fields or key == "seed":
                continue
            where = "; environment.num_envs says how many copies there are" if key == "num_envs" else ""
            text = "has {key}, which is for engines{where}; remove it"
            raise PydanticCustomError("for_engines", text, {"key": key, "where": where})
        return value

    @field_validator("behaviors")
    @classmethod
    def _one_clock(cls, value: dict[str, PolicySettings]) -> dict[str, PolicySettings]:
        learning = {name: policy for name, policy in value.items() if policy.learns}
        for key in _CLOCK:
            given = {getattr(policy, key): name for name, policy in learning.items()}
            if len(given) > 1:
                said = " and ".join(f"{name} has {key} {number}" for number, name in given.items())
                text = "play in the same copies, and {said}; say it once, under default_settings"
                raise PydanticCustomError("one_clock", text, {"said": said})
        return value

    @model_validator(mode="after")
    def _somebody_learns(self) -> Self:
        if not any(policy.learns for policy in self.behaviors.values()):
            text = "has no behavior that learns; let one have to_train: true and no player"
            raise PydanticCustomError("nobody_learns", text)
        return self

    @model_validator(mode="after")
    def _shared_out(self) -> Self:
        if self.environment.num_envs % self.devices:
            text = "cannot share {copies} copies out to {devices} devices; make environment.num_envs a multiple of it"
            raise PydanticCustomError("devices", text, {"copies": self.environment.num_envs, "devices": self.devices})
        if self.devices > 1:
            for name, policy in self.behaviors.items():
                off_policy = isinstance(policy.hyperparameters, OffPolicyHyperparameters)
                if policy.learns and (off_policy or len(policy.reward_signals) > 1):
                    what = "a trainer_type that learns" if off_policy else "reward_signals that learn"
                    text = "has devices, and behaviors.{name} {what} in one process; remove devices"
                    raise PydanticCustomError("devices", text, {"name": name, "what": what})
        return self

    @model_validator(mode="after")
    def _nodes_have_ranks(self) -> Self:
        if self.cluster is not None and self.devices == 1:
            text = "has a cluster (--cluster), for all ranks but the first, and one device; add devices (--devices)"
            raise PydanticCustomError("cluster_alone", text)
        return self

    @model_serializer(mode="wrap")
    def _without_engines(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What can be read again."""
        values: dict[str, Any] = handler(self)
        if "env_settings" in values:
            values["env_settings"] = {"seed": self.seed}
        return {key: value for key, value in values.items() if key not in _FOR_ENGINES}


def is_batched(data: Mapping[str, Any]) -> bool:
    """Whether a file's data is of a batched environment; earlier versions had ``policies`` there."""
    return "environment" in data and ("behaviors" in data or "policies" in data)
