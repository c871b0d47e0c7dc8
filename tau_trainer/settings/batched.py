"""Settings of a batched run: behaviors as in any run, and an environment whose copies are tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

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
    DDPGHyperparameters,
    DQNHyperparameters,
    Hyperparameters,
    IQNHyperparameters,
    OffPolicyHyperparameters,
    PPOHyperparameters,
    SACHyperparameters,
    SACLNHyperparameters,
    Schedule,
    TD3Hyperparameters,
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
from tau_trainer.settings.networks import NormalizingNetworkSettings
from tau_trainer.settings.run import RunSettings
from tau_trainer.settings.schedules import NaturalSchedule, PositiveSchedule
from tau_trainer.settings.signals import RewardSignalSettings
from tau_trainer.settings.trainers import RewardSignals, TrainerSettings

Compile = Literal["auto", "on", "off"]
"""When to compile stepping and acting: if a probe finds it faster, always, or never."""
_FOR_ENGINES = (
    *("engine_settings", "environment_parameters", "tau", "collection", "execution", "async_trainer"),
    *("strategy", "max_staleness"),
)
"""Keys without a meaning if copies are tensors."""
_CLOCK = ("max_steps", "summary_freq", "checkpoint_interval", "even_checkpoints")
"""Keys that must be equal in all behaviors of a batched run, because they play in the same copies, step by step."""


class A2CHyperparameters(Hyperparameters):
    """Hyperparameters of A2C, with WarpDrive's names if it has them."""

    batch_size: PositiveInt = 64
    """Decisions in one gradient step. If only buffer_size is given, it is the default, so an update is one step."""
    buffer_size: PositiveInt | None = None  # type: ignore[assignment]
    """Decisions collected before an update (``train_batch_size``); null = eight per agent, and at least 512."""
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
    """Lambda of generalized advantage estimation; 1: full discounted returns."""
    max_grad_norm: PositiveFloat | None = 0.5
    """Maximum norm of gradients; null = no limit (``clip_grad_norm: false``)."""
    normalize_advantage: Bool = True
    """Scale advantages to mean 0 and deviation 1 over the update's decisions."""
    normalize_return: Bool = False
    """Scale the returns that values learn in the same way."""
    shared_critic: Bool = False
    """Policy and value function share one body."""

    @model_validator(mode="before")
    @classmethod
    def _one_step(cls, data: Any) -> Any:
        """If buffer_size is given, an omitted batch_size is equal to it."""
        if not isinstance(data, dict) or data.get("buffer_size") is None:
            return data
        return {"batch_size": data["buffer_size"]} | data

    def gathered(self, agents: int) -> int:
        """Decisions before an update; ``agents``: decisions in one step."""
        return self.buffer_size or max(512, 8 * agents)


OffPolicyKeys = TypeVar("OffPolicyKeys", bound=OffPolicyHyperparameters)


def _what_tensors_have(hyper: OffPolicyKeys) -> OffPolicyKeys:
    """Refuse the options of off-policy algorithms that are not supported on tensors."""
    keys = "prioritized", "hindsight", "n_step", "noisy"
    lacking = [key for key in keys if key in type(hyper).model_fields]
    hyper.refuse("{key} is not supported on tensors; remove it", *lacking)
    exploration = getattr(hyper, "exploration", None)
    if exploration is not None and exploration.type in ("boltzmann_gumbel", "ornstein_uhlenbeck"):
        text = "exploration.type {kind} is not supported on tensors; remove it"
        raise PydanticCustomError("tensors", text, {"kind": exploration.type})
    return hyper


class BatchedDQNHyperparameters(DQNHyperparameters):
    """Hyperparameters of deep Q-learning on tensors."""

    steps_per_update: PositiveFloat = 64.0
    """Decisions for each gradient update."""
    _check = model_validator(mode="after")(_what_tensors_have)


class BatchedIQNHyperparameters(IQNHyperparameters):
    """Hyperparameters of implicit quantile networks on tensors."""

    steps_per_update: PositiveFloat = 64.0
    """Decisions for each gradient update."""
    _check = model_validator(mode="after")(_what_tensors_have)


