"""A pole on a cart that is pushed left or right (Barto, Sutton and Anderson 1983)."""

from __future__ import annotations

import math
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

_GRAVITY, _FORCE, _SECONDS = 9.8, 10.0, 0.02
_POLE, _TOTAL = 0.1, 1.1
"""Masses: of the pole, of pole and cart."""
_HALF = 0.5
"""Of the pole's length."""
_FARTHEST, _STEEPEST = 2.4, 12 * 2 * math.pi / 360


class CartPole(ClassicControl):
    """``CartPole-v1``. Motion: place, speed, angle, angular speed."""

    name = "cartpole"

    def __init__(self, num_envs: int, *, limit: int = 500, **options: Any) -> None:
        super().__init__(num_envs, limit=limit, **options)
        high = np.array([2 * _FARTHEST, np.inf, 2 * _STEEPEST, np.inf], np.float32)
        self.observation_space = spaces.Box(-high, high)
        self.action_space = spaces.Discrete(2)

    def begin(self, draws: Draws) -> State:
        """Nearly upright."""
        return {MOTION: draws.uniform(0, 4, low=-0.05, high=0.05)}

    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        """By Euler's method; 1 for each step, the last one too."""
        x, speed, angle, spin = state[MOTION].unbind(dim=1)
        force = actions[:, 0].to(x.dtype) * (2 * _FORCE) - _FORCE
        sin, cos = torch.sin(angle), torch.cos(angle)
        push = (force + _POLE * _HALF * spin.square() * sin) / _TOTAL
        spun = (_GRAVITY * sin - cos * push) / (_HALF * (4.0 / 3.0 - _POLE * cos.square() / _TOTAL))
        pushed = push - _POLE * _HALF * spun * cos / _TOTAL
        x, speed = x + _SECONDS * speed, speed + _SECONDS * pushed
        angle, spin = angle + _SECONDS * spin, spin + _SECONDS * spun
        fallen = (x.abs() > _FARTHEST) | (angle.abs() > _STEEPEST)
        return self.moved(state, (x, speed, angle, spin), torch.ones_like(x), fallen)

    def frame(self, row: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
        """The cart on its track, and the pole."""
        x, _, angle, _ = row[MOTION].tolist()
        canvas = Canvas((-_FARTHEST, _FARTHEST), (-0.5, 1.9), 300)
        canvas.line([(-_FARTHEST, 0.0), (_FARTHEST, 0.0)], "black", 0.02)
        canvas.polygon([(x - 0.2, -0.12), (x + 0.2, -0.12), (x + 0.2, 0.12), (x - 0.2, 0.12)], "black")
        canvas.line([(x, 0.0), (x + 2 * _HALF * math.sin(angle), 2 * _HALF * math.cos(angle))], "brown", 0.08)
        canvas.disc((x, 0.0), 0.05, "slateblue")
        return canvas.pixels()
