"""``hyperparameters: prioritized`` and ``hindsight``: sampling from a replay buffer, and goals of the samples."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from tau_trainer.settings.kinds import (
    Bool,
    Float,
    Fraction,
    NaturalFloat,
    PositiveFloat,
    PositiveInt,
    Section,
    Text,
    invalid,
)


class PrioritizedSettings(Section):
    """``prioritized``: transitions with larger errors are sampled more often; ``{}`` means the defaults."""

    alpha: NaturalFloat = 0.6
    """Exponent of the errors; 0: all transitions are equally likely."""
    beta_0: Fraction = 0.4
    """Exponent of the importance weights that correct for the sampling, at the start."""
    beta_final: Fraction = 1.0
    """The exponent after n_opts_final gradient updates."""
    n_opts_final: PositiveInt = 500000
    """Gradient updates until beta_final is reached."""
    normalize: Literal["All", "Batch"] = "All"
    """Divide weights by the largest weight of all transitions, or of the minibatch."""


class DistanceSettings(Section):
    """``hindsight.distance``: the reward for a goal, if distance decides whether it is reached."""

    threshold: NaturalFloat
    """Euclidean distance from the goal within which it is reached."""
    reached: Float = 0.0
    """Reward of a decision that reaches the goal."""
    missed: Float = -1.0
    """Reward of any other decision."""
    terminates: Bool = True
    """Whether the episode ends when the goal is reached."""


class HindsightSettings(Section):
    """``hindsight``: learn from achieved states as if they had been the goal; ``{}`` means the defaults."""

    strategy: Literal["future", "final", "episode"] = "future"
    """Source of the other goal: what this decision or a later one of its episode has achieved, what the end of the
    episode has achieved, or what any decision of the episode has achieved."""
    k: PositiveFloat = 4.0
    """Decisions with another goal for each decision with its own goal: a share of k / (k + 1)."""
    achieved: Text = "achieved_goal"
    """The sensor with the achieved goal."""
    goal: Text | None = None
    """The sensor with the desired goal; null = the goal signal among the behavior's sensors."""
    distance: DistanceSettings | None = None
    """The reward for a goal by distance."""
    reward_done: Text | None = None
    """The reward for a goal by a function ``reward_done(achieved, goal) -> reward, terminated`` of arrays [n, G], as
    MODULE:FUNCTION. Without distance and reward_done, the environment computes it, as goal-based Gymnasium ones do."""

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        if self.distance is not None and self.reward_done is not None:
            raise invalid("has both distance and reward_done; remove one of them")
        return self
