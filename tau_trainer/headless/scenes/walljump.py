"""ML-Agents' Wall Jump: get over a wall to the goal behind it. If the wall is high, use a block to climb it.

A platform of 21 m by 21 m with a wall across it, a goal behind the wall, and a block of 3 m by 3 m, 2 m high, in front
of it. An agent jumps 2.75 m, so for a high wall it must push the block to the wall, jump on it, and jump over. In each
episode an agent has no wall (one in five), a small one (one in five; both with the behavior ``SmallWallJump``) or a big
one (behavior ``BigWallJump``). Reaching the goal pays +1; the fall of the agent or the block from the platform pays -1;
both end the episode. Every other decision costs 0.0025 (0.0005 in each of Unity's five steps). An episode is truncated
after 400 decisions.

As in Unity, the height of a wall is the scale of a box that is partly in the ground: a wall of scale 4 is 1.5 m high,
one of 8 is 3.5 m high. Bodies are boxes that do not turn. Sizes and positions are Unity's; speeds are rounded to whole
decisions.
"""

from __future__ import annotations

import numpy as np

from tau_trainer.headless.scene import LockstepScene, Played, numbers
from tau_trainer.headless.scenes.rays import distances, fan, forward, ray_values
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, BoolArray, Float64Array, IndexArray, Observations

STACK = 6
"""Number of stacked observations, the latest last."""
EDGE = 10.5
"""Half the platform's width, in metres, as all lengths below. Along z it is from ``BACK_EDGE`` to ``FRONT_EDGE``."""
BACK_EDGE, FRONT_EDGE = -14.5, 6.5
WALL_NEAR, WALL_FAR = -2.73, -1.23
"""Position of the two sides of the wall, along z."""
GOAL_LOW, GOAL_HIGH = (4.37, 0.93), (8.37, 4.93)
"""Corners of the goal, x and z."""
GOAL_TOP = 5.0
HALF_AGENT, HALF_BLOCK, BLOCK_TOP = 0.5, 1.5, 2.0
BLOCK_GAP = 2.0
"""Largest distance of a block from the wall at the start."""
RUN = 0.8
"""Distance ahead or back in a decision: on the ground, in the air, and while pushing the block. Sideways: 0.6 of it."""
RISE, RISING = 1.375, 2
"""Height that a jump gains in a decision, and number of decisions for which it rises before it falls."""
FALL = 1.0
"""Increase of the speed of a fall in each decision."""
TURN = float(np.deg2rad(30.0))
STEP_REWARD = -0.0025
RAYS = 7
LENGTH, RAY_RADIUS = 20.0, 0.45
"""Of the rays, in metres. Unity casts spheres of 0.5 m, and ignores things that they touch at the start."""
TAGS = ("wall", "goal", "block")

