"""``hyperparameters``: numbers of the learning algorithms, with ML-Agents' names and defaults."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError
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
    is_number,
)
from tau_trainer.settings.replay import HindsightSettings, PrioritizedSettings
from tau_trainer.settings.schedules import NaturalSchedule, PositiveSchedule

Schedule = Literal["constant", "linear"]
"""How a number changes over ``max_steps``: not at all, or linearly down to its floor."""

Optimizer = Literal["adam", "adamw", "nadam", "rmsprop", "sgd"]
_ADAMW_DECAY = 0.01
AUTO: Literal["auto"] = "auto"
"""As many gradient steps as fit into the time that the game takes."""
_LEAST_MINIBATCHES = 16
"""Of new decisions, in an update that learns from older ones as well: smaller ones cost time and gain nothing."""


def _number_or_auto(value: object) -> object:
    if value != AUTO and not (is_number(value) and 0.0 < float(str(value)) < math.inf):
        raise PydanticCustomError("number_or_auto", "must be auto, or a number above 0 such as 8 or 0.5")
    return value


DecisionsPerStep = Annotated[PositiveFloat | Literal["auto"], BeforeValidator(_number_or_auto)]
"""Decisions for each gradient step, or ``auto``."""


class Hyperparameters(Section):
    """What every algorithm has."""

    batch_size: PositiveInt = 1024
    """Decisions in one minibatch."""
    buffer_size: PositiveInt = 10240
    """On-policy: decisions gathered before an update. Off-policy: capacity of the replay memory."""
    learning_rate: PositiveSchedule = 3e-4
    """Step size of the optimizer at the start, or its own schedule."""
    learning_rate_schedule: Schedule = "linear"
    """Linear: down to 1e-10 at max_steps. Means nothing where learning_rate is a schedule itself."""
    optimizer: Optimizer = "adam"
    """Takes the steps; numbers that have no key are the defaults of torch.optim."""
    weight_decay: NaturalFloat = Field(
        default_factory=lambda data: _ADAMW_DECAY if data.get("optimizer") == "adamw" else 0.0
    )
    """Decoupled weight decay of the optimizer, on weight matrices; 0 unless given, 0.01 with adamw."""
    layer_statistics: Bool = False
    """Tell mean and deviation of every layer's weights and gradients after each update."""

    @model_validator(mode="after")
    def _batch_fits_buffer(self) -> Self:
        if self.buffer_size and self.batch_size > self.buffer_size:
            raise PydanticCustomError(
                "batch_fits_buffer",
                "batch_size {batch} is larger than buffer_size {buffer}, so no minibatch would ever be full; "
                "lower batch_size or raise buffer_size",
                {"batch": self.batch_size, "buffer": self.buffer_size},
            )
        return self


class POCAHyperparameters(Hyperparameters):
    """Numbers that PPO, POCA and MAPPO share; the last three keys are Tau Trainer's own."""

    beta: NaturalSchedule = 5e-3
    """Coefficient of the entropy bonus, or its own schedule."""
    epsilon: PositiveSchedule = 0.2
    """Clip range of the probability ratio, or its own schedule."""
    lambd: Fraction = 0.95
    """Lambda of generalised advantage estimation."""
    num_epoch: PositiveInt = 3
    """Passes over the buffer in an update."""
    beta_schedule: Schedule = "linear"
    """Linear: down to 1e-5. Copies learning_rate_schedule where that is given and this is not."""
    epsilon_schedule: Schedule = "linear"
    """Linear: down to 0.1. Copies learning_rate_schedule where that is given and this is not."""
    max_grad_norm: PositiveFloat | None = None
    """Gradients are scaled down to this norm; null = never (as ML-Agents does)."""
    normalize_advantage: Literal["buffer", "minibatch"] = "buffer"
    """Advantages get mean 0 and deviation 1 over the whole buffer (as ML-Agents does) or over each minibatch."""
    target_kl: PositiveFloat | None = None
    """An update ends early once the policy has moved this far (mean KL in nats); null = never."""

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
    """Numbers of PPO; updates_per_buffer is Tau Trainer's own."""

    shared_critic: Bool = False
    """Policy and value function share one body."""
    updates_per_buffer: Literal["auto", 1, 2] = "auto"
    """2: an update begins once half of the buffer_size decisions that it learns from are new, so each is learned from
    in two updates, num_epoch times in all, and agents act with a fresher policy. 1: once all are new, as in ML-Agents.
    auto = 2 where the new half fills 16 minibatches."""
    shrink_at: Fraction | None = None
    """Once this share of max_steps is done, weights move half of the way to ones that are drawn anew, and what was
    learned by heart while nothing was known yet weighs less in the end (shrink and perturb); null = never, as in
    runs that began without it."""

    @property
    @override
    def rollout_size(self) -> int:
        half = self.buffer_size // 2
        halves = half >= (_LEAST_MINIBATCHES if self.updates_per_buffer == "auto" else 1) * self.batch_size
        return half if halves and self.updates_per_buffer != 1 else self.buffer_size


