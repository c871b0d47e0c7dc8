"""3DBall without pictures: keep a ball from rolling off a platform that tilts about two axes.

Numbers are those of ML-Agents' 3DBall: a cube of 5 m whose top tilts about its centre, a solid ball of 1 m diameter,
up to 2 degrees a physics step of 0.02 s for each axis, five physics steps a decision, tilt limited to 0.25 in the
quaternion's component, +0.1 a decision, -1 when the ball is lost, 1,000 decisions at most: the best return is 100.

Physics. With the platform's normal ``n`` and gravity ``g``, a solid sphere that rolls without slipping on a plane
accelerates by 5/7 of gravity's part in the plane (moment of inertia 2/5 m r^2), so its horizontal acceleration is
``5/7 g n_y (n_x, n_z)``. The height follows from contact: ``p . n`` = 2.5 + radius. The ball keeps contact, and the
platform is moved, not thrown (Unity's ``transform.Rotate`` gives it no velocity); 3DBall's first drop of 1 m onto the
platform is left out. Steps are semi-implicit Euler. Within a decision the platform's motion does not depend on the
ball, so the five steps are two weighted sums over the five accelerations, exactly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tau_trainer.headless.parameters import Parameters
from tau_trainer.headless.scene import Index, LockstepScene
from tau_trainer.specs import (
    Actions,
    ActionSpec,
    BehaviorSpec,
    BoolArray,
    DimensionProperty,
    FloatArray,
    ObservationSpec,
)

STEP_SECONDS = 0.02
SUBSTEPS = 5
TILT_DEGREES = 2.0
"""Largest tilt of one axis in one physics step."""
TILT_LIMIT = 2.0 * float(np.arcsin(0.25))
"""Largest tilt of one axis in radians: 0.25 as a quaternion component."""
START_TILT = float(np.deg2rad(10.0))
START_OFFSET = 1.5
HALF_WIDTH = 2.5
"""Half the cube's side: the top lies this far from the centre of rotation, and the edge this far from the middle."""
LOST_DISTANCE = 3.0
"""3DBall's own limit on the ball's horizontal distance."""
BALL_RADIUS = 0.5
GRAVITY = 9.81
_KEPT_REWARD = np.float32(0.1)
_LOST_REWARD = np.float32(-1.0)
ROLLING = 5.0 / 7.0
"""Share of gravity's pull along the plane that moves a rolling solid sphere; the rest spins it."""

MAX_DECISIONS = 1000

SPEC = BehaviorSpec(
    "3DBall?team=0",
    (ObservationSpec("VectorSensor_size8", (8,), (DimensionProperty.NONE,)),),
    ActionSpec(continuous_size=2),
)


