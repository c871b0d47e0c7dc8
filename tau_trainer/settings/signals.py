"""``reward_signals`` and ``behavioral_cloning``: what a behavior learns from, with ML-Agents' names and defaults."""

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
    """Factor on the signal before it is learned from."""
    network_settings: NetworkSettings = NetworkSettings()
    """Network of the signal's own model, where it has one."""
    novelty: ClassVar[bool] = False
    """Whether it pays for what is new: by what its model knew before, and beyond an episode's end."""
    asks_policy: ClassVar[bool] = False
    """Whether it asks how likely the policy finds an action, which a policy with a memory cannot say of single ones."""


class ModelledSignalSettings(RewardSignalSettings):
    """A signal that comes from a network of its own."""

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
    """``gail``: likeness to demonstrations."""

    demo_path: Text
    """A ``.demo`` file or a folder of them."""
    use_actions: Bool = False
    """Compare actions as well as observations."""
    use_vail: Bool = False
    """Put a variational bottleneck into the discriminator."""


class AIRLSettings(ModelledSignalSettings):
    """``airl``: a reward that is learned from demonstrations and the policy's own experience; not in ML-Agents."""

    asks_policy: ClassVar[bool] = True

    demo_path: Text
    """A ``.demo`` file or a folder of them."""
    num_epoch: PositiveInt = 3
    """Passes over each buffer of an on-policy trainer; for SAC, reward_signal_steps_per_update counts."""


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
"""Signals that are learned beside the policy: ``module:Class`` of a
:class:`tau_trainer.rewards.learned.LearnedReward`."""
LEARNED_BESIDE = ("ppo", "poca", "mappo", "sac", "sac_ln")
"""Trainers beside which they are, and beside which recordings are imitated."""


class BehavioralCloningSettings(Section):
    """``behavioral_cloning``: imitation of demonstrations beside reinforcement learning."""

    demo_path: Text
    """A ``.demo`` file or a folder of them."""
    strength: NaturalFloat = 1.0
    """Factor on the policy's learning rate."""
    steps: NaturalInt = 0
    """Decisions over which it fades out; 0 = never."""
    batch_size: PositiveInt | None = None
    """None = the trainer's batch_size."""
    num_epoch: PositiveInt | None = None
    """None = 3."""
    samples_per_update: NaturalInt = 0
    """0 = all demonstrations in every update."""


class SelfPlaySettings(Section):
    """``self_play``: play against earlier versions of the policy; ``{}`` means the defaults."""

    save_steps: PositiveInt = 20000
    """Decisions of the behavior between snapshots."""
    team_change: PositiveInt = Field(default_factory=lambda data: 5 * data.get("save_steps", 20000))
    """Decisions of the behavior before another team learns; 5 x save_steps unless given."""
    swap_steps: PositiveInt = 2000
    """Decisions of its ghosts between draws of their opponents."""
    window: PositiveInt = 10
    """Newest snapshots that are kept."""
    play_against_latest_model_ratio: Fraction = 0.5
    """Probability that a draw is the newest policy as it is then; else each snapshot is as likely."""
    initial_elo: Float = 1200.0
    """Rating at the start."""
    opponents: tuple[Text, ...] = ()
    """Model files (``.onnx``) that are drawn from as snapshots are; not in ML-Agents."""