class OffPolicyHyperparameters(Hyperparameters):
    """Numbers of algorithms that learn from a replay memory."""

    auto_decisions: ClassVar[tuple[float, float]] = (1.0, 8.0)
    """Least and most decisions for each gradient step with steps_per_update auto: its ceiling and its floor."""

    batch_size: PositiveInt = 128
    """Decisions in one minibatch."""
    buffer_size: PositiveInt = 50000
    """Capacity of the replay memory in decisions."""
    learning_rate_schedule: Schedule = "constant"
    """Linear: down to 1e-10 at max_steps."""
    buffer_init_steps: NaturalInt = 0
    """Decisions before the first update."""
    steps_per_update: DecisionsPerStep = 1.0
    """Decisions for each gradient update; auto: as many updates as fit while the game is busy, between one for 8
    decisions, which the game waits for, and one for each."""
    reward_signal_steps_per_update: DecisionsPerStep = Field(
        default_factory=lambda data: data.get("steps_per_update", 1)
    )
    """Decisions for each update of reward signals that are learned; steps_per_update unless given, of auto the most."""
    save_replay_buffer: Bool = False
    """Keep the replay memory in checkpoints, so that a resumed run goes on with it."""
    prioritized: PrioritizedSettings | None = None
    """Draw transitions by what they taught; null = all alike."""
    n_step: PositiveInt = 1
    """Rewards that a target adds up before it asks for a value."""
    hindsight: HindsightSettings | None = None
    """Learn from other goals as well; null = from those that were set alone."""

    @property
    def auto(self) -> bool:
        """Whether gradient steps are as many as fit."""
        return self.steps_per_update == AUTO

    @property
    def decisions_per_step(self) -> tuple[float, float]:
        """Least and most decisions for each gradient step; both are steps_per_update where that is a number."""
        every = self.steps_per_update
        return self.auto_decisions if isinstance(every, str) else (every, every)

    @property
    def decisions_per_signal_step(self) -> float:
        """The same for reward signals, whose number does not follow what fits."""
        every = self.reward_signal_steps_per_update
        return self.decisions_per_step[1] if isinstance(every, str) else every


class AgentHyperparameters(OffPolicyHyperparameters):
    """Numbers of a :class:`tau_trainer.Agent`, to which its class adds."""

    exploration: AnyExploration | None = None
    """How its best action is disturbed; null = branches are drawn as from logits, and continuous actions not at all."""


class OfflineHyperparameters(OffPolicyHyperparameters):
    """Numbers of trainers that learn from recordings alone: a gradient step after the other, from all of them."""

    batch_size: PositiveInt = 256
    """Decisions in one minibatch."""

    @model_validator(mode="after")
    def _nothing_is_collected(self) -> Self:
        collecting = "buffer_size", "buffer_init_steps", "steps_per_update", "save_replay_buffer"
        text = "{key} means nothing to a trainer that learns from recordings alone; remove it"
        self.refuse(text, *collecting, "prioritized", "n_step", "hindsight")
        return self


class OfflineCriticHyperparameters(OfflineHyperparameters):
    """Numbers of those that learn Qs, and copy what was better than expected."""

    tau: Fraction = 0.005
    """Share of the new weights in every target update."""
    inverse_temperature: NaturalFloat = 1.0
    """An action counts with the exponential of its advantage times this; 0 = all alike, as in behavioral cloning."""
    largest_weight: PositiveFloat = 100.0
    """And with no more than that."""


class IQLHyperparameters(OfflineCriticHyperparameters):
    """Numbers of IQL."""

    inverse_temperature: NaturalFloat = 3.0
    """An action counts with the exponential of its advantage times this; 0 = all alike, as in behavioral cloning."""
    expectile: Fraction = 0.7
    """What the value aims at: 0.5 the mean of what was done, towards 1 the best of it."""


class SACHyperparameters(OffPolicyHyperparameters):
    """Numbers of SAC."""

    tau: Fraction = 0.005
    """Share of the new weights in every target update."""
    init_entcoef: NaturalFloat = 1.0
    """Entropy coefficient at the start."""


class SACLNHyperparameters(OffPolicyHyperparameters):
    """Numbers of SAC with layer normalisation; they do not depend on the size of rewards."""

    buffer_size: PositiveInt = 200_000
    """Capacity of the replay memory in decisions."""
    steps_per_update: DecisionsPerStep = "auto"
    """Decisions for each gradient update; auto: as many updates as fit while the game is busy."""
    tau: Fraction = 0.05
    """Share of the new weights in every target update."""
    init_entcoef: NaturalFloat = 0.1
    """Entropy coefficient at the start, in units of the size of returns."""
    least_entcoef: NaturalFloat = 0.01
    """Entropy coefficient below which it does not fall."""


