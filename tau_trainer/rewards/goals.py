"""Rewards for goals: the rules by which hindsight recomputes rewards and ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tau_trainer import plugins
from tau_trainer.errors import SettingsError
from tau_trainer.memory import RewardDone
from tau_trainer.specs import BoolArray, FloatArray

if TYPE_CHECKING:
    from tau_trainer.settings import HindsightSettings
    from tau_trainer.settings.replay import DistanceSettings


@dataclass(frozen=True, slots=True)
class Near:
    """``hindsight.distance``: a goal is reached within a Euclidean distance of it. Is a :data:`RewardDone`."""

    settings: DistanceSettings

    def __call__(self, achieved: FloatArray, goal: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Rewards and ends."""
        settings = self.settings
        near = np.linalg.norm(achieved - goal, axis=1) <= settings.threshold
        return np.where(near, np.float32(settings.reached), np.float32(settings.missed)), near & settings.terminates


@dataclass(frozen=True, slots=True)
class CheckedGoalRule:
    """A user's rule with checked results. Is a :data:`RewardDone` itself."""

    rule: Callable[[FloatArray, FloatArray], Any]
    name: str
    """Its name in messages to the user."""

    def __call__(self, achieved: FloatArray, goal: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Raises SettingsError if the rule fails or its results have the wrong form."""
        count = len(goal)
        try:
            reward, terminated = self.rule(achieved, goal)
            said = np.asarray(reward, np.float32), np.asarray(terminated, np.bool_)
        except Exception as error:  # a user's function can raise anything
            raise SettingsError(f"{self.name} failed: {type(error).__name__}: {error}; fix it") from error
        if said[0].shape != (count,) or said[1].shape != (count,):
            raise SettingsError(
                f"{self.name} must return rewards [n] and ends [n] for {count} goals, not arrays of the shapes "
                f"{said[0].shape} and {said[1].shape}"
            )
        return said


def goal_rule(settings: HindsightSettings, environment: Sequence[str]) -> RewardDone:
    """The rule that the settings name, or the environment's own.

    Args:
        settings: of hindsight.
        environment: ``--env`` and ``--env-args``.

    Raises:
        SettingsError: there is none.
    """
    if settings.distance is not None:
        return Near(settings.distance)
    if settings.reward_done is not None:
        name = f"hindsight.reward_done '{settings.reward_done}'"
        try:
            return CheckedGoalRule(plugins.resolve(settings.reward_done), name)
        except Exception as error:  # a user's module can raise anything
            raise SettingsError(f"{name} cannot be loaded: {error}; name a function as MODULE:FUNCTION") from error
    path = environment[0] if environment else ""
    prefix, colon, _ = path.partition(":")
    if colon and prefix in plugins.names("environments"):
        goals = getattr(plugins.load("environments", prefix), "goals", None)
        if goals is not None:
            return CheckedGoalRule(goals(*environment), f"--env {path}: its reward for a goal")
    raise SettingsError(
        "hindsight needs a reward rule for goals, but the environment does not have one; set "
        "hindsight.distance (a threshold), or name your own function with hindsight.reward_done"
    )
