"""``hyperparameters`` of the learning algorithms, with ML-Agents' names and defaults."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from typing_extensions import override

from tau_trainer.settings.exploration import (
    ActorExploration,
    AnyExploration,
    EpsGreedySettings,
    GaussianWhiteNoiseSettings,
    NoiseExploration,
    ValueExploration,
)
from tau_trainer.settings.kinds import (
    Bool,
    Fraction,
    NaturalFloat,
    NaturalInt,
    PositiveFloat,
    PositiveInt,
    Section,
    invalid,
    is_number,
)
from tau_trainer.settings.replay import HindsightSettings, PrioritizedSettings
from tau_trainer.settings.schedules import ExponentialSettings, NaturalSchedule, PositiveSchedule

Schedule = Literal["constant", "linear"]
"""Change of a number over ``max_steps``: none, or linear down to its floor."""

Optimizer = Literal["adam", "adamw", "nadam", "rmsprop", "sgd"]
_ADAMW_DECAY = 0.01
AUTO: Literal["auto"] = "auto"
"""As many gradient steps as fit into the time of the game."""
_LEAST_MINIBATCHES = 16
"""Minimum minibatches of new decisions in an update that also learns from older ones; fewer cost time without gain."""


def _number_or_auto(value: object) -> object:
    if value != AUTO and not (is_number(value) and 0.0 < float(str(value)) < math.inf):
        raise invalid("must be auto, or a number above 0 such as 8 or 0.5")
    return value


DecisionsPerStep = Annotated[PositiveFloat | Literal["auto"], BeforeValidator(_number_or_auto)]
"""Decisions for each gradient step, or ``auto``."""


class Hyperparameters(Section):
    """Hyperparameters of every algorithm."""

    replays: ClassVar[bool] = False
    """Whether the algorithm learns from a replay buffer."""
    batch_size: PositiveInt = 1024
    """Decisions in one minibatch."""
    buffer_size: PositiveInt = 10240
    """On-policy: decisions collected before an update. Off-policy: capacity of the replay buffer."""
    learning_rate: PositiveSchedule = 3e-4
    """Step size of the optimizer at the start, or its own schedule."""
    learning_rate_schedule: Schedule = "linear"
    """Linear: down to 1e-10 at max_steps. No effect if learning_rate is a schedule."""
    optimizer: Optimizer = "adam"
    """The optimizer; parameters without a key have the defaults of torch.optim."""
    weight_decay: NaturalFloat = Field(
        default_factory=lambda data: _ADAMW_DECAY if data.get("optimizer") == "adamw" else 0.0
    )
    """Decoupled weight decay of the optimizer, on weight matrices. Default: 0, or 0.01 with adamw."""
    layer_statistics: Bool = False
    """Record mean and deviation of every layer's weights and gradients after each update."""

    @classmethod
    def of(cls, given: Hyperparameters) -> Self:
        """``given`` as hyperparameters of this class. Raises TypeError for those of another ``trainer_type``."""
        if not isinstance(given, cls):
            raise TypeError(f"{type(given).__name__} are no {cls.__name__}, which this algorithm needs")
        return given

    @model_validator(mode="after")
    def _batch_fits_buffer(self) -> Self:
        if self.buffer_size and self.batch_size > self.buffer_size:
            raise invalid(
                f"batch_size {self.batch_size} is larger than buffer_size {self.buffer_size}, so no minibatch would "
                "ever be full; lower batch_size or raise buffer_size"
            )
        return self


class POCAHyperparameters(Hyperparameters):
    """Hyperparameters that PPO, POCA and MAPPO share; the last three keys are Tau Trainer's own."""

    beta: NaturalSchedule = 5e-3
    """Coefficient of the entropy bonus, or its own schedule."""
    epsilon: PositiveSchedule = 0.2
    """Clip range of the probability ratio, or its own schedule."""
    lambd: Fraction = 0.95
    """Lambda of generalized advantage estimation."""
    num_epoch: PositiveInt = 3
    """Passes over the buffer in an update."""
    beta_schedule: Schedule = "linear"
    """Linear: down to 1e-5. If omitted, it copies a given learning_rate_schedule."""
    epsilon_schedule: Schedule = "linear"
    """Linear: down to 0.1. If omitted, it copies a given learning_rate_schedule."""
    max_grad_norm: PositiveFloat | None = None
    """Maximum norm of gradients; null = no limit, as in ML-Agents."""
    normalize_advantage: Literal["buffer", "minibatch"] = "buffer"
    """Scale advantages to mean 0 and deviation 1 over the whole buffer, as in ML-Agents, or over each minibatch."""
    target_kl: PositiveFloat | None = None
    """An update ends early once the policy has changed by this much (mean KL in nats); null = never."""

    @property
    def rollout_size(self) -> int:
        """New decisions that an update waits for."""
        return self.buffer_size

    @model_validator(mode="before")
    @classmethod
    def _schedules_follow(cls, data: Any) -> Any:
        """Omitted schedules copy a given learning_rate_schedule (ML-Agents ``check_hyperparam_schedules``)."""
        if not isinstance(data, dict) or data.get("learning_rate_schedule") not in ("constant", "linear"):
            return data
        follow = data["learning_rate_schedule"]
        return {"beta_schedule": follow, "epsilon_schedule": follow} | data


