"""A task like ML-Agents' Hallway: see a symbol, walk on, and choose the goal with the same symbol.

A gate with a symbol, O or X, closes the first room. It moves an agent that walks through it to the middle of the
corridor behind it, looking ahead; the gate shows no symbol from there. At the far end are two goals, one with O and one
with X; their sides are drawn for each episode. The goal with the gate's symbol pays +1, the other -0.1, and both end
the episode. Every other decision costs 0.005: -1 in total for a whole episode of 200, as in Unity.

In Unity, a policy can encode the symbol in the position at which it walks. Here all agents have the same position
behind the gate, and nothing after it depends on the symbol, so the agent needs memory. A script with memory earns 0.95
on average, in 11 decisions; without memory, the best possible average is 0.45, the mean of both goals. Rays are not
stacked, because stacked observations are a memory too.
"""

from __future__ import annotations

import numpy as np

from tau_trainer.headless.scene import LockstepScene, Played, numbers
from tau_trainer.headless.scenes.rays import distances, fan, forward, ray_values
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, BoolArray, IndexArray, Observations

HALF_WIDTH = 3.0
GATE = 5.0
"""Position of the gate along z, in metres. The first room is between z = 0 and the gate, the corridor behind it."""
END = 11.0
RADIUS = 0.5
"""Radius of the agent, in metres."""
MIDDLE = 1.0
"""Half the width of the bare part of the end wall, in metres; the goals are on both sides of it."""
STRIDE = 1.0
TURN = float(np.deg2rad(30.0))
EPISODE = 200
STEP_REWARD = -1.0 / EPISODE
RIGHT_REWARD = 1.0
WRONG_REWARD = -0.1
STAY, FORWARD, BACK, TURN_RIGHT, TURN_LEFT = range(5)
"""Actions."""
RAYS = 5
LENGTH = 20.0
TAGS = ("symbol_O_Goal", "symbol_X_Goal", "symbol_O", "symbol_X")

_SPEC = BehaviorSpec(
    "Hallway?team=0",
    (numbers("RayPerceptionSensor", RAYS * (len(TAGS) + 2)),),
    ActionSpec(discrete_branches=(5,)),
)
_FAN = fan(RAYS // 2, 70.0)
_STRIDE = np.array([0.0, STRIDE, -STRIDE, 0.0, 0.0])
_TURN = np.array([0.0, 0.0, 0.0, TURN, -TURN])


class HallwayScene(LockstepScene):
    """See the module's docstring.

    Observation, 30 floats: five rays, ahead and at 35 and 70 degrees to both sides, each with six values: O goal, X
    goal, O, X, nothing hit, distance. A wall is a hit without a tag. Action, one branch: stay, forward, back, turn
    right, turn left (by 1 m or 30 degrees).

    Environment parameter: ``max_decisions``.
    """

    def __init__(self, *, agents: int = 16, seed: int = 0, max_decisions: int = EPISODE) -> None:
        super().__init__((_SPEC,), agents, seed, max_decisions)
        self._place = np.zeros((agents, 2))
        self._heading = np.zeros(agents)
        self._through = np.zeros(agents, np.bool_)
        self._symbol = np.zeros(agents, np.intp)
        self._left = np.zeros(agents, np.intp)
        """The symbol on the left goal; the right goal has the other one."""

    def begin(self, index: IndexArray) -> None:
        """Place the agents at random at the near end of the room, looking roughly ahead."""
        x, z, heading, symbol, left = self.random.uniform(index, 5)
        self._place[index, 0] = 3.0 * x - 1.5
        self._place[index, 1] = 1.0 + z
        self._heading[index] = (2.0 * heading - 1.0) * TURN
        self._through[index] = False
        self._symbol[index] = symbol >= 0.5
        self._left[index] = left >= 0.5

    def advance(self, actions: Actions) -> Played:
        """Turn or move the agents, through the gate too; end episodes at a goal."""
        action = actions.discrete[:, 0]
        self._heading += _TURN.take(action, mode="clip")
        place = self._place + _STRIDE.take(action, mode="clip")[:, None] * forward(self._heading)
        near = np.where(self._through, GATE, 0.0) + RADIUS
        far = np.where(self._through, END, GATE) - RADIUS
        at_far = place[:, 1] >= far
        self._place[:, 0] = np.clip(place[:, 0], RADIUS - HALF_WIDTH, HALF_WIDTH - RADIUS)
        self._place[:, 1] = np.clip(place[:, 1], near, far)
        over: BoolArray = at_far & self._through & (np.abs(self._place[:, 0]) >= MIDDLE)
        touched = np.where(self._place[:, 0] < 0.0, self._left, 1 - self._left)
        reward = np.where(over, np.where(touched == self._symbol, RIGHT_REWARD, WRONG_REWARD), STEP_REWARD)
        passing = at_far & ~self._through
        self._place[passing] = (0.0, GATE + RADIUS)
        self._heading[passing] = 0.0
        self._through |= passing
        return reward.astype(np.float32), over

    def observe(self) -> Observations:
        """See the class's docstring."""
        near = np.where(self._through, GATE, 0.0)
        far = np.where(self._through, END, GATE)
        low, high = np.empty((2, self.agents, 6, 2))
        # Two side walls, the near wall, and the far one in three parts.
        low[:, :, 1] = near[:, None]
        high[:, :, 1] = far[:, None]
        low[:, :, 0] = -HALF_WIDTH - 1.0, HALF_WIDTH, -HALF_WIDTH, -HALF_WIDTH, -MIDDLE, MIDDLE
        high[:, :, 0] = -HALF_WIDTH, HALF_WIDTH + 1.0, HALF_WIDTH, -MIDDLE, MIDDLE, HALF_WIDTH
        low[:, 2, 1], high[:, 2, 1] = near - 1.0, near
        low[:, 3:, 1], high[:, 3:, 1] = far[:, None], far[:, None] + 1.0
        tag = np.full((self.agents, 6), -1)
        tag[:, 3] = np.where(self._through, self._left, 2 + self._symbol)
        tag[:, 4] = np.where(self._through, -1, 2 + self._symbol)
        tag[:, 5] = np.where(self._through, 1 - self._left, 2 + self._symbol)
        direction = forward(self._heading[:, None] + _FAN)
        return (ray_values(distances(self._place, direction, low, high), tag, len(TAGS), LENGTH),)