class DQNHyperparameters(OffPolicyHyperparameters):
    """Numbers of deep Q-learning; names are border's where it has them."""

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
    """How agents leave the best known action."""
    double: Bool = True
    """The network chooses the action that the target scores."""
    dueling: Bool = False
    """The value of an observation and the advantages of actions have layers of their own."""
    noisy: Bool = False
    """Hidden layers and outputs have noise whose width is learned; goes with ``exploration: {type: greedy}``."""
    loss: Literal["mse", "smooth_l1"] = "smooth_l1"
    """Squared errors, or Huber's loss with a limit of 1."""
    clip_reward: PositiveFloat | None = None
    """Rewards are cut off at this size; null = never."""
    clip_td_err: PositiveFloat | None = None
    """Errors count as at most this in gradients and priorities; null = as they are."""
    max_grad_norm: PositiveFloat | None = None
    """Gradients are scaled down to this norm; null = never."""


class IQNHyperparameters(DQNHyperparameters):
    """Numbers of implicit quantile networks; names are Dopamine's where it has them."""

    num_tau_samples: PositiveInt = 8
    """N: fractions at which the distribution of what was done is learned."""
    num_tau_prime_samples: PositiveInt = 8
    """N': fractions of the target's."""
    num_quantile_samples: PositiveInt = 32
    """K: fractions whose mean is what an action is worth."""
    quantile_embedding_dim: PositiveInt = 64
    """Cosines that a fraction is told by."""
    kappa: PositiveFloat = 1.0
    """Where the quantile Huber loss turns from squares to straight lines."""
    cvar: Annotated[Fraction, Field(gt=0)] = 1.0
    """Actions are judged by the mean of this worst share of what may come of them; 1 = of all."""

    @model_validator(mode="after")
    def _has_its_own_loss(self) -> Self:
        self.refuse("{key} is nothing that iqn has; remove it, or use trainer_type: dqn", "dueling", "noisy")
        self.refuse("{key} is nothing that iqn has; set kappa instead", "loss", "clip_td_err")
        return self


class DDPGHyperparameters(OffPolicyHyperparameters):
    """Numbers of DDPG and TD3: those of Stable-Baselines3, but for noise that begins wide and falls."""

    batch_size: PositiveInt = 256
    """Decisions in one minibatch."""
    buffer_size: PositiveInt = 1_000_000
    """Capacity of the replay memory in decisions."""
    learning_rate: PositiveSchedule = 1e-3
    """Step size of the optimizer at the start."""
    learning_rate_schedule: Schedule = "linear"
    """Linear: down to 1e-10 at max_steps."""
    buffer_init_steps: NaturalInt = 1000
    """Decisions before the first update."""
    tau: Fraction = 0.005
    """Share of the new weights in every target update."""
    exploration: NoiseExploration = GaussianWhiteNoiseSettings(sigma=1.0, sigma_min=0.1)
    """Noise on actions while experience is gathered."""


class TD3Hyperparameters(DDPGHyperparameters):
    """Numbers of TD3; what DDPG lacks are those of Fujimoto et al. 2018."""

    policy_delay: PositiveInt = 2
    """Updates of the Qs for one of the policy and of the targets."""
    target_policy_noise: NaturalFloat = 0.2
    """Standard deviation of the noise on the target's actions."""
    target_noise_clip: NaturalFloat = 0.5
    """Limit of that noise."""


class MADDPGHyperparameters(DDPGHyperparameters):
    """Numbers of MADDPG: those of Lowe et al. 2017."""

    batch_size: PositiveInt = 1024
    """Moments in one minibatch: a decision of every agent of a group."""
    buffer_size: PositiveInt = 1_000_000
    """Capacity of the replay memory in moments."""
    learning_rate: PositiveSchedule = 1e-2
    """Step size of the optimizer at the start."""
    learning_rate_schedule: Schedule = "constant"
    """Linear: down to 1e-10 at max_steps."""
    buffer_init_steps: NaturalInt = 0
    """Decisions before the first update."""
    steps_per_update: PositiveFloat = 100.0
    """Decisions for each gradient update; no auto, whose floor and ceiling are for single agents."""
    tau: Fraction = 0.01
    """Share of the new weights in every target update."""
    exploration: ActorExploration | None = None  # type: ignore[assignment]
    """How actions are disturbed while experience is gathered; null = gumbel_softmax for discrete ones, and
    gaussian_white_noise of sigma 0.1 for continuous ones."""
    group_size: PositiveInt = 2
    """Agents that decide together, at most."""

    @model_validator(mode="after")
    def _even_and_one_step(self) -> Self:
        text = "{key} is nothing that maddpg has, which draws moments of whole groups; remove it"
        self.refuse(text, "n_step", "prioritized", "hindsight")
        return self
