"""Gymnasium environments of two to four steps that only memory, or only eyes, can solve."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

LATER = 2
"""Steps after which the cue is asked for."""


class Recall(gymnasium.Env[Any, Any]):
    """The first observation names the action that pays 1 in the last step; in between there is nothing to see."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time, self.cue = 0, int(self.np_random.integers(2))
        return self._see(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        done = self.time == LATER
        self.time += 1
        return self._see(), float(done and action == self.cue), done, False, {}

    def _see(self) -> Any:
        cue = 0.0 if self.time else 2.0 * self.cue - 1.0
        return np.array([cue, self.time == LATER], np.float32)


class Brightest(gymnasium.Env[Any, Any]):
    """A dim colour image with one bright column: its number, of three, is the action that pays 1."""

    observation_space = spaces.Box(0, 255, (6, 6, 3), np.uint8)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.column = int(self.np_random.integers(3))
        image = self.np_random.integers(0, 128, (6, 6, 3), np.uint8)
        image[:, 2 * self.column : 2 * self.column + 2] += 127
        return image, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(action == self.column)
        return self.reset()[0], reward, True, False, {}


gymnasium.register("Recall-v0", "worlds:Recall")
gymnasium.register("Brightest-v0", "worlds:Brightest")