_RAY_SIZE = RAYS * (len(TAGS) + 2)
_SENSORS = (
    numbers(f"StackingSensor_size{STACK}_OffsetRayPerceptionSensor", STACK * _RAY_SIZE),
    numbers(f"StackingSensor_size{STACK}_RayPerceptionSensor", STACK * _RAY_SIZE),
    numbers(f"StackingSensor_size{STACK}_VectorSensor_size4", STACK * 4),
)
_ACTIONS = ActionSpec(discrete_branches=(3, 3, 3, 2))
SMALL, BIG = 0, 1
"""Indices of the behaviors."""
_SPECS = tuple(BehaviorSpec(f"{name}?team=0", _SENSORS, _ACTIONS) for name in ("SmallWallJump", "BigWallJump"))
_FAN = fan(RAYS // 2, 90.0)
_TAG = np.arange(len(TAGS))[None]
_BOTH_WAYS = np.array([0.0, 1.0, -1.0])
_TOUCH = HALF_AGENT + HALF_BLOCK


class WallJumpScene(LockstepScene):
    """See the module's docstring.

    Observations, each stacked six times (74 floats in one step): seven rays upwards with 5 values each (wall, goal,
    block, nothing hit, distance), seven level rays, the position (x, y, z; 20 m are 1) and whether the agent stands.
    Action, four branches: nothing, forward, back; nothing, turn left, turn right; nothing, left, right (takes
    precedence over the first branch); nothing, jump.

    Environment parameters: ``no_wall_height``, ``small_wall_height`` and ``big_wall_height``, drawn for each episode;
    and ``max_decisions``.
    """

    def __init__(self, *, agents: int = 16, seed: int = 0, max_decisions: int = 400) -> None:
        super().__init__(_SPECS, agents, seed, max_decisions)
        self.place = np.zeros((agents, 2))
        self.height = np.zeros(agents)
        """Height of the agent's feet above the ground."""
        self.block = np.zeros((agents, 2))
        self.wall = np.zeros(agents)
        """Height of the wall above the ground; 0: no wall."""
        self._heading = np.zeros(agents)
        self._fall = np.zeros(agents)
        self._rising = np.zeros(agents, np.intp)
        self._frames = tuple(np.zeros((agents, STACK, spec.size // STACK), np.float32) for spec in _SENSORS)

    def begin(self, index: IndexArray) -> None:
        """Place the agents behind the block, facing a new wall."""
        x, block_x, block_z, kind = self.random.uniform(index, 4)
        self.place[index] = np.stack([18.0 * (x - 0.5), np.full(len(index), -12.0)], axis=1)
        block_z = WALL_NEAR - HALF_BLOCK - BLOCK_GAP * block_z
        self.block[index] = np.stack([16.2 * (block_x - 0.5), block_z], axis=1)
        self.height[index] = self._fall[index] = self._heading[index] = 0.0
        self._rising[index] = 0
        kind = np.minimum((5.0 * kind).astype(np.intp), 2)
        self.behavior[index] = np.where(kind == 2, BIG, SMALL)
        for number, (name, usual) in enumerate((("no", 0.0), ("small", 4.0), ("big", 8.0))):
            some = index[kind == number]
            scale = self.parameters.draw(f"{name}_wall_height", usual, len(some))
            self.wall[some] = np.maximum(scale / 2.0 - 0.5, 0.0)
        for frames, seen in zip(self._frames, self._look(), strict=True):
            frames[index] = 0.0
            frames[index, -1] = seen[index]

    def advance(self, actions: Actions) -> Played:
        """Turn and move the agents, push blocks, and fall; end episodes in the goal or off the platform."""
        ahead, turn, aside, jump = actions.discrete.T
        self._heading -= TURN * _BOTH_WAYS.take(turn, mode="clip")
        self._rising[self._standing() & (jump == 1)] = RISING
        rising = self._rising > 0
        self.height[rising] += RISE
        self._rising[rising] -= 1
        self._walk(_BOTH_WAYS.take(ahead, mode="clip"), -0.6 * _BOTH_WAYS.take(aside, mode="clip"))
        self._fall = np.where(rising, 0.0, self._fall + FALL)
        support = self._support()
        self.height = np.maximum(self.height - self._fall, support)
        self._fall[self.height == support] = 0.0
        self._look_on()
        fell = _beside(self.place) | _beside(self.block)
        inside = (self.place > np.subtract(GOAL_LOW, HALF_AGENT)) & (self.place < np.add(GOAL_HIGH, HALF_AGENT))
        there = inside.all(axis=1) & self._standing() & ~fell
        reward = np.where(there, 1.0, np.where(fell, -1.0, STEP_REWARD))
        over: BoolArray = there | fell
        return reward.astype(np.float32), over

    def _walk(self, ahead: Float64Array, aside: Float64Array) -> None:
        """Move the agents and the blocks that they push."""
        sideways = aside != 0.0
        course = self._heading + np.where(sideways, np.pi / 2.0, 0.0)
        way = RUN * np.where(sideways, aside, ahead)
        before = self.place
        place = before + way[:, None] * forward(course)
        self._push(place, before)
        stopped = self.height < self.wall
        near, far = WALL_NEAR - HALF_AGENT, WALL_FAR + HALF_AGENT
        place[:, 1] = np.where(stopped & (before[:, 1] <= near), np.minimum(place[:, 1], near), place[:, 1])
        place[:, 1] = np.where(stopped & (before[:, 1] >= far), np.maximum(place[:, 1], far), place[:, 1])
        self.place = place

    def _push(self, place: Float64Array, before: Float64Array) -> None:
        """If ``place`` [n, 2] is in a block, move the block away and ``place`` out of it, along one axis."""
        into = ((np.abs(place - self.block) < _TOUCH).all(axis=1)) & (self.height < BLOCK_TOP)
        agent = np.flatnonzero(into)
        if not len(agent):
            return
        axis = np.abs(before[agent] - self.block[agent]).argmax(axis=1)  # the axis along which the agent came
        side = np.sign(before[agent, axis] - self.block[agent, axis])
        self.block[agent, axis] = place[agent, axis] - side * _TOUCH
        most = np.where(self.wall[agent] > 0.0, WALL_NEAR - HALF_BLOCK, np.inf)
        self.block[agent, 1] = np.minimum(self.block[agent, 1], most)
        place[agent, axis] = self.block[agent, axis] + side * _TOUCH

    def _support(self) -> Float64Array:
        """Height of the surface under each agent's feet."""
        over_block = (np.abs(self.place - self.block) < _TOUCH).all(axis=1)
        z = self.place[:, 1]
        over_wall = (z > WALL_NEAR - HALF_AGENT) & (z < WALL_FAR + HALF_AGENT)
        return np.maximum(np.where(over_block, BLOCK_TOP, 0.0), np.where(over_wall, self.wall, 0.0))

    def _standing(self) -> BoolArray:
        standing: BoolArray = (self.height <= self._support()) & (self._rising == 0)
        return standing

    def _look(self) -> Observations:
        """Current observations, unstacked: [n, 35], [n, 35], [n, 4]."""
        block_low, block_high = self.block - HALF_BLOCK, self.block + HALF_BLOCK
        n = self.agents
        low = np.stack([np.tile((-EDGE, WALL_NEAR), (n, 1)), np.tile(GOAL_LOW, (n, 1)), block_low], axis=1) - RAY_RADIUS
        high = np.stack([np.tile((EDGE, WALL_FAR), (n, 1)), np.tile(GOAL_HIGH, (n, 1)), block_high], axis=1)
        high += RAY_RADIUS
        way = distances(self.place, forward(self._heading[:, None] + _FAN), low, high)
        top = np.stack([self.wall, np.full(n, GOAL_TOP), np.full(n, BLOCK_TOP)], axis=1)[:, None]
        eye = (self.height + HALF_AGENT)[:, None, None]
        climb = np.where(np.isfinite(way), way, 0.0) * (2.5 / LENGTH)  # from 2.5 m above the eye to 5 m, at full length
        upward, level = (np.where(at <= top, way, np.inf) for at in (eye + 2.5 + climb, eye))
        pose = np.stack([self.place[:, 0], self.height + 1.0, self.place[:, 1] + 4.0, 20.0 * self._standing()], axis=1)
        return (
            ray_values(upward, _TAG, len(TAGS), LENGTH),
            ray_values(level, _TAG, len(TAGS), LENGTH),
            (pose / 20.0).astype(np.float32),
        )

    def _look_on(self) -> None:
        """Append the current observations to the stacks."""
        for frames, seen in zip(self._frames, self._look(), strict=True):
            frames[:, :-1] = frames[:, 1:]
            frames[:, -1] = seen

    def observe(self) -> Observations:
        """See the class's docstring."""
        return tuple(frames.reshape(self.agents, -1).copy() for frames in self._frames)


def _beside(place: Float64Array) -> BoolArray:
    """True for the places [n, 2] that are not above the platform."""
    x, z = place.T
    beside: BoolArray = (np.abs(x) > EDGE) | (z < BACK_EDGE) | (z > FRONT_EDGE)
    return beside
