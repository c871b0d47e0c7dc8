"""A pendulum is to be swung up and held there by a weak motor."""

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

_SECONDS, _GRAVITY = 0.05, 10.0
_FASTEST, _STRONGEST = 8.0, 2.0


class Pendulum(ClassicControl):
    """``Pendulum-v1``. Motion: angle from upright, angular speed. It never terminates."""

    name = "pendulum"

    def __init__(self, num_envs: int, *, limit: int = 200, **options: Any) -> None:
        super().__init__(num_envs, limit=limit, **options)
        high = np.array([1.0, 1.0, _FASTEST], np.float32)
        self.observation_space = spaces.Box(-high, high)
        self.action_space = spaces.Box(-_STRONGEST, _STRONGEST, (1,), np.float32)

    def begin(self, draws: Draws) -> State:
        """Anywhere, turning slowly."""
        angle = draws.uniform(0, low=-math.pi, high=math.pi)
        return {MOTION: torch.stack((angle, draws.uniform(1, low=-1.0, high=1.0)), dim=1)}

    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        """By semi-implicit Euler; what is paid is what was seen before."""
        angle, speed = state[MOTION].unbind(dim=1)
        torque = actions[:, 0, 0].to(angle.dtype).clamp(-_STRONGEST, _STRONGEST)
        off = torch.remainder(angle + math.pi, 2 * math.pi) - math.pi
        cost = off.square() + 0.1 * speed.square() + 0.001 * torque.square()
        speed = speed + (1.5 * _GRAVITY * torch.sin(angle) + 3.0 * torque) * _SECONDS
        speed = speed.clamp(-_FASTEST, _FASTEST)
        angle = angle + speed * _SECONDS
        return self.moved(state, (angle, speed), -cost, torch.zeros_like(cost, dtype=torch.bool))

    def observe(self, state: State) -> torch.Tensor:
        """Cosine and sine of the angle, and the speed."""
        angle, speed = state[MOTION].unbind(dim=1)
        return torch.stack((torch.cos(angle), torch.sin(angle), speed), dim=1).to(torch.float32)[:, None]

    def frame(self, row: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
        """The rod on its axle."""
        angle, _ = row[MOTION].tolist()
        canvas = Canvas((-1.3, 1.3), (-1.3, 1.3), 300)
        canvas.line([(0.0, 0.0), (math.sin(-angle), math.cos(angle))], "indianred", 0.2)
        canvas.disc((0.0, 0.0), 0.06, "black")
        return canvas.pixels()
