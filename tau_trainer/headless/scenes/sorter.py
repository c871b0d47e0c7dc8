"""ML-Agents' Sorter: visit the numbered tiles of a round room in ascending order.

Between 1 and ``num_tiles`` tiles with different numbers from 1 to 20 hang on the wall, in 20 places. Touching the
lowest unvisited tile pays +1; touching another unvisited tile pays -1 and ends the episode. The last tile ends the
episode too. Each decision costs 0.001 (0.0002 in each of Unity's five steps). Visited tiles do nothing. An episode is
truncated after 1,000 decisions.
"""

from __future__ import annotations

import numpy as np

from tau_trainer.errors import SettingsError
from tau_trainer.headless.scene import LockstepScene, Played, entities, numbers
from tau_trainer.headless.scenes.rays import forward
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, BoolArray, IndexArray, Observations

MOST_TILES = 20
"""Largest number of tiles in a room, highest number on a tile, and number of places on the wall."""
RADIUS = 10.0
"""Radius of the room, in metres."""
REACH = 1.0
"""Distance from the wall at which an agent touches a tile, in metres."""
TILE_DEGREES = 7.0
"""Half the width of a tile; a place on the wall has a half-width of 9 degrees."""
STRIDE = 1.0
TURN = float(np.deg2rad(20.0))
STEP_REWARD = -0.001
_SCALE = 20.0
"""Distance in metres that is 1 in the observations."""

_SPEC = BehaviorSpec(
    "Sorter?team=0",
    (
        entities("BufferSensor", MOST_TILES, MOST_TILES + 3),
        numbers("VectorSensor_size4", 4),
    ),
    ActionSpec(discrete_branches=(3, 3, 3)),
)
_BOTH_WAYS = np.array([0.0, 1.0, -1.0])


class SorterScene(LockstepScene):
    """See the module's docstring.

    Observations: a row for each tile, [20, 23], in an order without meaning: the number, one-hot; the tile's offset (x
    and z, 20 m are 1); whether it was visited. Absent tiles are rows of zeros. And 4 floats: position (x, z; 20 m are
    1) and heading (x, z). Action, three branches: nothing, forward, back; nothing, right, left (takes precedence over
    the first branch); nothing, turn left, turn right. A step is 1 m, a turn 20 degrees.

    Environment parameters: ``num_tiles``, the largest number of tiles, drawn for each episode; ``max_decisions``.
    """

    def __init__(self, *, agents: int = 16, seed: int = 0, max_decisions: int = 1000) -> None:
        super().__init__((_SPEC,), agents, seed, max_decisions)
        self._place = np.zeros((agents, 2))
        self._heading = np.zeros(agents)
        self._number = np.zeros((agents, MOST_TILES), np.intp)
        """Number of the tile in each row, from 0."""
        self._slot = np.zeros((agents, MOST_TILES), np.intp)
        """Place on the wall of the tile in each row, counted clockwise from straight ahead."""
        self._there = np.zeros((agents, MOST_TILES), np.bool_)
        self._visited = np.zeros((agents, MOST_TILES), np.bool_)
        self._one_hot = np.eye(MOST_TILES, dtype=np.float32)
        self._wall = RADIUS * forward(np.arange(MOST_TILES) * (2.0 * np.pi / MOST_TILES))

    def begin(self, index: IndexArray) -> None:
        """Place the agents in the middle, looking ahead, and draw new tiles.

        Raises SettingsError if ``num_tiles`` is out of range.
        """
        most = self.parameters.draw("num_tiles", 2.0, len(index)).astype(np.intp)
        wrong = most[(most < 1) | (most > MOST_TILES)]
        if len(wrong):
            raise SettingsError(f"Environment parameter `num_tiles` is {wrong[0]}; give 1 to {MOST_TILES}.")
        draw = self.random.uniform(index, 1 + 2 * MOST_TILES)
        count = 1 + (draw[0] * most).astype(np.intp)
        self._there[index] = np.arange(MOST_TILES) < count[:, None]
        self._number[index] = draw[1 : 1 + MOST_TILES].argsort(axis=0).T
        self._slot[index] = draw[1 + MOST_TILES :].argsort(axis=0).T
        self._visited[index] = False
        self._place[index] = 0.0
        self._heading[index] = 0.0

    def advance(self, actions: Actions) -> Played:
        """Move and turn the agents; pay for touched tiles."""
        ahead, aside, turn = (_BOTH_WAYS.take(branch, mode="clip") for branch in actions.discrete.T)
        sideways = aside != 0.0
        course = self._heading + np.where(sideways, np.pi / 2.0, 0.0)
        self._place += STRIDE * np.where(sideways, aside, ahead)[:, None] * forward(course)
        self._heading -= TURN * turn
        away = np.hypot(*self._place.T)
        at_wall = away >= RADIUS - REACH
        self._place *= np.minimum(1.0, (RADIUS - REACH) / np.maximum(away, RADIUS - REACH))[:, None]
        open_tiles = self._there & ~self._visited
        touched = open_tiles & (self._slot == self._slot_at(at_wall)[:, None])
        wanted = open_tiles & (self._number == np.where(open_tiles, self._number, MOST_TILES).min(axis=1)[:, None])
        right, wrong = (touched & wanted).any(axis=1), (touched & ~wanted).any(axis=1)
        self._visited |= touched & wanted
        over: BoolArray = wrong | (self._visited == self._there).all(axis=1)
        return (STEP_REWARD + right - wrong).astype(np.float32), over

    def _slot_at(self, at_wall: BoolArray) -> IndexArray:
        """The place on the wall that each agent touches; -1 if it touches none."""
        turns = np.arctan2(self._place[:, 0], self._place[:, 1]) * (MOST_TILES / (2.0 * np.pi))
        slot = np.rint(turns)
        near = at_wall & (np.abs(turns - slot) <= TILE_DEGREES * MOST_TILES / 360.0)
        return np.where(near, slot.astype(np.intp) % MOST_TILES, -1)

    def observe(self) -> Observations:
        """See the class's docstring."""
        tiles = np.empty((self.agents, MOST_TILES, MOST_TILES + 3), np.float32)
        tiles[..., :MOST_TILES] = self._one_hot[self._number]
        tiles[..., MOST_TILES:-1] = (self._wall[self._slot] - self._place[:, None]) / _SCALE
        tiles[..., -1] = self._visited
        tiles *= self._there[..., None]
        pose = np.concatenate([self._place / _SCALE, forward(self._heading)], axis=1)
        return tiles, pose.astype(np.float32)
