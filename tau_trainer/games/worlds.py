"""Two small goal-based worlds: each episode has its own goal, and only reaching it is rewarded.

Importing this module registers them: ``--env gym:tau_trainer.games.worlds:BitFlipping-v0``.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import register
from numpy.typing import NDArray

Step = tuple[dict[str, NDArray[Any]], float, bool, bool, dict[str, Any]]


class _GoalWorld(gymnasium.Env[Any, Any]):
    """A state that must reach a goal within ``limit`` steps; each step that does not reach it costs 1.

    Subclasses draw a state and a goal, change the state, and decide whether a state has reached a goal.
    """

    limit: int
    """Steps after which an episode is cut."""
    state: NDArray[Any]
    goal: NDArray[Any]

    def _goals_in(self, space: spaces.Space[Any]) -> None:
        keys = ("observation", "achieved_goal", "desired_goal")
        self.observation_space = spaces.Dict(dict.fromkeys(keys, space))

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Whether goals [..., G] are reached, bool [...]."""
        raise NotImplementedError

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """0 where goals [..., G] are reached, else -1."""
        return self.compute_terminated(achieved_goal, desired_goal, info) - 1.0

    def compute_truncated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> bool:
        """Whether the step limit cuts the episode here."""
        return self._time >= self.limit

    def _begin(self, state: NDArray[Any], goal: NDArray[Any]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        self.state, self.goal, self._time = state, goal, 0
        return self._seen(), {}

    def _moved(self) -> Step:
        self._time += 1
        seen, info = self._seen(), dict[str, Any]()
        goals = seen["achieved_goal"], seen["desired_goal"], info
        info["is_success"] = reached = bool(self.compute_terminated(*goals))
        return seen, float(self.compute_reward(*goals)), reached, self.compute_truncated(*goals), info

    def _seen(self) -> dict[str, NDArray[Any]]:
        state = self.state.copy()
        return {"observation": state, "achieved_goal": state, "desired_goal": self.goal.copy()}


class BitFlipping(_GoalWorld):
    """An action flips one of ``n`` bits; the bits must equal the goal within ``n`` steps.

    Random actions reach few of the ``2 ** n`` goals; the best policy has a mean return of ``1 - n / 2``. From
    Andrychowicz et al. 2017, section 3.1.
    """

    def __init__(self, n: int = 25) -> None:
        self.limit = n
        self.action_space = spaces.Discrete(n)
        self._goals_in(spaces.MultiBinary(n))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Draw bits, and a goal that differs from them."""
        super().reset(seed=seed)
        state = self.np_random.integers(0, 2, self.limit, np.int8)
        goal = state
        while (goal == state).all():
            goal = self.np_random.integers(0, 2, self.limit, np.int8)
        return self._begin(state, goal)

    def step(self, action: Any) -> Step:
        """Flip a bit."""
        self.state[action] ^= 1
        return self._moved()

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Whether all bits are the goal's."""
        return (achieved_goal == desired_goal).all(axis=-1)


class GoalWorld(_GoalWorld):
    """A point in a square of side 5 moves from (0, 0) to a goal at 4 +- 0.5 per axis, at most 1 per step and axis.

    A distance of 0.15 or less reaches the goal, and an episode has 50 steps. The best policy's mean return is -3.6.
    """

    limit = 50

    def __init__(self) -> None:
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._goals_in(spaces.Box(0.0, 5.0, (2,), np.float32))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Draw a goal."""
        super().reset(seed=seed)
        return self._begin(np.zeros(2, np.float32), self.np_random.uniform(3.5, 4.5, 2).astype(np.float32))

    def step(self, action: Any) -> Step:
        """Move the point by ``action``."""
        self.state = np.clip(self.state + np.clip(action, -1.0, 1.0), 0.0, 5.0).astype(np.float32)
        return self._moved()

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Whether the point is near the goal."""
        return np.linalg.norm(achieved_goal - desired_goal, axis=-1) <= 0.15


for _world in (BitFlipping, GoalWorld):
    register(f"{_world.__name__}-v0", f"{__name__}:{_world.__name__}")