class PPOHyperparameters(POCAHyperparameters):
    """Hyperparameters of PPO; updates_per_buffer and shrink_at are Tau Trainer's own."""

    shared_critic: Bool = False
    """Policy and value function share one body."""
    updates_per_buffer: Literal["auto", 1, 2] = "auto"
    """2: an update starts once half of its buffer_size decisions are new. Each decision is used in two updates,
    num_epoch times in all, and agents act with a fresher policy. 1: an update starts once all are new, as in ML-Agents.
    auto = 2 if the new half fills 16 minibatches, otherwise 1."""
    shrink_at: Fraction | None = None
    """Once this share of max_steps is done, weights move halfway to freshly drawn ones, so that early overfitting
    weighs less in the end (shrink and perturb); null = never, as in runs that were started without it."""

    @property
    @override
    def rollout_size(self) -> int:
        half = self.buffer_size // 2
        halves = half >= (_LEAST_MINIBATCHES if self.updates_per_buffer == "auto" else 1) * self.batch_size
        return half if halves and self.updates_per_buffer != 1 else self.buffer_size


class A2CHyperparameters(Hyperparameters):
    """Hyperparameters of A2C, with WarpDrive's names if it has them."""

    batch_size: PositiveInt = 64
    """Decisions in one gradient step. If only buffer_size is given, it is the default, so an update is one step."""
    buffer_size: PositiveInt | None = None  # type: ignore[assignment]
    """Decisions collected before an update (``train_batch_size``); null = 512, or on tensors eight per agent if that is
    more."""
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
        """Decisions before an update; ``agents``: decisions in one step of copies on tensors."""
        return self.buffer_size or max(512, 8 * agents)

    @property
    def rollout_size(self) -> int:
        """New decisions that an update waits for, if they are not of copies on tensors."""
        return self.gathered(1)


class OffPolicyHyperparameters(Hyperparameters):
    """Hyperparameters of algorithms that learn from a replay buffer."""

    replays: ClassVar[bool] = True
    tensor_defaults: ClassVar[Mapping[str, Any]] = {"steps_per_update": 16.0}
    auto_decisions: ClassVar[tuple[float, float]] = (1.0, 8.0)
    """Minimum and maximum of decisions for each gradient step if steps_per_update is auto."""

    batch_size: PositiveInt = 128
    """Decisions in one minibatch."""
    buffer_size: PositiveInt = 50000
    """Capacity of the replay buffer in decisions."""
    learning_rate_schedule: Schedule = "constant"
    """Linear: down to 1e-10 at max_steps."""
    buffer_init_steps: NaturalInt = 0
    """Decisions before the first update."""
    steps_per_update: DecisionsPerStep = 1.0
    """Decisions for each gradient update. auto: as many updates as fit while the game is busy, from one for 8 decisions
    (the game waits for these) to one for each decision."""
    reward_signal_steps_per_update: DecisionsPerStep = Field(
        default_factory=lambda data: data.get("steps_per_update", 1)
    )
    """Decisions for each update of learned reward signals. Default: steps_per_update, or its maximum for auto."""
    save_replay_buffer: Bool = False
    """Save the replay buffer in checkpoints, so that a resumed run continues with it."""
    prioritized: PrioritizedSettings | None = None
    """Sample transitions by their errors (prioritized replay); null = uniformly."""
    terminal_share: Annotated[Fraction, Field(le=0.5)] = 0.0
    """Share of each minibatch that is drawn from the newest decisions that ended an episode, which have a memory of
    their own, of a twentieth of buffer_size; 0 = none."""
    n_step: PositiveInt = 1
    """Number of rewards that a target sums before it adds a value (n-step return)."""
    hindsight: HindsightSettings | None = None
    """Also learn from other goals (hindsight replay); null = only from the original goals."""

    @model_validator(mode="after")
    def _drawn_one_way(self) -> Self:
        if self.prioritized is not None:
            self.refuse("{key} has no effect with prioritized, which draws by errors; remove one", "terminal_share")
        return self

    @property
    def auto(self) -> bool:
        """Whether steps_per_update is auto."""
        return self.steps_per_update == AUTO

    @property
    def decisions_per_step(self) -> tuple[float, float]:
        """Minimum and maximum of decisions for each gradient step; if steps_per_update is a number, both are equal."""
        every = self.steps_per_update
        return self.auto_decisions if isinstance(every, str) else (every, every)

    @property
    def decisions_per_signal_step(self) -> float:
        """Decisions for each update of learned reward signals, which auto does not adjust."""
        every = self.reward_signal_steps_per_update
        return self.decisions_per_step[1] if isinstance(every, str) else every


