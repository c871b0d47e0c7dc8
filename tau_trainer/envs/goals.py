"""The rewards of Gymnasium's goal-based environments for goals that were not set.

Such an environment observes a dictionary with ``observation``, ``achieved_goal`` and ``desired_goal``, and has a method
``compute_reward(achieved_goal, desired_goal, info)``, most often also ``compute_terminated`` with the same arguments.
Truncation does not depend on the goal: at a limit the value estimate continues for any goal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from tau_trainer.errors import SettingsError
from tau_trainer.specs import BoolArray, FloatArray

ACHIEVED, DESIRED = "achieved_goal", "desired_goal"

_PROBES = 8
"""Pairs of goals that test whether a method accepts several goals at once; the first half are reached goals."""


class GymnasiumGoals:
    """An environment's rewards and real ends for ``n`` goals, in one call if it supports that; ``info`` is empty.

    Without ``compute_terminated`` no goal ends an episode. Implements :data:`tau_trainer.memory.RewardDone`.

    Raises:
        SettingsError: the environment is not goal-based.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        inner, space = env.unwrapped, env.observation_space
        goals = space.spaces.get(DESIRED) if isinstance(space, spaces.Dict) else None
        known = isinstance(goals, spaces.Box | spaces.MultiBinary | spaces.Discrete)
        if not known or not hasattr(inner, "compute_reward"):
            raise SettingsError(
                f"{type(inner).__name__} is not goal-based (it needs a '{DESIRED}' and a method compute_reward), so it "
                "cannot compute the reward of a goal; set hindsight.distance or hindsight.reward_done"
            )
        self._space: Any = goals
        self._reward = self._of_many(inner.compute_reward)
        ends = getattr(inner, "compute_terminated", None)
        self._terminated = self._of_many(ends) if ends is not None else None

    def __call__(self, achieved: FloatArray, goal: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Rewards float32 [n] and real ends bool [n] for goals [n, G] in the form that a sensor has."""
        reached, wanted = self._from_sensor(achieved), self._from_sensor(goal)
        ends = np.zeros(len(goal), np.bool_) if self._terminated is None else self._terminated(reached, wanted)
        return self._reward(reached, wanted).astype(np.float32), ends.astype(np.bool_)

    def _from_sensor(self, values: FloatArray) -> NDArray[Any]:
        """Goals [n, *shape] in the environment's form."""
        if isinstance(self._space, spaces.Discrete):
            chosen: NDArray[Any] = values.argmax(axis=1) + int(self._space.start)
            return chosen
        goals: NDArray[Any] = values.reshape(len(values), *self._space.shape).astype(self._space.dtype)
        return goals

    def _of_many(self, method: Callable[..., Any]) -> Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]:
        """A method of two goals as a method of many pairs; a trial call shows whether the method accepts arrays."""

        def each(achieved: NDArray[Any], goals: NDArray[Any]) -> NDArray[Any]:
            return np.array([method(reached, wanted, {}) for reached, wanted in zip(achieved, goals, strict=True)])

        def together(achieved: NDArray[Any], goals: NDArray[Any]) -> NDArray[Any]:
            return np.asarray(method(achieved, goals, {}))

        self._space.seed(0)
        goals = np.stack([np.asarray(self._space.sample()) for _ in range(_PROBES)])
        achieved = np.concatenate((goals[: _PROBES // 2], goals[: _PROBES // 2][::-1]))
        wanted = each(achieved, goals)
        try:
            same = np.array_equal(together(achieved, goals), wanted)
        except Exception:  # a method of one goal can raise anything for many
            same = False
        return together if same else each
