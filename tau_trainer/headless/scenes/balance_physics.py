"""A ball that rolls on a tilting platform, for many platforms at once, in preallocated buffers.

With the platform's normal ``n`` and gravity ``g``, a solid sphere that rolls without slipping on a plane
accelerates by 5/7 of gravity's part in the plane (moment of inertia 2/5 m r^2), so its horizontal acceleration is
``5/7 g n_y (n_x, n_z)``. The height follows from contact: ``p . n`` = 2.5 + radius. The ball always keeps contact. The
platform moves without a velocity, so it does not push the ball (as with Unity's ``transform.Rotate``). 3DBall's first
drop of 1 m onto the platform is left out. The integration is semi-implicit Euler. Within a decision the platform's
motion does not depend on the ball, so the five steps are exactly two weighted sums over the five accelerations.
"""

from __future__ import annotations

import numpy as np

from tau_trainer.specs import BoolArray, Float64Array

STEP_SECONDS = 0.02
SUBSTEPS = 5
TILT_LIMIT = 2.0 * float(np.arcsin(0.25))
"""Largest tilt of one axis in radians: 0.25 as a quaternion component."""
HALF_WIDTH = 2.5
"""Half the cube's side, in m: the distance of the top from the centre of rotation, and of the edge from the middle."""
LOST_DISTANCE = 3.0
"""3DBall's limit of the ball's horizontal distance, in m."""
BALL_RADIUS = 0.5


class Motion:
    """The balls' motion through the physics steps of one decision.

    With the tilts ``a`` about x and ``b`` about z (the platform is turned about z first), the platform's normal is
    ``n = (-sin b, cos a cos b, sin a cos b)``.
    """

    def __init__(self, agents: int) -> None:
        progress = np.arange(1.0, SUBSTEPS + 1)
        later = progress[::-1]  # an acceleration of step k moves the ball in the steps k .. SUBSTEPS
        self._progress = progress[:, None, None]
        self._weights = np.zeros((2, SUBSTEPS + 2))  # from accelerations, velocity and place to velocity and place
        self._weights[0, :-1] = [STEP_SECONDS] * SUBSTEPS + [1.0]
        self._weights[1] = [*(STEP_SECONDS**2 * later), STEP_SECONDS * SUBSTEPS, 1.0]
        self._rows = np.zeros((SUBSTEPS + 2, 2 * agents))
        self._next = np.zeros((2, 2 * agents))
        state = self._rows.reshape(SUBSTEPS + 2, 2, agents)
        self._slopes = state[:SUBSTEPS]
        self.velocity = state[SUBSTEPS]
        self.ball = state[SUBSTEPS + 1]
        """``velocity`` and ``ball``: float64 [2, agents], along x and z, in m/s and m."""
        self._tilts, self._sine, self._cosine = np.zeros((3, SUBSTEPS, 2, agents))
        self._normal = np.zeros((SUBSTEPS, 3, agents))
        self._parts = tuple(tuple(part.swapaxes(0, 1)) for part in (self._sine, self._cosine, self._normal))
        self._flat, self._up = self._normal[:, 0:3:2], self._normal[:, 1:2]

    def _turn(self) -> None:
        """Fill in the normals from sines and cosines."""
        (sine_x, sine_z), (cosine_x, cosine_z), (x, y, z) = self._parts
        np.negative(sine_z, out=x)
        np.multiply(cosine_x, cosine_z, out=y)
        np.multiply(sine_x, cosine_z, out=z)

    def place(self, sine: Float64Array, cosine: Float64Array) -> None:
        """Set the platforms' tilts, given as sines and cosines, float64 [2, agents]."""
        self._sine[-1][...] = sine
        self._cosine[-1][...] = cosine
        self._turn()

    def roll(self, tilt: Float64Array, push: Float64Array, pull: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Play one decision: change ``tilt`` [2, agents] by ``push`` in every step, and let the balls roll.

        ``pull`` [agents] is the acceleration down a vertical slope. Returns the sines and cosines of the last tilts.
        """
        tilts = self._tilts
        np.multiply(self._progress, push, out=tilts)
        tilts += tilt
        np.minimum(np.maximum(tilts, -TILT_LIMIT, out=tilts), TILT_LIMIT, out=tilts)
        np.sin(tilts, out=self._sine)
        np.cos(tilts, out=self._cosine)
        self._turn()
        np.multiply(self._flat, self._up * pull, out=self._slopes)
        np.dot(self._weights, self._rows, out=self._next)
        self._rows[SUBSTEPS:] = self._next
        tilt[...] = self._tilts[-1]
        return self._sine[-1], self._cosine[-1]

    def climb(self) -> Float64Array:
        """The balls' velocity along y, float64 [agents]; it follows because velocities lie in the plane."""
        slide = self._flat[-1] * self.velocity
        speed: Float64Array = (slide[0] + slide[1]) / self._up[-1, 0]
        return np.negative(speed, out=speed)


class Contact:
    """The points at which the balls touch the platforms.

    Rotating the ball's position (x, y, z) back about x, then about z, gives the position (ax, h, az) relative to the
    platform, with the known height ``h``. With ``u``, the height between the two rotations, the solution for the
    unknowns is ``(ax, u) = ((x, h) + sin b (h, x)) / cos b`` and ``(y, az) = ((u, z) - sin a (z, u)) / cos a``.
    """

    def __init__(self, agents: int) -> None:
        rows = self._rows = np.zeros((7, agents))  # ax, u, z, x, h, y, az
        self._zx, self.height, self.level = rows[2:4], rows[4], rows[5]
        """``height`` h and ``level`` y: float64 [agents], in m."""
        self.height[:] = HALF_WIDTH + BALL_RADIUS
        self._first, self._xh, self._hx = rows[0:2], rows[3:5], rows[4:2:-1]
        self._second, self._uz, self._zu = rows[5:7], rows[1:3], rows[2:0:-1]
        edge, far = 1.0 / HALF_WIDTH, 1.0 / LOST_DISTANCE
        self._share = np.array([edge, 0.0, far, far, 0.0, 0.0, edge])[:, None]  # reciprocals of the limits
        self._used = np.zeros((7, agents))

    def find(self, ball: Float64Array, sine: Float64Array, cosine: Float64Array) -> BoolArray:
        """Compute ``level``. Returns bool [agents]: true if the ball is beyond the edge or 3DBall's limit of distance.

        ``ball`` holds x and z; sines and cosines are those of the tilts about x and z: float64 [2, agents].
        """
        self._zx[...] = ball[::-1]
        first, second, used = self._first, self._second, self._used
        np.multiply(self._hx, sine[1], out=first)
        first += self._xh
        first /= cosine[1]
        np.multiply(self._zu, sine[0], out=second)
        np.subtract(self._uz, second, out=second)
        second /= cosine[0]
        np.abs(np.multiply(self._rows, self._share, out=used), out=used)
        lost: BoolArray = np.maximum.reduce(used) > 1.0
        return lost