class AgentHyperparameters(OffPolicyHyperparameters):
    """Hyperparameters of a :class:`tau_trainer.Agent`; its class adds more."""

    exploration: AnyExploration | None = None
    """Noise on the best action; null = branches are sampled as from logits, and continuous actions have no noise."""


class OfflineHyperparameters(OffPolicyHyperparameters):
    """Hyperparameters of trainers that learn only from recordings, with gradient steps on all of them."""

    batch_size: PositiveInt = 256
    """Decisions in one minibatch."""

    @model_validator(mode="after")
    def _nothing_is_collected(self) -> Self:
        collecting = "buffer_size", "buffer_init_steps", "steps_per_update", "save_replay_buffer"
        text = "{key} has no effect for a trainer that learns only from recordings; remove it"
        self.refuse(text, *collecting, "prioritized", "terminal_share", "n_step", "hindsight")
        return self


class OfflineCriticHyperparameters(OfflineHyperparameters):
    """Hyperparameters of offline trainers that learn Qs and imitate actions that were better than expected."""

    tau: Fraction = 0.005
    """Share of the new weights in every target update."""
    inverse_temperature: NaturalFloat = 1.0
    """An action's weight is exp(advantage times this); 0 = equal weights, as in behavioral cloning."""
    largest_weight: PositiveFloat = 100.0
    """Maximum weight of an action."""


class IQLHyperparameters(OfflineCriticHyperparameters):
    """Hyperparameters of IQL."""

    inverse_temperature: NaturalFloat = 3.0
    """An action's weight is exp(advantage times this); 0 = equal weights, as in behavioral cloning."""
    expectile: Fraction = 0.7
    """Target of the value: 0.5 is the mean over recorded actions, values near 1 their best."""


class SACHyperparameters(OffPolicyHyperparameters):
    """Hyperparameters of SAC."""

    tau: Fraction = 0.005
    """Share of the new weights in every target update."""
    init_entcoef: NaturalFloat = 1.0
    """Entropy coefficient at the start."""


