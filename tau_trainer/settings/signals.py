"""``reward_signals``, ``behavioral_cloning`` and ``self_play``, with ML-Agents' names and defaults."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field, model_validator
from typing_extensions import TypedDict

from tau_trainer.settings.kinds import (
    FORBID_UNKNOWN,
    Bool,
    Float,
    Fraction,
    NaturalFloat,
    NaturalInt,
    PositiveFloat,
    PositiveInt,
    Section,
    Text,
)
from tau_trainer.settings.networks import NetworkSettings


class RewardSignalSettings(Section):
    """One reward signal; ``extrinsic`` is the environment's own reward."""

    gamma: Fraction = 0.99
    """Discount for each decision."""
    strength: NaturalFloat = 1.0
    """Factor on the signal."""
    network_settings: NetworkSettings = NetworkSettings()
    """Network of the signal's own model, if it has one."""
    novelty: ClassVar[bool] = False
    """Whether the signal rewards novelty: it uses its model before the update, and also counts beyond an episode."""
    asks_policy: ClassVar[bool] = False
    """Whether the signal needs the policy's probability of single actions; a policy with memory has none."""


class ModelledSignalSettings(RewardSignalSettings):
    """A signal with its own network."""

    learning_rate: PositiveFloat = 3e-4
    """Step size of the model's optimizer."""

    @model_validator(mode="before")
    @classmethod
    def _encoding_size(cls, data: Any) -> Any:
        """The deprecated ``encoding_size`` means ``hidden_units``, unless network_settings are given."""
        if not isinstance(data, dict) or "encoding_size" not in data:
            return data
        kept = {key: value for key, value in data.items() if key != "encoding_size"}
        if "network_settings" not in kept and data["encoding_size"] is not None:
            kept["network_settings"] = {"hidden_units": data["encoding_size"]}
        return kept


class CuriositySettings(ModelledSignalSettings):
    """``curiosity``: the error of a forward model."""

    novelty: ClassVar[bool] = True


class GAILSettings(ModelledSignalSettings):
    """``gail``: similarity to demonstrations."""

    demo_path: Text
    """A ``.demo`` file or a folder of them."""
    use_actions: Bool = False
    """Compare actions in addition to observations."""
    use_vail: Bool = False
    """Put a variational bottleneck into the discriminator."""


class AIRLSettings(ModelledSignalSettings):
    """``airl``: a reward learned from demonstrations and the policy's own experience; not in ML-Agents."""

    asks_policy: ClassVar[bool] = True

    demo_path: Text
    """A ``.demo`` file or a folder of them."""
    num_epoch: PositiveInt = 3
    """Passes over each buffer of an on-policy trainer; SAC uses reward_signal_steps_per_update instead."""


class RNDSettings(ModelledSignalSettings):
    """``rnd``: the error of predicting a random network."""

    novelty: ClassVar[bool] = True

    learning_rate: PositiveFloat = 1e-4
    """Step size of the predictor's optimizer."""


class SignalTable(TypedDict, total=False):
    """Every reward signal of the file format, by its key."""

    __pydantic_config__ = FORBID_UNKNOWN  # type: ignore[misc]

    extrinsic: RewardSignalSettings
    curiosity: CuriositySettings
    gail: GAILSettings
    rnd: RNDSettings
    airl: AIRLSettings


LEARNED = {
    "curiosity": "tau_trainer.rewards.curiosity:Curiosity",
    "rnd": "tau_trainer.rewards.rnd:RND",
    "gail": "tau_trainer.rewards.gail:GAIL",
    "airl": "tau_trainer.rewards.airl:AIRL",
}
"""Signals that are learned together with the policy: ``module:Class`` of a
:class:`tau_trainer.rewards.learned.LearnedReward`."""
LEARNED_BESIDE = ("ppo", "a2c", "poca", "mappo", "sac", "sac_ln")
"""Trainers that support learned signals and ``behavioral_cloning``."""


class BehavioralCloningSettings(Section):
    """``behavioral_cloning``: imitation of demonstrations in addition to reinforcement learning."""

    demo_path: Text
    """A ``.demo`` file or a folder of them."""
    strength: NaturalFloat = 1.0
    """Factor on the policy's learning rate."""
    steps: NaturalInt = 0
    """Decisions over which imitation fades out; 0 = never."""
    batch_size: PositiveInt | None = None
    """Demonstrated decisions in one minibatch; None = the trainer's batch_size."""
    num_epoch: PositiveInt | None = None
    """Passes over the demonstrations in an update; None = 3."""
    samples_per_update: NaturalInt = 0
    """Demonstrated decisions in an update; 0 = all."""


class SelfPlaySettings(Section):
    """``self_play``: play against earlier versions of the policy; ``{}`` means the defaults."""

    save_steps: PositiveInt = 20000
    """Decisions of the behavior between snapshots."""
    team_change: PositiveInt = Field(default_factory=lambda data: 5 * data.get("save_steps", 20000))
    """Decisions of the behavior before another team learns. Default: 5 x save_steps."""
    swap_steps: PositiveInt = 2000
    """Decisions of the opponents before new opponents are drawn."""
    window: PositiveInt = 10
    """Number of newest snapshots to keep."""
    play_against_latest_model_ratio: Fraction = 0.5
    """Probability of drawing the newest policy; otherwise every snapshot is equally likely."""
    initial_elo: Float = 1200.0
    """Rating at the start."""
    opponents: tuple[Text, ...] = ()
    """Model files (``.onnx``) that are drawn like snapshots; not in ML-Agents."""