class BatchedSACHyperparameters(SACHyperparameters):
    """Hyperparameters of SAC on tensors."""

    steps_per_update: PositiveFloat = 16.0
    """Decisions for each gradient update."""
    _check = model_validator(mode="after")(_what_tensors_have)


class BatchedSACLNHyperparameters(SACLNHyperparameters):
    """Hyperparameters of SAC with layer normalization on tensors."""

    steps_per_update: PositiveFloat = 16.0
    """Decisions for each gradient update."""
    _check = model_validator(mode="after")(_what_tensors_have)


class BatchedDDPGHyperparameters(DDPGHyperparameters):
    """Hyperparameters of DDPG on tensors."""

    steps_per_update: PositiveFloat = 16.0
    """Decisions for each gradient update."""
    _check = model_validator(mode="after")(_what_tensors_have)


class BatchedTD3Hyperparameters(TD3Hyperparameters):
    """Hyperparameters of TD3 on tensors."""

    steps_per_update: PositiveFloat = 16.0
    """Decisions for each gradient update."""
    _check = model_validator(mode="after")(_what_tensors_have)


class EnvironmentSettings(Section):
    """``environment``: the environment and its copies."""

    name: Text
    """A batched environment by its name, or the user's own MODULE:CLASS."""
    num_envs: PositiveInt = 1024
    """Copies that play at once."""
    starts: Literal["drawn", "fixed", "pool"] | None = None
    """How episodes start: drawn at random, each like the first one of its copy, or from a pool of starts; null = the
    environment's own way."""
    pool: PositiveInt = 1024
    """Number of starts in the pool."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the environment, by name."""


class EvaluationSettings(Section):
    """``evaluation``: episodes with the most likely actions, in separate copies."""

    interval: NaturalInt = 0
    """Decisions between two evaluations; 0: only at the end."""
    episodes: NaturalInt = 16
    """Copies that play one episode each; 0: no evaluation."""
    max_episode_steps: PositiveInt = 10000
    """Steps after which an unfinished episode is counted as it is."""
    trace: Bool = False
    """Keep one episode of the last evaluation: trace.npz, and trace.gif if the environment draws pictures."""

    @model_validator(mode="after")
    def _plays(self) -> Self:
        if self.interval and not self.episodes:
            text = "has episodes 0 but interval {interval}; raise episodes, or set interval to 0 for no evaluation"
            raise PydanticCustomError("plays_nothing", text, {"interval": self.interval})
        return self