class SACLNHyperparameters(OffPolicyHyperparameters):
    """Hyperparameters of SAC with layer normalization; they do not depend on the size of rewards."""

    tensor_defaults: ClassVar[Mapping[str, Any]] = {"steps_per_update": 16.0, "n_step": 1}

    learning_rate: PositiveSchedule = ExponentialSettings(initial=1e-3, final=3e-4, rate=0.9998)
    """Step size of the optimizer, or its own schedule. Default: from 0.001 to 0.0003, half of the way in 3,500
    decisions; 0.0003 if learning_rate_schedule is given."""
    buffer_size: PositiveInt = 200_000
    """Capacity of the replay buffer in decisions."""
    buffer_init_steps: NaturalInt = 250
    """Decisions before the first update."""
    steps_per_update: DecisionsPerStep = "auto"
    """Decisions for each gradient update; auto: as many updates as fit while the game is busy."""
    tau: Fraction = 0.05
    """Share of the new weights in every target update."""
    init_entcoef: NaturalFloat = 0.1
    """Entropy coefficient at the start, in units of the size of returns."""
    least_entcoef: NaturalFloat = 0.01
    """Minimum of the entropy coefficient, in units of the standard deviation of returns."""
    n_step: PositiveInt = 3
    """Number of rewards that a target sums before it adds a value (n-step return)."""
    terminal_share: Annotated[Fraction, Field(le=0.5)] = 0.15
    """Share of each minibatch that is drawn from the newest decisions that ended an episode; 0 = none."""

    @model_validator(mode="before")
    @classmethod
    def _schedule_is_of_a_number(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and "learning_rate_schedule" in given:
            return {"learning_rate": 3e-4, **given}
        return given


class DQNHyperparameters(OffPolicyHyperparameters):
    """Hyperparameters of deep Q-learning; names are border's if it has them."""

    tensor_defaults: ClassVar[Mapping[str, Any]] = {"steps_per_update": 64.0}

    learning_rate: PositiveSchedule = 1e-3
    """Step size of the optimizer at the start, or its own schedule."""
    learning_rate_schedule: Schedule = "linear"
    """Linear: down to 1e-10 at max_steps."""
    buffer_init_steps: NaturalInt = 1000
    """Decisions before the first update."""
    steps_per_update: DecisionsPerStep = 2.0
    """Decisions for each gradient update, or auto."""
    tau: Fraction = 0.005
    """Share of the new weights in every target update; 1 copies them."""
    target_update_interval: PositiveInt = 1
    """Gradient updates between two target updates."""
    exploration: ValueExploration = EpsGreedySettings(eps=1.0, eps_min=0.02)
    """How agents deviate from the best known action."""
    double: Bool = True
    """The network chooses the action, and the target network scores it (double DQN)."""
    dueling: Bool = False
    """Separate layers for the value of an observation and the advantages of actions (dueling DQN)."""
    noisy: Bool = False
    """Hidden layers and outputs have noise of learned width; use it with ``exploration: {type: greedy}``."""
    loss: Literal["mse", "smooth_l1"] = "smooth_l1"
    """Squared errors, or Huber's loss with a limit of 1."""
    clip_reward: PositiveFloat | None = None
    """Rewards are clipped to this absolute value; null = never."""
    clip_td_err: PositiveFloat | None = None
    """Errors are clipped to this value in gradients and priorities; null = never."""
    max_grad_norm: PositiveFloat | None = None
    """Maximum norm of gradients; null = no limit."""


class IQNHyperparameters(DQNHyperparameters):
    """Hyperparameters of implicit quantile networks; names are Dopamine's if it has them."""

    num_tau_samples: PositiveInt = 8
    """N: number of fractions at which the distribution of the taken action is learned."""
    num_tau_prime_samples: PositiveInt = 8
    """N': number of fractions of the target's distribution."""
    num_quantile_samples: PositiveInt = 32
    """K: number of fractions that are averaged to the value of an action."""
    quantile_embedding_dim: PositiveInt = 64
    """Number of cosines that encode a fraction."""
    kappa: PositiveFloat = 1.0
    """Error at which the quantile Huber loss changes from quadratic to linear."""
    cvar: Annotated[Fraction, Field(gt=0)] = 1.0
    """Actions are valued by the mean of this worst share of their returns; 1 = of all returns."""

    @model_validator(mode="after")
    def _has_its_own_loss(self) -> Self:
        self.refuse("{key} is not supported by iqn; remove it, or use trainer_type: dqn", "dueling", "noisy")
        self.refuse("{key} is not supported by iqn; set kappa instead", "loss", "clip_td_err")
        return self


class DDPGHyperparameters(OffPolicyHyperparameters):
    """Hyperparameters of DDPG and TD3: as in Stable-Baselines3, except for noise that starts large and falls."""

    batch_size: PositiveInt = 256
    """Decisions in one minibatch."""
    buffer_size: PositiveInt = 1_000_000
    """Capacity of the replay buffer in decisions."""
    learning_rate: PositiveSchedule = 1e-3
    """Step size of the optimizer at the start."""
    learning_rate_schedule: Schedule = "linear"
    """Linear: down to 1e-10 at max_steps."""
    buffer_init_steps: NaturalInt = 1000
    """Decisions before the first update."""
    tau: Fraction = 0.005
    """Share of the new weights in every target update."""
    exploration: NoiseExploration = GaussianWhiteNoiseSettings(sigma=1.0, sigma_min=0.1)
    """Noise on actions during collection."""


class TD3Hyperparameters(DDPGHyperparameters):
    """Hyperparameters of TD3; those that DDPG lacks are from Fujimoto et al. 2018."""

    policy_delay: PositiveInt = 2
    """Updates of the Qs for each update of the policy and the targets."""
    target_policy_noise: NaturalFloat = 0.2
    """Standard deviation of the noise on the target's actions."""
    target_noise_clip: NaturalFloat = 0.5
    """Limit of the target's noise."""


class MADDPGHyperparameters(DDPGHyperparameters):
    """Hyperparameters of MADDPG, from Lowe et al. 2017."""

    batch_size: PositiveInt = 1024
    """Moments in one minibatch: a decision of every agent of a group."""
    buffer_size: PositiveInt = 1_000_000
    """Capacity of the replay buffer in moments."""
    learning_rate: PositiveSchedule = 1e-2
    """Step size of the optimizer at the start."""
    learning_rate_schedule: Schedule = "constant"
    """Linear: down to 1e-10 at max_steps."""
    buffer_init_steps: NaturalInt = 0
    """Decisions before the first update."""
    steps_per_update: PositiveFloat = 100.0
    """Decisions for each gradient update; auto, whose limits are for single agents, is not supported."""
    tau: Fraction = 0.01
    """Share of the new weights in every target update."""
    exploration: ActorExploration | None = None  # type: ignore[assignment]
    """Noise on actions during collection; null = gumbel_softmax for discrete ones, and gaussian_white_noise of sigma
    0.1 for continuous ones."""
    group_size: PositiveInt = 2
    """Maximum number of agents that decide together."""

    @model_validator(mode="after")
    def _even_and_one_step(self) -> Self:
        text = "{key} is not supported by maddpg, which samples moments of whole groups; remove it"
        self.refuse(text, "n_step", "prioritized", "terminal_share", "hindsight")
        return self
