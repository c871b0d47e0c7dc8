"""ML-Agents' Food Collector, with its grid sensor: five agents in one square collect good food and avoid bad food.

Good food pays +1, bad food -1. Eaten food reappears elsewhere. An agent can fire a laser, which freezes the nearest
agent in front of it for four seconds. An episode ends only after 1,000 decisions. Agents 0 to 4 play in the first area,
5 to 9 in the second, and so on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scene import LockstepScene, Played, numbers, picture
from tau_trainer.headless.scenes.rays import forward
from tau_trainer.headless.streams import AgentRandom
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, Float64Array, IndexArray, Observations, StepBatch

TEAM = 5
"""Agents in an area."""
GOOD = BAD = 25
"""Pieces of food of each kind in an area."""
HALF_WIDTH = 20.0
"""Half the width of an area, in metres."""
RADIUS = 0.5
"""Radius of agents and food, in metres."""
FASTEST = 5.0
"""Highest speed of an agent, in metres per second."""
PUSH, KEPT = 10.0, 2.0 / 3.0
"""Velocity that a full push adds in a decision, in m/s, and the share of the velocity that is kept in each decision.
As in Unity, a third of a push is enough for the highest speed, and an agent that turns round has to brake first."""
KEPT_FIRING = 0.25
"""The kept share for an agent that fires; its push is half as strong."""
SECONDS = 0.1
"""Duration of a decision."""
TURN = float(np.deg2rad(30.0))
LASER_LENGTH, LASER_HALF_WIDTH = 25.0, 2.0
FROZEN_DECISIONS = 40
GRID = 40
"""Number of cells along each side of an agent's grid. A cell is one metre; the agent is in the middle and looks up."""
NOTHING, FOOD, AGENT, WALL, BAD_FOOD, FROZEN = range(6)
"""Channels of the grid."""

_SPEC = BehaviorSpec(
    "GridFoodCollector?team=0",
    (
        picture("GridSensor", 6, GRID, GRID),
        numbers("VectorSensor_size4", 4),
    ),
    ActionSpec(continuous_size=3, discrete_branches=(2,)),
)
_FAR = 1e6
"""Position of the missing agents, if the last area has fewer agents than the others."""
_KINDS = np.repeat(np.array([FOOD, BAD_FOOD], np.uint8), (GOOD, BAD))
_ACROSS = np.arange(GRID) - (GRID - 1) / 2.0
"""Distance from the agent to the middle of each column, to the right, in metres."""


