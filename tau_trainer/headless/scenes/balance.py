"""3DBall without pictures: keep a ball from rolling off a platform that tilts about two axes.

The numbers are those of ML-Agents' 3DBall: a cube of 5 m that tilts about its centre, and a solid ball of 1 m diameter
on its top. A physics step takes 0.02 s and tilts each axis by up to 2 degrees; a decision has five physics steps. The
tilt is limited to 0.25 as a quaternion component. Each decision pays +0.1, losing the ball -1. An episode has at most
1,000 decisions, so the best return is 100. :mod:`~tau_trainer.headless.scenes.balance_physics` computes the motion.
"""

from __future__ import annotations

import numpy as np

from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scene import LockstepScene, Played, numbers
from tau_trainer.headless.scenes.balance_physics import BALL_RADIUS, HALF_WIDTH, Contact, Motion
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, IndexArray, Observations

TILT_DEGREES = 2.0
"""Largest tilt of one axis in one physics step."""
START_TILT = float(np.deg2rad(10.0))
START_OFFSET = 1.5
GRAVITY = 9.81
_KEPT_REWARD = np.float32(0.1)
_LOST_REWARD = np.float32(-1.0)
ROLLING = 5.0 / 7.0
"""Share of gravity's pull along the plane that moves a rolling solid sphere; the rest spins it."""

_SPEC = BehaviorSpec(
    "3DBall?team=0",
    (numbers("VectorSensor_size8", 8),),
    ActionSpec(continuous_size=2),
)


class BalanceScene(LockstepScene):
    """Platforms with a ball each, twelve by default; see the module's docstring.

    Observation, 8 floats: the platform's quaternion components z and x, the ball's position relative to the platform's
    centre (x, y, z in m), the ball's velocity (x, y, z in m/s). Actions: tilt about z, tilt about x, in [-1, 1].

    Environment parameters: ``gravity`` (m/s^2, positive), ``scale`` (of the ball), ``tilt_speed`` (degrees in a physics
    step), ``max_decisions``. New values of the first two are drawn for each episode.
    """

    def __init__(self, *, agents: int = 12, seed: int = 0, max_decisions: int = 1000) -> None:
        super().__init__((_SPEC,), agents, seed, max_decisions)
        self._tilt = np.zeros((2, agents))  # about x, about z; radians
        self._pull = np.full(agents, ROLLING * GRAVITY)
        self._step_tilt = np.deg2rad(TILT_DEGREES)
        self._motion = Motion(agents)
        self._velocity, self._ball = self._motion.velocity, self._motion.ball
        self._contact = Contact(agents)

    def update(self, parameters: EnvironmentParameters) -> None:
        """See :meth:`Scene.update`."""
        super().update(parameters)
        self._step_tilt = np.deg2rad(parameters.get("tilt_speed", TILT_DEGREES))

    def begin(self, index: IndexArray) -> None:
        """Place the ball at random, at rest, on a platform tilted at random."""
        draw = self.random.uniform(index, 4) * 2.0 - 1.0
        self._tilt[:, index] = draw[:2] * START_TILT
        self._ball[:, index] = draw[2:] * START_OFFSET
        self._velocity[:, index] = 0.0
        self._pull[index] = ROLLING * self.parameters.draw("gravity", GRAVITY, len(index))
        self._contact.height[index] = HALF_WIDTH + BALL_RADIUS * self.parameters.draw("scale", 1.0, len(index))
        sine, cosine = np.sin(self._tilt), np.cos(self._tilt)
        self._motion.place(sine, cosine)
        self._contact.find(self._ball, sine, cosine)

    def advance(self, actions: Actions) -> Played:
        """Tilt the platforms in five steps and let the balls roll."""
        push = np.minimum(np.maximum(actions.continuous, -1.0), 1.0) * self._step_tilt
        sine, cosine = self._motion.roll(self._tilt, push.T[::-1], self._pull)
        over = self._contact.find(self._ball, sine, cosine)
        return np.where(over, _LOST_REWARD, _KEPT_REWARD), over

    def observe(self) -> Observations:
        """See the class's docstring."""
        half = 0.5 * self._tilt
        seen = np.empty((self.agents, 8), np.float32)
        view = seen.T
        np.multiply(np.sin(half)[::-1], np.cos(half), out=view[0:2])
        view[2:5:2] = self._ball
        view[3] = self._contact.level
        view[5:8:2] = self._velocity
        view[6] = self._motion.climb()
        return (seen,)