class BalanceScene(LockstepScene):
    """Twelve platforms with a ball each; see the module's text.

    Observation, 8 floats: the platform's quaternion components z and x, the ball's position relative to the platform's
    centre (x, y, z in m), the ball's velocity (x, y, z in m/s). Actions: tilt about z, tilt about x, in [-1, 1].

    Environment parameters: ``gravity`` (m/s^2, positive), ``scale`` (of the ball), ``tilt_speed`` (degrees a physics
    step), ``max_decisions``; the first two are drawn anew for each episode.
    """

    def __init__(self, *, agents: int = 12, seed: int = 0, max_decisions: int = MAX_DECISIONS) -> None:
        super().__init__(SPEC, agents, seed, max_decisions)
        self._tilt = np.zeros((2, agents))  # about x, about z; radians
        self._ball = np.zeros((2, agents))  # x, z; m
        self._velocity = np.zeros((2, agents))
        self._pull = np.full(agents, ROLLING * GRAVITY)
        self._height = np.full(agents, HALF_WIDTH + BALL_RADIUS)  # of the ball's centre above the axis, along n
        self._step_tilt = np.deg2rad(TILT_DEGREES)
        self._progress = np.arange(1.0, SUBSTEPS + 1)[:, None, None]
        later = np.arange(SUBSTEPS, 0, -1.0)  # an acceleration of step k moves the ball in the steps k .. SUBSTEPS
        self._weights = np.stack([np.full(SUBSTEPS, STEP_SECONDS), STEP_SECONDS**2 * later])
        self._normal = np.zeros((3, agents))
        self._level = np.zeros(agents)  # y of the ball

    def update(self, parameters: Parameters) -> None:
        """See :meth:`Scene.update`."""
        self._step_tilt = np.deg2rad(parameters.get("tilt_speed", TILT_DEGREES))
        self.max_decisions = int(parameters.get("max_decisions", self.max_decisions))

    def begin(self, index: Index) -> None:
        """Place the ball at random, at rest, on a platform tilted at random."""
        draw = self.random.uniform(index, 4) * 2.0 - 1.0
        self._tilt[:, index] = tilt = draw[:2] * START_TILT
        self._ball[:, index] = ball = draw[2:] * START_OFFSET
        self._velocity[:, index] = 0.0
        self._pull[index] = ROLLING * self.parameters.draw("gravity", GRAVITY, len(index))
        height = HALF_WIDTH + BALL_RADIUS * self.parameters.draw("scale", 1.0, len(index))
        normal = _normals(np.sin(tilt), np.cos(tilt))
        self._height[index] = height
        self._normal[:, index] = normal
        self._level[index] = _level(height, normal, ball)

    def advance(self, actions: Actions) -> tuple[FloatArray, BoolArray]:
        """Tilt the platforms in five steps and let the balls roll."""
        push = np.minimum(np.maximum(actions.continuous.T[::-1], -1.0), 1.0) * self._step_tilt
        tilts = self._progress * push
        tilts += self._tilt
        np.minimum(np.maximum(tilts, -TILT_LIMIT, out=tilts), TILT_LIMIT, out=tilts)  # [steps, 2, agents]
        sine, cosine = np.sin(tilts), np.cos(tilts)
        normals = _normals(sine, cosine)  # [steps, 3, agents]
        slope = normals[:, 0:3:2] * (normals[:, 1:2] * self._pull)
        change = (self._weights @ slope.reshape(SUBSTEPS, -1)).reshape(2, 2, self.agents)
        self._ball += self._velocity * (STEP_SECONDS * SUBSTEPS) + change[1]
        self._velocity += change[0]
        self._tilt, self._normal = tilts[-1], normals[-1]
        self._level = _level(self._height, self._normal, self._ball)
        over = self._lost(sine[-1], cosine[-1])
        return np.where(over, _LOST_REWARD, _KEPT_REWARD), over

    def observe(self) -> tuple[FloatArray, ...]:
        """See the class's text."""
        half = 0.5 * self._tilt
        view = np.empty((8, self.agents), np.float32)
        view[0:2] = np.sin(half)[::-1] * np.cos(half)
        view[2:5:2] = self._ball
        view[3] = self._level
        view[5:8:2] = self._velocity
        slide = self._normal[0:3:2] * self._velocity
        view[6] = -(slide[0] + slide[1]) / self._normal[1]  # the velocity lies in the plane
        return (np.ascontiguousarray(view.T),)

    def _lost(self, sine: NDArray[np.float64], cosine: NDArray[np.float64]) -> BoolArray:
        """Whether the ball lies beyond the platform's edge, or further away than 3DBall allows."""
        x, z = self._ball
        along_x = x * cosine[1] + (self._level * cosine[0] + z * sine[0]) * sine[1]
        along_z = z * cosine[0] - self._level * sine[0]
        lost: BoolArray = np.maximum(np.abs(along_x), np.abs(along_z)) > HALF_WIDTH
        lost |= np.maximum.reduce(np.abs(self._ball)) > LOST_DISTANCE
        return lost


def _normals(sine: NDArray[np.float64], cosine: NDArray[np.float64]) -> NDArray[np.float64]:
    """The platform's normal (x, y, z) from sine and cosine of its tilts about x and z: [..., 2, n] to [..., 3, n].

    The platform is turned about z first, then about x: ``n = (-sin b, cos a cos b, sin a cos b)``.
    """
    normal = np.empty((*sine.shape[:-2], 3, sine.shape[-1]))
    np.negative(sine[..., 1, :], out=normal[..., 0, :])
    np.multiply(cosine[..., 0, :], cosine[..., 1, :], out=normal[..., 1, :])
    np.multiply(sine[..., 0, :], cosine[..., 1, :], out=normal[..., 2, :])
    return normal


def _level(height: NDArray[np.float64], normal: NDArray[np.float64], ball: NDArray[np.float64]) -> NDArray[np.float64]:
    """The ball's y where it touches the platform: ``p . n = height``, solved for y. float64 [n]."""
    level: NDArray[np.float64] = (height - normal[0] * ball[0] - normal[2] * ball[1]) / normal[1]
    return level