class PolicySettings(TrainerSettings):
    """A behavior of a batched environment. A *step* is a decision of any agent; agents that have left count too."""

    agents: tuple[Text, ...] | None = None
    """The behavior's agents, by name or by the part of the name before the number; null = all agents."""
    to_train: Bool = True
    """Whether the policy learns; if False, it acts without changing."""
    player: Text | None = None
    """A fixed player of the environment that acts instead of a network."""
    max_steps: PositiveInt = 1_000_000
    """Decisions after which the run ends, summed over all agents."""

    of_networks: ClassVar[frozenset[str]] = frozenset(
        {"trainer_type", "hyperparameters", "network_settings", "reward_signals", "init_path"}
    )
    """Keys that have no meaning for a player."""

    @property
    def learns(self) -> bool:
        """Whether training changes the policy."""
        return self.to_train and self.player is None

    @model_validator(mode="after")
    def _players_are_no_networks(self) -> Self:
        given = self.of_networks & self.model_fields_set
        if self.player is not None and given:
            text = "has a player, which has no network, and {key}; remove one of them"
            raise PydanticCustomError("player", text, {"key": min(given)})
        return self

    @model_validator(mode="after")
    def _what_tensors_have(self) -> Self:
        if self.network_settings.memory is not None:
            text = "has network_settings.memory, which is not supported on tensors; remove it"
            raise PydanticCustomError("no_memory", text)
        if set(self.reward_signals) != {"extrinsic"} and isinstance(self.hyperparameters, OffPolicyHyperparameters):
            text = "has reward_signals other than extrinsic, which only ppo and a2c support on tensors; remove them"
            raise PydanticCustomError("extrinsic_alone", text)
        if "extrinsic" not in self.reward_signals:
            text = "has no reward_signals.extrinsic, which is required on tensors; add it, with strength: 0 if not used"
            raise PydanticCustomError("no_extrinsic", text)
        engines = "time_horizon", "save_param_only", "threaded", "self_play", "behavioral_cloning"
        self.refuse("has {key}, which only works with engines; remove it", *engines)
        return self

    @model_serializer(mode="wrap")
    def _without_a_network(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit the network's keys for a player, so that the result can be read again."""
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
            text = "has hyperparameters.updates_per_buffer 2, which only works with engines; remove it"
            raise PydanticCustomError("once", text)
        self.hyperparameters.refuse("has hyperparameters.{key}, which only works with engines; remove it", "shrink_at")
        return self


class A2CPolicySettings(PolicySettings):
    """A behavior that A2C trains."""

    trainer_type: Literal["a2c"] = "a2c"
    hyperparameters: A2CHyperparameters = A2CHyperparameters()
    reward_signals: RewardSignals = Field(default_factory=lambda: {"extrinsic": RewardSignalSettings(gamma=0.98)})

    @field_validator("reward_signals", mode="before")
    @classmethod
    def _its_own_gamma(cls, value: Any) -> Any:
        """An extrinsic signal without a gamma gets A2C's."""
        extrinsic = value.get("extrinsic") if isinstance(value, Mapping) else None
        return {**value, "extrinsic": {"gamma": 0.98, **extrinsic}} if isinstance(extrinsic, Mapping) else value


class DQNPolicySettings(PolicySettings):
    """A behavior that deep Q-learning trains on tensors."""

    trainer_type: Literal["dqn"] = "dqn"
    hyperparameters: BatchedDQNHyperparameters = BatchedDQNHyperparameters()


class IQNPolicySettings(PolicySettings):
    """A behavior that an implicit quantile network trains on tensors."""

    trainer_type: Literal["iqn"] = "iqn"
    hyperparameters: BatchedIQNHyperparameters = BatchedIQNHyperparameters()


class SACPolicySettings(PolicySettings):
    """A behavior that SAC trains on tensors."""

    trainer_type: Literal["sac"] = "sac"
    hyperparameters: BatchedSACHyperparameters = BatchedSACHyperparameters()


class SACLNPolicySettings(PolicySettings):
    """A behavior that SAC with layer normalization trains on tensors."""

    trainer_type: Literal["sac_ln"] = "sac_ln"
    hyperparameters: BatchedSACLNHyperparameters = BatchedSACLNHyperparameters()
    network_settings: NormalizingNetworkSettings = NormalizingNetworkSettings()


class DDPGPolicySettings(PolicySettings):
    """A behavior that DDPG trains on tensors."""

    trainer_type: Literal["ddpg"] = "ddpg"
    hyperparameters: BatchedDDPGHyperparameters = BatchedDDPGHyperparameters()


class TD3PolicySettings(PolicySettings):
    """A behavior that TD3 trains on tensors."""

    trainer_type: Literal["td3"] = "td3"
    hyperparameters: BatchedTD3Hyperparameters = BatchedTD3Hyperparameters()


POLICIES: dict[str, type[PolicySettings]] = {
    "a2c": A2CPolicySettings,
    "ppo": PPOPolicySettings,
    "dqn": DQNPolicySettings,
    "iqn": IQNPolicySettings,
    "sac": SACPolicySettings,
    "sac_ln": SACLNPolicySettings,
    "ddpg": DDPGPolicySettings,
    "td3": TD3PolicySettings,
}
"""Classes of policy settings by ``trainer_type``."""


def _as_word(value: object) -> object:
    """Undo YAML's reading of ``on`` and ``off`` as true and false."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


def _of_its_type(value: object) -> object:
    """Read a plain mapping as the class of its ``trainer_type``."""
    if not isinstance(value, Mapping):
        return value
    return POLICIES[value.get("trainer_type", "ppo")].model_validate(value)


AnyPolicySettings = Annotated[SerializeAsAny[PolicySettings], BeforeValidator(_of_its_type)]


class BatchedSettings(RunSettings):
    """Settings of a run with a batched environment. Keys for engines are refused."""

    default_settings: AnyPolicySettings | None = None
    behaviors: Annotated[dict[str, AnyPolicySettings], Field(min_length=1)]  # type: ignore[assignment]
    """Policies and players by name."""
    environment: EnvironmentSettings
    """The environment and its copies."""
    evaluation: EvaluationSettings = EvaluationSettings()
    """Evaluation episodes during and after training."""
    compile: Annotated[Compile, BeforeValidator(_as_word)] = "auto"
    """When to compile stepping and acting."""

    @property
    def device(self) -> str:
        """The device of the tensors."""
        return self.torch_settings.device or "cpu"

    def on(self, device: str) -> BatchedSettings:
        """The same settings on that device."""
        chosen = self.torch_settings.model_copy(update={"device": device})
        return self.model_copy(update={"torch_settings": chosen})

    @property
    def seed(self) -> int:
        """The random seed; -1: a random one."""
        return self.env_settings.seed

    @property
    def clock(self) -> PolicySettings:
        """A behavior that learns; duration and intervals are the same for all of them."""
        return next(policy for policy in self.behaviors.values() if policy.learns)

    @field_validator(*_FOR_ENGINES, mode="before")
    @classmethod
    def _no_engines(cls, value: object) -> object:
        raise PydanticCustomError("for_engines", "is for engines, but the file has a batched environment; remove it")

    @field_validator("env_settings", mode="before")
    @classmethod
    def _seed_alone(cls, value: object) -> object:
        for key in value if isinstance(value, Mapping) else ():
            if key not in EnvSettings.model_fields or key == "seed":
                continue
            where = " (set copies with environment.num_envs)" if key == "num_envs" else ""
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
                text = "play in the same copies, but {said}; set it once, under default_settings"
                raise PydanticCustomError("one_clock", text, {"said": said})
        return value

    @model_validator(mode="after")
    def _somebody_learns(self) -> Self:
        if not any(policy.learns for policy in self.behaviors.values()):
            text = "has no behavior that learns; give one to_train: true and no player"
            raise PydanticCustomError("nobody_learns", text)
        return self

    @model_validator(mode="after")
    def _shared_out(self) -> Self:
        if self.environment.num_envs % self.devices:
            text = "cannot divide {copies} copies among {devices} devices; make environment.num_envs a multiple of it"
            raise PydanticCustomError("devices", text, {"copies": self.environment.num_envs, "devices": self.devices})
        if self.devices > 1:
            for name, policy in self.behaviors.items():
                off_policy = isinstance(policy.hyperparameters, OffPolicyHyperparameters)
                if policy.learns and (off_policy or len(policy.reward_signals) > 1):
                    what = "a trainer_type that learns" if off_policy else "reward_signals that learn"
                    text = "has devices, but behaviors.{name} has {what} in one process only; remove devices"
                    raise PydanticCustomError("devices", text, {"name": name, "what": what})
        return self

    @model_validator(mode="after")
    def _nodes_have_ranks(self) -> Self:
        if self.cluster is not None and self.devices == 1:
            text = "has a cluster (--cluster), which runs all ranks but the first, but one device; add --devices"
            raise PydanticCustomError("cluster_alone", text)
        return self

    @model_serializer(mode="wrap")
    def _without_engines(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit the keys for engines, so that the result can be read again."""
        values: dict[str, Any] = handler(self)
        if "env_settings" in values:
            values["env_settings"] = {"seed": self.seed}
        return {key: value for key, value in values.items() if key not in _FOR_ENGINES}


def is_batched(data: Mapping[str, Any]) -> bool:
    """Whether a file's data has a batched environment; earlier versions wrote ``policies`` for ``behaviors``."""
    return "environment" in data and ("behaviors" in data or "policies" in data)
