"""The classic control problems: one agent, one state tensor, and a step limit."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from tau_trainer.envs.batched.contract import BatchedEnv, Outcome, State
from tau_trainer.envs.batched.draws import Draws
from tau_trainer.errors import SettingsError
from tau_trainer.games.canvas import Canvas

_GRAVITY = 9.8
MOTION = "motion"
"""Key of the state: [E, n], positions and velocities. The games compute in its dtype: float32, unless a caller stores
another."""


class ClassicControl(BatchedEnv):
    """Spaces, dynamics, rewards, starts and limits are those of Gymnasium 1.4's environment of the same name.

    Args:
        num_envs: see :class:`BatchedEnv`.
        limit: steps after which an episode is truncated.
    """

    truncates = True

    def __init__(self, num_envs: int, *, limit: int, **options: Any) -> None:
        super().__init__(num_envs, **options)
        if limit < 1:
            raise SettingsError(f"limit is {limit}; an episode has at least 1 step")
        self.agents = ("agent",)
        self.limit = limit

    def moved(
        self, state: State, motion: tuple[torch.Tensor, ...], rewards: torch.Tensor, terminated: torch.Tensor
    ) -> Outcome:
        """The outcome of a step from the columns of the motion [E], rewards [E], and real ends bool [E]."""
        late = state["step"] >= self.limit
        moved = {MOTION: torch.stack(motion, dim=1)}
        return Outcome(moved, rewards.to(torch.float32)[:, None], terminated[:, None], late[:, None])

    def observe(self, state: State) -> torch.Tensor:
        """The motion itself."""
        return state[MOTION].to(torch.float32)[:, None]


# A pole on a cart that is pushed left or right (Barto, Sutton and Anderson 1983).

_FORCE, _CART_SECONDS = 10.0, 0.02
_POLE, _TOTAL = 0.1, 1.1
"""Masses: of the pole, of pole and cart."""
_HALF = 0.5
"""Half of the pole's length."""
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
        """One step of Euler's method; the reward is 1 for each step, including the last."""
        x, speed, angle, spin = state[MOTION].unbind(dim=1)
        force = actions[:, 0].to(x.dtype) * (2 * _FORCE) - _FORCE  # [E], -10 or 10
        sin, cos = torch.sin(angle), torch.cos(angle)
        push = (force + _POLE * _HALF * spin.square() * sin) / _TOTAL
        # Accelerations of pole and cart (Florian 2007, equations 23 and 24, without friction), [E] each.
        spun = (_GRAVITY * sin - cos * push) / (_HALF * (4.0 / 3.0 - _POLE * cos.square() / _TOTAL))
        pushed = push - _POLE * _HALF * spun * cos / _TOTAL
        x, speed = x + _CART_SECONDS * speed, speed + _CART_SECONDS * pushed
        # With the old speeds: explicit Euler.
        angle, spin = angle + _CART_SECONDS * spin, spin + _CART_SECONDS * spun
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


# Two links with a motor at the joint between them must swing above a line (Sutton 1996).

_LINK_SECONDS = 0.2
_MASS, _LENGTH, _CENTRE, _INERTIA = 1.0, 1.0, 0.5, 1.0
"""Mass, length, center of mass, and inertia of each link."""
_LINK_FASTEST = 4 * math.pi, 9 * math.pi


