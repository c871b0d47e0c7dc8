"""``hyperparameters: prioritized`` and ``hindsight``: what is drawn from a replay memory, and with which goals."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from tau_trainer.settings.kinds import Bool, Float, Fraction, NaturalFloat, PositiveFloat, PositiveInt, Section, Text


class PrioritizedSettings(Section):
    """``prioritized``: transitions that taught much are drawn more often; ``{}`` means the defaults."""

    alpha: NaturalFloat = 0.6
    """How much errors count; 0: all transitions are drawn alike."""
    beta_0: Fraction = 0.4
    """Share of the correction for what is drawn more often, at first."""
    beta_final: Fraction = 1.0
    """The same from n_opts_final gradient updates on."""
    n_opts_final: PositiveInt = 500000
    """Gradient updates until then."""
    normalize: Literal["All", "Batch"] = "All"
    """Weights are divided by the largest that any transition, or any of the minibatch, has."""


class DistanceSettings(Section):
    """``hindsight.distance``: what reaching a goal is worth, where that is a matter of distance."""

    threshold: NaturalFloat
    """Euclidean distance from the goal within which it is reached."""
    reached: Float = 0.0
    """Reward of a decision after which it is."""
    missed: Float = -1.0
    """Reward of any other."""
    terminates: Bool = True
    """Whether the episode ends when it is reached."""


class HindsightSettings(Section):
    """``hindsight``: learn from what was reached as if it had been the goal; ``{}`` means the defaults."""

    strategy: Literal["future", "final", "episode"] = "future"
    """Where the other goal comes from: what was reached by the decision itself or any later one of its episode, at the
    episode's end, or by any decision of the episode."""
    k: PositiveFloat = 4.0
    """Decisions with another goal for each that keeps its own: a share of k / (k + 1)."""
    achieved: Text = "achieved_goal"
    """The sensor that says what is reached."""
    goal: Text | None = None
    """The sensor that says what is wanted; null = the goal signal among the behavior's sensors."""
    distance: DistanceSettings | None = None
    """The reward for a goal by distance."""
    reward_done: Text | None = None
    """The same by a function ``reward_done(achieved, goal) -> reward, terminated`` over arrays [n, G], as
    MODULE:FUNCTION. Without either the environment is asked, as Gymnasium's goal-based ones can be."""

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        if self.distance is not None and self.reward_done is not None:
            raise PydanticCustomError("one_rule", "has both distance and reward_done; leave one of them out")
        return self
