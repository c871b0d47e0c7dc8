"""ML-Agents' Food Collector, with its grid sensor: five agents in one square collect good food and avoid bad food.

Good food pays +1, bad food -1; eaten food appears again elsewhere. An agent may fire a laser, which freezes the
nearest agent before it for four seconds. Nothing ends an episode but its length, 1,000 decisions. Areas are side by
side: agents 0 to 4 play in the first, 5 to 9 in the second, and so on.
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
"""Food in an area."""
HALF_WIDTH = 20.0
"""Half the side of an area, in metres."""
RADIUS = 0.5
"""Radius of agents and of food, in metres."""
FASTEST = 5.0
"""Maximum speed in metres per second."""
PUSH, KEPT = 10.0, 2.0 / 3.0
"""What a full push adds to the velocity in a decision, in m/s, and what is kept of it from one to the next: as in
Unity, where a third of a push is enough for the maximum speed, and an agent must brake before it turns round."""
KEPT_FIRING = 0.25
"""The kept share for a firing agent, whose push is half as strong."""
SECONDS = 0.1
"""Of a decision."""
TURN = float(np.deg2rad(30.0))
LASER_LENGTH, LASER_HALF_WIDTH = 25.0, 2.0
FROZEN_DECISIONS = 40
GRID = 40
"""Cells of one metre along each side of what an agent sees; it stands in the middle and looks up."""
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
"""Position of the absent agents of an incomplete area."""
_KINDS = np.repeat(np.array([FOOD, BAD_FOOD], np.uint8), (GOOD, BAD))
_ACROSS = np.arange(GRID) - (GRID - 1) / 2.0
"""Metres from the agent to the middle of each column, to the right."""


class FoodCollectorScene(LockstepScene):
    """See the module's text.

    Observations: the grid, uint8 [6, 40, 40], of whose channels exactly one is 255 in each cell (nothing, food, agent,
    wall, bad food, frozen agent), turned as the agent is; and 4 floats: velocity to the right and ahead in m/s, whether
    the agent is frozen, whether it fires. Actions, in [-1, 1]: ahead, to the right, turn left; one branch: fire or not.

    Environment parameter: ``max_decisions``.
    """

    def __init__(self, *, agents: int = TEAM, seed: int = 0, max_decisions: int = 1000) -> None:
        super().__init__((_SPEC,), agents, seed, max_decisions)
        self._areas = -(-agents // TEAM)
        self.place = np.full((self._areas, TEAM, 2), _FAR)
        self.food = np.zeros((self._areas, GOOD + BAD, 2))
        self._places = self.place.reshape(-1, 2)[:agents]  # a view: by agent
        self.heading = np.zeros(agents)
        self.frozen = np.zeros(agents, np.intp)
        """Decisions for which the agent stays frozen."""
        self._velocity = np.zeros((agents, 2))
        """Along x and z, m/s."""
        self._firing = np.zeros(agents, np.bool_)
        self._food_random = AgentRandom(-1 - seed, self._areas * (GOOD + BAD))
        self._area = np.arange(agents) // TEAM

    def seed(self, seed: int) -> None:
        """See :meth:`Scene.seed`."""
        super().seed(seed)
        self._food_random = AgentRandom(-1 - seed, self._areas * (GOOD + BAD))

    def reset(self, parameters: EnvironmentParameters) -> list[StepBatch]:
        """See :meth:`Scene.reset`. The food gets new places, which a new episode alone does not change."""
        self._appear(np.arange(self._areas * (GOOD + BAD)))
        return super().reset(parameters)

    def begin(self, index: IndexArray) -> None:
        """Anywhere, looking anywhere."""
        x, z, heading = self.random.uniform(index, 3)
        self._places[index] = (HALF_WIDTH - RADIUS) * (2.0 * np.stack([x, z], axis=1) - 1.0)
        self.heading[index] = 2.0 * np.pi * heading
        self.frozen[index] = 0
        self._velocity[index] = 0.0
        self._firing[index] = False

    def advance(self, actions: Actions) -> Played:
        """Walk, fire, eat."""
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
        """Freeze the nearest agent before each that fires, unless it is frozen already."""
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
        """Rewards of the agents; food in reach of several agents goes to the nearest."""
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
        """Put food, numbered through all areas, anywhere."""
        drawn = self._food_random.uniform(items, 2).T
        self.food.reshape(-1, 2)[items] = (HALF_WIDTH - RADIUS) * (2.0 * drawn - 1.0)

    def _seen_from(self, agent: IndexArray, places: Float64Array) -> tuple[Float64Array, Float64Array]:
        """How far ``places`` [k, m, 2] are to the right of the agents [k] and ahead of them: each [k, m]."""
        offset = places - self._places[agent][:, None]
        sine, cosine = np.sin(self.heading[agent])[:, None], np.cos(self.heading[agent])[:, None]
        return offset[..., 0] * cosine - offset[..., 1] * sine, offset[..., 0] * sine + offset[..., 1] * cosine

    def observe(self) -> Observations:
        """See the class's text."""
        grid = (self._cells()[:, None] == np.arange(6, dtype=np.uint8)[:, None, None]) * np.uint8(255)
        sine, cosine = np.sin(self.heading), np.cos(self.heading)
        x, z = self._velocity.T
        feelings = np.stack([x * cosine - z * sine, x * sine + z * cosine, self.frozen > 0, self._firing], axis=1)
        return grid, feelings.astype(np.float32)

    def _cells(self) -> NDArray[np.uint8]:
        """The channel of each cell that an agent sees: uint8 [n, 40, 40]; agents cover good food, that covers bad."""
        everyone = np.arange(self.agents)
        sine, cosine = np.sin(self.heading)[:, None, None], np.cos(self.heading)[:, None, None]
        across, along = _ACROSS, -_ACROSS[:, None]
        x = self._places[:, 0, None, None] + across * cosine + along * sine
        z = self._places[:, 1, None, None] - across * sine + along * cosine
        cells = np.where(np.maximum(np.abs(x), np.abs(z)) > HALF_WIDTH, np.uint8(WALL), np.uint8(NOTHING))
        others = self.place[self._area].copy()
        others[everyone, everyone % TEAM] = _FAR  # an agent does not see itself
        frozen = np.zeros(self._areas * TEAM, np.bool_)
        frozen[: self.agents] = self.frozen > 0
        kinds = np.where(frozen.reshape(-1, TEAM), np.uint8(FROZEN), np.uint8(AGENT))
        places = np.concatenate([self.food[self._area][:, ::-1], others], axis=1)  # the last one drawn stays
        kinds = np.concatenate([np.tile(_KINDS[::-1], (self.agents, 1)), kinds[self._area]], axis=1)
        right, ahead = self._seen_from(everyone, places)
        column, row = np.floor(right + GRID / 2), np.floor(GRID / 2 - ahead)
        agent, thing = np.nonzero((column >= 0) & (column < GRID) & (row >= 0) & (row < GRID))
        cells[agent, row[agent, thing].astype(np.intp), column[agent, thing].astype(np.intp)] = kinds[agent, thing]
        return cells
