"""The rewards of Gymnasium's goal-based environments for goals that were not set.

Such an environment observes a dictionary with ``observation``, ``achieved_goal`` and ``desired_goal``, and has a method
``compute_reward(achieved_goal, desired_goal, info)``, most often also ``compute_terminated`` with the same arguments.
Where an episode is cut by a limit needs no answer: values go on there, whatever the goal.
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
"""Pairs of goals by which is found out whether a method takes many at once; the first half are reached."""


class GymnasiumGoals:
    """What an environment says of ``n`` goals, at once where it can; ``info`` is empty.

    Without ``compute_terminated`` no goal ends an episode. Is a :data:`tau_trainer.memory.RewardDone`.

    Raises:
        SettingsError: the environment is not goal-based.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        inner, space = env.unwrapped, env.observation_space
        goals = space.spaces.get(DESIRED) if isinstance(space, spaces.Dict) else None
        known = isinstance(goals, spaces.Box | spaces.MultiBinary | spaces.Discrete)
        if not known or not hasattr(inner, "compute_reward"):
            raise SettingsError(
                f"{type(inner).__name__} is no goal-based environment, with a '{DESIRED}' and a method compute_reward, "
                "and cannot be asked for the reward of a goal; say it with hindsight.distance or hindsight.reward_done"
            )
        self._space: Any = goals
        self._reward = self._of_many(inner.compute_reward)
        ends = getattr(inner, "compute_terminated", None)
        self._terminated = self._of_many(ends) if ends is not None else None

    def __call__(self, achieved: FloatArray, goal: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Rewards [n] and real ends [n] for goals [n, G] as a sensor shows them."""
        reached, wanted = self._from_sensor(achieved), self._from_sensor(goal)
        ends = np.zeros(len(goal), np.bool_) if self._terminated is None else self._terminated(reached, wanted)
        return self._reward(reached, wanted).astype(np.float32), ends.astype(np.bool_)

    def _from_sensor(self, values: FloatArray) -> NDArray[Any]:
        """Goals [n, *shape] as the environment has them."""
        if isinstance(self._space, spaces.Discrete):
            chosen: NDArray[Any] = values.argmax(axis=1) + int(self._space.start)
            return chosen
        goals: NDArray[Any] = values.reshape(len(values), *self._space.shape).astype(self._space.dtype)
        return goals

    def _of_many(self, method: Callable[..., Any]) -> Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]:
        """A method of two goals as one of many, found out by trying."""

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
        except Exception:  # whatever a method of one goal makes of many
            same = False
        return together if same else each