class Acrobot(ClassicControl):
    """``Acrobot-v1``, with the equations of Sutton and Barto's book. Motion: angles of both links, and their speeds."""

    name = "acrobot"

    def __init__(self, num_envs: int, *, limit: int = 500, **options: Any) -> None:
        super().__init__(num_envs, limit=limit, **options)
        high = np.array([1.0, 1.0, 1.0, 1.0, *_LINK_FASTEST], np.float32)
        self.observation_space = spaces.Box(-high, high)
        self.action_space = spaces.Discrete(3)

    def begin(self, draws: Draws) -> State:
        """Nearly hanging."""
        return {MOTION: draws.uniform(0, 4, low=-0.1, high=0.1)}

    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        """One step of the Runge-Kutta method; the reward is -1 for each step except the last."""
        old = state[MOTION].unbind(dim=1)
        torque = actions[:, 0].to(old[0].dtype) - 1.0  # [E], -1, 0 or 1
        # Slopes at the start, twice in the middle, and at the end, with weights 1, 2, 2, 1.
        first = _slope(old, torque)
        second = _slope(_along(old, first, _LINK_SECONDS / 2), torque)
        third = _slope(_along(old, second, _LINK_SECONDS / 2), torque)
        fourth = _slope(_along(old, third, _LINK_SECONDS), torque)
        upper, lower, upper_speed, lower_speed = (
            x + _LINK_SECONDS / 6 * (a + 2 * b + 2 * c + d)
            for x, a, b, c, d in zip(old, first, second, third, fourth, strict=True)
        )
        upper, lower = _wrapped(upper), _wrapped(lower)
        upper_speed, lower_speed = (
            speed.clamp(-most, most) for speed, most in zip((upper_speed, lower_speed), _LINK_FASTEST, strict=True)
        )
        up = -torch.cos(upper) - torch.cos(upper + lower) > 1.0  # bool [E]: the tip above the line
        return self.moved(state, (upper, lower, upper_speed, lower_speed), up.to(torch.float32) - 1.0, up)

    def observe(self, state: State) -> torch.Tensor:
        """Cosine and sine of both angles, and the speeds."""
        upper, lower, *speeds = state[MOTION].unbind(dim=1)
        seen = torch.stack((torch.cos(upper), torch.sin(upper), torch.cos(lower), torch.sin(lower), *speeds), dim=1)
        return seen.to(torch.float32)[:, None]

    def frame(self, row: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
        """Both links, and the line."""
        upper, lower, _, _ = row[MOTION].tolist()
        joint = _LENGTH * math.sin(upper), -_LENGTH * math.cos(upper)
        tip = joint[0] + _LENGTH * math.sin(upper + lower), joint[1] - _LENGTH * math.cos(upper + lower)
        canvas = Canvas((-2.2, 2.2), (-2.2, 2.2), 300)
        canvas.line([(-2.2, 1.0), (2.2, 1.0)], "black", 0.02)
        canvas.line([(0.0, 0.0), joint], "steelblue", 0.16)
        canvas.line([joint, tip], "steelblue", 0.16)
        for place in ((0.0, 0.0), joint):
            canvas.disc(place, 0.08, "goldenrod")
        return canvas.pixels()


def _slope(motion: tuple[torch.Tensor, ...], torque: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Speeds and accelerations, [E] each."""
    upper, lower, upper_speed, lower_speed = motion
    cos, sin = torch.cos(lower), torch.sin(lower)
    # Inertias d1 and d2, gravity's and the swing's torques: names of Sutton and Barto's equations, [E] each.
    d1 = _MASS * (_CENTRE**2 + _LENGTH**2 + _CENTRE**2 + 2 * _LENGTH * _CENTRE * cos) + 2 * _INERTIA
    d2 = _MASS * (_CENTRE**2 + _LENGTH * _CENTRE * cos) + _INERTIA
    pull = _MASS * _CENTRE * _GRAVITY * torch.sin(upper + lower)
    swing = _MASS * _LENGTH * _CENTRE * sin
    phi = _MASS * (_CENTRE + _LENGTH) * _GRAVITY * torch.sin(upper) + pull
    phi = phi - swing * lower_speed * (lower_speed + 2 * upper_speed)
    turn = torque + d2 / d1 * phi - swing * upper_speed.square() - pull
    faster_two = turn / (_MASS * _CENTRE**2 + _INERTIA - d2.square() / d1)
    return upper_speed, lower_speed, -(d2 * faster_two + phi) / d1, faster_two


def _along(motion: tuple[torch.Tensor, ...], slope: tuple[torch.Tensor, ...], time: float) -> tuple[torch.Tensor, ...]:
    return tuple(x + time * change for x, change in zip(motion, slope, strict=True))


def _wrapped(angle: torch.Tensor) -> torch.Tensor:
    """The angle in (-pi, pi]."""
    return angle - 2 * math.pi * torch.ceil((angle - math.pi) / (2 * math.pi))


# A weak motor must swing a pendulum up and hold it there.

_ROD_SECONDS, _ROD_GRAVITY = 0.05, 10.0
_ROD_FASTEST, _STRONGEST = 8.0, 2.0


class Pendulum(ClassicControl):
    """``Pendulum-v1``. Motion: angle from upright, angular speed. It never terminates."""

    name = "pendulum"

    def __init__(self, num_envs: int, *, limit: int = 200, **options: Any) -> None:
        super().__init__(num_envs, limit=limit, **options)
        high = np.array([1.0, 1.0, _ROD_FASTEST], np.float32)
        self.observation_space = spaces.Box(-high, high)
        self.action_space = spaces.Box(-_STRONGEST, _STRONGEST, (1,), np.float32)

    def begin(self, draws: Draws) -> State:
        """Anywhere, turning slowly."""
        angle = draws.uniform(0, low=-math.pi, high=math.pi)
        return {MOTION: torch.stack((angle, draws.uniform(1, low=-1.0, high=1.0)), dim=1)}

    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        """One step of semi-implicit Euler; the reward depends on the state before it."""
        angle, speed = state[MOTION].unbind(dim=1)
        torque = actions[:, 0, 0].to(angle.dtype).clamp(-_STRONGEST, _STRONGEST)
        off = torch.remainder(angle + math.pi, 2 * math.pi) - math.pi  # from upright, in [-pi, pi)
        cost = off.square() + 0.1 * speed.square() + 0.001 * torque.square()  # of the state before the torque acts
        speed = speed + (1.5 * _ROD_GRAVITY * torch.sin(angle) + 3.0 * torque) * _ROD_SECONDS
        speed = speed.clamp(-_ROD_FASTEST, _ROD_FASTEST)
        angle = angle + speed * _ROD_SECONDS  # with the new speed: semi-implicit
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


# A car in a valley, too weak to drive out of it straight away (Moore 1990).

_LEFT, _RIGHT, _CAR_FASTEST = -1.2, 0.6, 0.07
_CAR_GRAVITY = 0.0025


class _Valley(ClassicControl):
    """Motion: place, speed."""

    goal: float
    """Position to reach."""

    def __init__(self, num_envs: int, **options: Any) -> None:
        super().__init__(num_envs, **options)
        low, high = (np.array(ends, np.float32) for ends in ((_LEFT, -_CAR_FASTEST), (_RIGHT, _CAR_FASTEST)))
        self.observation_space = spaces.Box(low, high)

    @abstractmethod
    def driven(self, actions: torch.Tensor) -> torch.Tensor:
        """Change of speed by the engine, [E], for actions [E, ...] in the motion's dtype."""

    @abstractmethod
    def paid(self, actions: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """Rewards [E], from the same actions and ``there`` bool [E]: whether the goal is reached."""

    def begin(self, draws: Draws) -> State:
        """At rest near the bottom."""
        x = draws.uniform(0, low=-0.6, high=-0.4)
        return {MOTION: torch.stack((x, torch.zeros_like(x)), dim=1)}

    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        """Drive; the left end is a wall."""
        x, speed = state[MOTION].unbind(dim=1)
        chosen = actions[:, 0].to(x.dtype)
        speed = speed + self.driven(chosen) - _CAR_GRAVITY * torch.cos(3 * x)  # the height is sin(3 x)
        speed = speed.clamp(-_CAR_FASTEST, _CAR_FASTEST)
        x = (x + speed).clamp(_LEFT, _RIGHT)
        speed = torch.where(x <= _LEFT, speed.clamp(min=0.0), speed)  # the wall stops the car
        there = (x >= self.goal) & (speed >= 0.0)  # bool [E]
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
    """``MountainCar-v0``: push left, not at all, or right; reward -1 for each step."""

    name = "mountain_car"
    goal = 0.5

    def __init__(self, num_envs: int, *, limit: int = 200, **options: Any) -> None:
        super().__init__(num_envs, limit=limit, **options)
        self.action_space = spaces.Discrete(3)

    def driven(self, actions: torch.Tensor) -> torch.Tensor:
        """-0.001, 0 or 0.001."""
        return (actions - 1.0) * 0.001

    def paid(self, actions: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """Always -1."""
        return torch.full_like(actions, -1.0)


class MountainCarContinuous(_Valley):
    """``MountainCarContinuous-v0``: push with a force; reward 100 at the goal, minus a cost for each push."""

    name = "mountain_car_continuous"
    goal = 0.45

    def __init__(self, num_envs: int, *, limit: int = 999, **options: Any) -> None:
        super().__init__(num_envs, limit=limit, **options)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def driven(self, actions: torch.Tensor) -> torch.Tensor:
        """Proportional to the action, clipped to the space."""
        return actions[:, 0].clamp(-1.0, 1.0) * 0.0015

    def paid(self, actions: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """The cost counts the unclipped action, as in Gymnasium."""
        return there * 100.0 - 0.1 * actions[:, 0].square()


def _height(x: float) -> float:
    return math.sin(3 * x) * 0.45 + 0.55
