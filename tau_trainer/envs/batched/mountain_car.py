"""A car in a valley, too weak to drive out of it straight away (Moore 1990)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from tau_trainer.envs.batched.canvas import Canvas
from tau_trainer.envs.batched.classic_control import MOTION, ClassicControl
from tau_trainer.envs.batched.contract import Outcome, State
from tau_trainer.envs.batched.draws import Draws

_LEFT, _RIGHT, _FASTEST = -1.2, 0.6, 0.07
_GRAVITY = 0.0025


class _Valley(ClassicControl):
    """Motion: place, speed."""

    goal: float
    """Place to be reached."""

    def __init__(self, num_envs: int, **options: Any) -> None:
        super().__init__(num_envs, **options)
        low, high = (np.array(ends, np.float32) for ends in ((_LEFT, -_FASTEST), (_RIGHT, _FASTEST)))
        self.observation_space = spaces.Box(low, high)

    @abstractmethod
    def driven(self, actions: torch.Tensor) -> torch.Tensor:
        """What the engine adds to the speed, [E], from actions [E, ...] in the motion's dtype."""

    @abstractmethod
    def paid(self, actions: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """Rewards [E], from the same actions and bool [E]."""

    def begin(self, draws: Draws) -> State:
        """At rest near the bottom."""
        x = draws.uniform(0, low=-0.6, high=-0.4)
        return {MOTION: torch.stack((x, torch.zeros_like(x)), dim=1)}

    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        """Drive; the left end is a wall."""
        x, speed = state[MOTION].unbind(dim=1)
        chosen = actions[:, 0].to(x.dtype)
        speed = speed + self.driven(chosen) - _GRAVITY * torch.cos(3 * x)
        speed = speed.clamp(-_FASTEST, _FASTEST)
        x = (x + speed).clamp(_LEFT, _RIGHT)
        speed = torch.where(x <= _LEFT, speed.clamp(min=0.0), speed)
        there = (x >= self.goal) & (speed >= 0.0)
        return self.moved(state, (x, speed), self.paid(chosen, there), there)

    def frame(self, row: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
        """The valley, its flag, and the car."""
        x, _ = row[MOTION].tolist()
        canvas = Canvas((_LEFT, _RIGHT), (0.0, 1.3), 300)
        canvas.line([(at, _height(at)) for at in np.linspace(_LEFT, _RIGHT, 100)], "black", 0.01)
        foot = self.goal, _height(self.goal)
        canvas.line([foot, (foot[0], foot[1] + 0.2)], "black", 0.01)
        canvas.polygon(
            [(foot[0], foot[1] + height) for height in (0.2, 0.13)] + [(foot[0] + 0.08, foot[1] + 0.165)], "gold"
        )
        slope = math.atan(0.45 * 3 * math.cos(3 * x))
        right, up = (math.cos(slope), math.sin(slope)), (-math.sin(slope), math.cos(slope))
        corners = (
            [x + along * right[0] + above * up[0], _height(x) + along * right[1] + above * up[1]]
            for along, above in ((-0.07, 0.02), (0.07, 0.02), (0.07, 0.07), (-0.07, 0.07))
        )
        canvas.polygon([(a, b) for a, b in corners], "firebrick")
        for along in (-0.045, 0.045):
            canvas.disc(
                (x + along * right[0] + 0.02 * up[0], _height(x) + along * right[1] + 0.02 * up[1]), 0.02, "gray"
            )
        return canvas.pixels()


class MountainCar(_Valley):
    """``MountainCar-v0``: push left, not at all, or right; -1 for each step."""

    name = "mountain_car"
    goal = 0.5

    def __init__(self, num_envs: int, *, limit: int = 200, **options: Any) -> None:
        super().__init__(num_envs, limit=limit, **options)
        self.action_space = spaces.Discrete(3)

    def driven(self, actions: torch.Tensor) -> torch.Tensor:
        """By a thousandth."""
        return (actions - 1.0) * 0.001

    def paid(self, actions: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """Always -1."""
        return torch.full_like(actions, -1.0)


class MountainCarContinuous(_Valley):
    """``MountainCarContinuous-v0``: push by a number; 100 for being there, less what the pushes cost."""

    name = "mountain_car_continuous"
    goal = 0.45

    def __init__(self, num_envs: int, *, limit: int = 999, **options: Any) -> None:
        super().__init__(num_envs, limit=limit, **options)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def driven(self, actions: torch.Tensor) -> torch.Tensor:
        """In proportion, as far as the space goes."""
        return actions[:, 0].clamp(-1.0, 1.0) * 0.0015

    def paid(self, actions: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """What is beyond the space costs too, as in Gymnasium."""
        return there * 100.0 - 0.1 * actions[:, 0].square()


def _height(x: float) -> float:
    return math.sin(3 * x) * 0.45 + 0.55
