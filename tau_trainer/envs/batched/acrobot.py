"""Two links, the joint between which is turned, are to swing above a line (Sutton 1996)."""

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

_SECONDS, _GRAVITY = 0.2, 9.8
_MASS, _LENGTH, _CENTRE, _INERTIA = 1.0, 1.0, 0.5, 1.0
"""Of each link."""
_FASTEST = 4 * math.pi, 9 * math.pi


class Acrobot(ClassicControl):
    """``Acrobot-v1``, by the book's equations. Motion: angles of both links, and their speeds."""

    name = "acrobot"

    def __init__(self, num_envs: int, *, limit: int = 500, **options: Any) -> None:
        super().__init__(num_envs, limit=limit, **options)
        high = np.array([1.0, 1.0, 1.0, 1.0, *_FASTEST], np.float32)
        self.observation_space = spaces.Box(-high, high)
        self.action_space = spaces.Discrete(3)

    def begin(self, draws: Draws) -> State:
        """Nearly hanging."""
        return {MOTION: draws.uniform(0, 4, low=-0.1, high=0.1)}

    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        """By one step of Runge and Kutta's method; -1 for each step but the last."""
        old = state[MOTION].unbind(dim=1)
        torque = actions[:, 0].to(old[0].dtype) - 1.0
        first = _slope(old, torque)
        second = _slope(_along(old, first, _SECONDS / 2), torque)
        third = _slope(_along(old, second, _SECONDS / 2), torque)
        fourth = _slope(_along(old, third, _SECONDS), torque)
        one, two, speed_one, speed_two = (
            x + _SECONDS / 6 * (a + 2 * b + 2 * c + d)
            for x, a, b, c, d in zip(old, first, second, third, fourth, strict=True)
        )
        one, two = _wrapped(one), _wrapped(two)
        speed_one, speed_two = (
            speed.clamp(-most, most) for speed, most in zip((speed_one, speed_two), _FASTEST, strict=True)
        )
        up = -torch.cos(one) - torch.cos(one + two) > 1.0
        return self.moved(state, (one, two, speed_one, speed_two), up.to(torch.float32) - 1.0, up)

    def observe(self, state: State) -> torch.Tensor:
        """Cosine and sine of both angles, and the speeds."""
        one, two, *speeds = state[MOTION].unbind(dim=1)
        seen = torch.stack((torch.cos(one), torch.sin(one), torch.cos(two), torch.sin(two), *speeds), dim=1)
        return seen.to(torch.float32)[:, None]

    def frame(self, row: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
        """Both links, and the line."""
        one, two, _, _ = row[MOTION].tolist()
        joint = _LENGTH * math.sin(one), -_LENGTH * math.cos(one)
        tip = joint[0] + _LENGTH * math.sin(one + two), joint[1] - _LENGTH * math.cos(one + two)
        canvas = Canvas((-2.2, 2.2), (-2.2, 2.2), 300)
        canvas.line([(-2.2, 1.0), (2.2, 1.0)], "black", 0.02)
        canvas.line([(0.0, 0.0), joint], "steelblue", 0.16)
        canvas.line([joint, tip], "steelblue", 0.16)
        for place in ((0.0, 0.0), joint):
            canvas.disc(place, 0.08, "goldenrod")
        return canvas.pixels()


def _slope(motion: tuple[torch.Tensor, ...], torque: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Speeds and accelerations, [E] each."""
    one, two, speed_one, speed_two = motion
    cos, sin = torch.cos(two), torch.sin(two)
    d1 = _MASS * (_CENTRE**2 + _LENGTH**2 + _CENTRE**2 + 2 * _LENGTH * _CENTRE * cos) + 2 * _INERTIA
    d2 = _MASS * (_CENTRE**2 + _LENGTH * _CENTRE * cos) + _INERTIA
    pull = _MASS * _CENTRE * _GRAVITY * torch.sin(one + two)
    swing = _MASS * _LENGTH * _CENTRE * sin
    phi = _MASS * (_CENTRE + _LENGTH) * _GRAVITY * torch.sin(one) + pull
    phi = phi - swing * speed_two * (speed_two + 2 * speed_one)
    turn = torque + d2 / d1 * phi - swing * speed_one.square() - pull
    faster_two = turn / (_MASS * _CENTRE**2 + _INERTIA - d2.square() / d1)
    return speed_one, speed_two, -(d2 * faster_two + phi) / d1, faster_two


def _along(motion: tuple[torch.Tensor, ...], slope: tuple[torch.Tensor, ...], time: float) -> tuple[torch.Tensor, ...]:
    return tuple(x + time * change for x, change in zip(motion, slope, strict=True))


def _wrapped(angle: torch.Tensor) -> torch.Tensor:
    """In (-pi, pi]."""
    return angle - 2 * math.pi * torch.ceil((angle - math.pi) / (2 * math.pi))