class FoodCollectorScene(LockstepScene):
    """See the module's docstring.

    Observations: the grid, uint8 [6, 40, 40], which turns with the agent; in each cell exactly one channel is 255
    (nothing, food, agent, wall, bad food, frozen agent). And 4 floats: velocity to the right and ahead in m/s, whether
    the agent is frozen, whether it fires. Actions: three numbers in [-1, 1] (ahead, to the right, turn left), and one
    branch (do not fire, fire).

    Environment parameter: ``max_decisions``.
    """

    def __init__(self, *, agents: int = TEAM, seed: int = 0, max_decisions: int = 1000) -> None:
        super().__init__((_SPEC,), agents, seed, max_decisions)
        self._areas = -(-agents // TEAM)
        self.place = np.full((self._areas, TEAM, 2), _FAR)
        self.food = np.zeros((self._areas, GOOD + BAD, 2))
        self._places = self.place.reshape(-1, 2)[:agents]  # a view, ordered by agent
        self.heading = np.zeros(agents)
        self.frozen = np.zeros(agents, np.intp)
        """Number of decisions for which the agent stays frozen."""
        self._velocity = np.zeros((agents, 2))
        """Velocity along x and z, in m/s."""
        self._firing = np.zeros(agents, np.bool_)
        self.seed(seed)
        self._area = np.arange(agents) // TEAM

    def seed(self, seed: int) -> None:
        """See :meth:`Scene.seed`."""
        super().seed(seed)
        self._food_random = AgentRandom(-1 - seed, self._areas * (GOOD + BAD))

    def reset(self, parameters: EnvironmentParameters) -> list[StepBatch]:
        """See :meth:`Scene.reset`. A reset places all food again; a new episode without a reset does not."""
        self._appear(np.arange(self._areas * (GOOD + BAD)))
        return super().reset(parameters)

    def begin(self, index: IndexArray) -> None:
        """Place the agents at random positions and headings."""
        x, z, heading = self.random.uniform(index, 3)
        self._places[index] = (HALF_WIDTH - RADIUS) * (2.0 * np.stack([x, z], axis=1) - 1.0)
        self.heading[index] = 2.0 * np.pi * heading
        self.frozen[index] = 0
        self._velocity[index] = 0.0
        self._firing[index] = False

    def advance(self, actions: Actions) -> Played:
        """Move the agents, fire their lasers, and pay for eaten food."""
        able = self.frozen == 0
        self.frozen[~able] -= 1
        ahead, right, left_turn = np.clip(actions.continuous.T.astype(np.float64), -1.0, 1.0) * able
        self._firing = able & (actions.discrete[:, 0] > 0)
        self.heading -= TURN * left_turn
        push = np.where(self._firing, 0.5 * PUSH, PUSH) / np.maximum(np.hypot(ahead, right), 1.0)
        side, front = forward(self.heading + np.pi / 2.0), forward(self.heading)
        self._velocity *= np.where(self._firing, KEPT_FIRING, KEPT)[:, None]
        self._velocity += (push * right)[:, None] * side + (push * ahead)[:, None] * front
        self._velocity *= (able * FASTEST / np.maximum(np.hypot(*self._velocity.T), FASTEST))[:, None]
        self._places += SECONDS * self._velocity
        np.clip(self._places, RADIUS - HALF_WIDTH, HALF_WIDTH - RADIUS, out=self._places)
        self._fire()
        return self._eat(), np.zeros(self.agents, np.bool_)

    def _fire(self) -> None:
        """Freeze the nearest agent in front of each firing agent, unless it is already frozen."""
        shooter = np.flatnonzero(self._firing)
        if not len(shooter):
            return
        across, along = self._seen_from(shooter, self.place[self._area[shooter]])
        hit = (along > 0.0) & (along <= LASER_LENGTH) & (np.abs(across) <= LASER_HALF_WIDTH)
        along = np.where(hit, along, np.inf)
        target = TEAM * self._area[shooter] + along.argmin(axis=1)
        target = target[hit.any(axis=1)]
        self.frozen[target[self.frozen[target] == 0]] = FROZEN_DECISIONS

    def _eat(self) -> NDArray[np.float32]:
        """The reward of each agent, float32 [agents]. Food in reach of several agents goes to the nearest one."""
        offset = self.food[:, :, None] - self.place[:, None]  # [areas, food, agents, 2]
        distance = np.hypot(offset[..., 0], offset[..., 1])
        area, item = np.nonzero(distance.min(axis=2) <= 2.0 * RADIUS)
        reward = np.zeros(self.agents, np.float32)
        if len(item):
            eater = TEAM * area + distance[area, item].argmin(axis=1)
            np.add.at(reward, eater, np.where(_KINDS[item] == FOOD, np.float32(1.0), np.float32(-1.0)))
            self._appear((GOOD + BAD) * area + item)
        return reward

    def _appear(self, items: IndexArray) -> None:
        """Place food at random positions; ``items`` are numbers over all areas."""
        drawn = self._food_random.uniform(items, 2).T
        self.food.reshape(-1, 2)[items] = (HALF_WIDTH - RADIUS) * (2.0 * drawn - 1.0)

    def _seen_from(self, agent: IndexArray, places: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Distances of ``places`` [k, m, 2] to the right of the agents [k] and ahead of them in metres: [k, m] each."""
        offset = places - self._places[agent][:, None]
        sine = np.sin(self.heading[agent])[:, None]
        cosine = np.cos(self.heading[agent])[:, None]
        return offset[..., 0] * cosine - offset[..., 1] * sine, offset[..., 0] * sine + offset[..., 1] * cosine

    def observe(self) -> Observations:
        """See the class's docstring."""
        grid = (self._cells()[:, None] == np.arange(6, dtype=np.uint8)[:, None, None]) * np.uint8(255)
        sine, cosine = np.sin(self.heading), np.cos(self.heading)
        x, z = self._velocity.T
        feelings = np.stack([x * cosine - z * sine, x * sine + z * cosine, self.frozen > 0, self._firing], axis=1)
        return grid, feelings.astype(np.float32)

    def _cells(self) -> NDArray[np.uint8]:
        """Channel of the thing in each cell of each agent's grid: uint8 [n, 40, 40]. Agents cover food."""
        everyone = np.arange(self.agents)
        sine = np.sin(self.heading)[:, None, None]
        cosine = np.cos(self.heading)[:, None, None]
        across, along = _ACROSS, -_ACROSS[:, None]
        x = self._places[:, 0, None, None] + across * cosine + along * sine
        z = self._places[:, 1, None, None] - across * sine + along * cosine
        cells = np.where(np.maximum(np.abs(x), np.abs(z)) > HALF_WIDTH, np.uint8(WALL), np.uint8(NOTHING))
        others = self.place[self._area].copy()
        others[everyone, everyone % TEAM] = _FAR  # an agent does not see itself
        frozen = np.zeros(self._areas * TEAM, np.bool_)
        frozen[: self.agents] = self.frozen > 0
        kinds = np.where(frozen.reshape(-1, TEAM), np.uint8(FROZEN), np.uint8(AGENT))
        places = np.concatenate([self.food[self._area][:, ::-1], others], axis=1)  # later things cover earlier ones
        kinds = np.concatenate([np.tile(_KINDS[::-1], (self.agents, 1)), kinds[self._area]], axis=1)
        right, ahead = self._seen_from(everyone, places)
        column, row = np.floor(right + GRID / 2), np.floor(GRID / 2 - ahead)
        agent, thing = np.nonzero((column >= 0) & (column < GRID) & (row >= 0) & (row < GRID))
        cells[agent, row[agent, thing].astype(np.intp), column[agent, thing].astype(np.intp)] = kinds[agent, thing]
        return cells
