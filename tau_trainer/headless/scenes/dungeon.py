"""ML-Agents' Dungeon Escape: three agents are locked up with a dragon, and one of them has to sacrifice itself.

A board of six by six cells, seen from above. If an agent meets the dragon, both die, and the dragon's key falls to the
floor. An agent that walks over the key picks it up. If it reaches the door with the key, the group is free: the group
gets +1, and the episode ends. The dragon walks to its hole, one cell every third decision; if it gets there, the group
has lost. Nothing else pays, so the agent that slays the dragon earns only the later reward of its group. The best
policy always escapes: 1.0. Agents 0 to 2 are the first group, 3 to 5 the second, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scene import Scene, numbers
from tau_trainer.headless.streams import AgentRandom
from tau_trainer.specs import (
    Actions,
    ActionSpec,
    BehaviorSpec,
    BoolArray,
    FloatArray,
    IndexArray,
    StepBatch,
    empty_terminals,
)

TEAM = 3
"""Agents in a group."""
SIZE = 6
"""Cells along each side."""
PACE = 3
"""Number of decisions for each step of the dragon."""
STAY, UP, DOWN, LEFT, RIGHT = range(5)
"""Actions."""
DOOR, HOLE = np.array([0, 2]), np.array([SIZE - 1, 0])
"""Row and column, from the top left. The dragon starts in the column farthest from its hole."""
WITH_DRAGON, ON_FLOOR = -2, -1
"""Values of :attr:`DungeonScene.key` if no agent has the key: the dragon has it, or it is on the floor."""

_MOVE = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])
_SPEC = BehaviorSpec("DungeonEscape?team=0", (numbers("VectorSensor_size19", 19),), ActionSpec(discrete_branches=(5,)))
_NOBODY = empty_terminals(_SPEC.observations)


class DungeonScene(Scene):
    """See the module's docstring.

    Observation, 19 floats. An offset is rows and columns as a share of the board, 0 if the thing is absent. In order:
    the agent's cell; the offset of the door; whether the dragon lives, and its offset; whether the key is on the floor,
    and its offset; whether the agent has the key; whether another agent has it; for each of the two others, whether it
    lives, and its offset; the share of the dragon's pause that has passed. Action, one branch: stay, up, down, left,
    right.

    Environment parameter: ``max_decisions``.
    """

    specs = (_SPEC,)

    def __init__(self, *, agents: int = 4 * TEAM, seed: int = 0, max_decisions: int = 100) -> None:
        self.agents, self.max_decisions = agents, max_decisions
        groups = -(-agents // TEAM)
        self._member: BoolArray = (np.arange(groups * TEAM) < agents).reshape(groups, TEAM)
        self.place = np.zeros((groups, TEAM, 2), np.intp)
        self.dragon = np.zeros((groups, 2), np.intp)
        self.key = np.zeros(groups, np.intp)
        """The agent of the group that has the key, or ``WITH_DRAGON`` or ``ON_FLOOR``; it lies at :attr:`dragon`."""
        self.alive = np.zeros((groups, TEAM), np.bool_)
        self.age = np.zeros(groups, np.intp)
        self._numbers = np.arange(groups * TEAM, dtype=np.int32).reshape(groups, TEAM)
        self.random = AgentRandom(seed, groups)

    def reset(self, parameters: EnvironmentParameters) -> list[StepBatch]:
        """See :meth:`Scene.reset`."""
        self.update(parameters)
        self._begin(np.arange(len(self.place)))
        return [self._everyone().some(self.alive.ravel(), _NOBODY)]

    def step(self, actions: Mapping[str, Actions]) -> list[StepBatch]:
        """See :meth:`Scene.step`."""
        self._walk(actions[_SPEC.name])
        here = self.alive & (self.place == self.dragon[:, None]).all(axis=2)
        met = here & (self.key == WITH_DRAGON)[:, None]
        # If several agents meet the dragon at once, only the first one dies.
        slayer = met & (np.cumsum(met, axis=1) == 1)
        self.alive &= ~slayer
        self.key[slayer.any(axis=1)] = ON_FLOOR
        there = here & ~slayer & (self.key == ON_FLOOR)[:, None]
        self.key = np.where(there.any(axis=1), there.argmax(axis=1), self.key)
        holder = np.arange(TEAM) == self.key[:, None]
        at_door = (self.place == DOOR).all(axis=2)
        free = (holder & self.alive & at_door).any(axis=1)
        escaped = (self.dragon == HOLE).all(axis=1)
        lost = (self.key == WITH_DRAGON) & escaped
        lost |= ~self.alive.any(axis=1)
        cut = ~free & ~lost & bool(self.max_decisions)
        cut &= self.age >= self.max_decisions
        over = free | lost | cut
        ends = self.alive & over[:, None]
        last = self._everyone(free[:, None])
        terminals = last.ended((slayer | ends).ravel(), (ends & cut[:, None]).ravel())
        self._begin(np.flatnonzero(over))
        return [self._everyone().some(self.alive.ravel(), terminals)]

    def _begin(self, index: IndexArray) -> None:
        """Start a new episode in the groups ``index``: agents in the half with the hole, the dragon in the other."""
        drawn = self.random.uniform(index, 2 * TEAM + 1)
        rows, columns = drawn[:TEAM] * SIZE, drawn[TEAM:-1] * (SIZE // 2)
        self.place[index] = np.stack((rows.T, columns.T), axis=2)
        self.dragon[index, 0] = drawn[-1] * SIZE
        self.dragon[index, 1] = SIZE - 1
        self.alive[index] = self._member[index]
        self.key[index] = WITH_DRAGON
        self.age[index] = 0

    def _walk(self, actions: Actions) -> None:
        """Move the agents and the dragon."""
        move = np.zeros(self.place.shape, np.intp)
        move[self.alive] = _MOVE.take(actions.discrete[:, 0], axis=0, mode="clip")
        self.place = np.clip(self.place + move, 0, SIZE - 1)
        self.age += 1
        walks = (self.key == WITH_DRAGON) & (self.age % PACE == 0)
        way = HOLE - self.dragon
        # The dragon walks along its row first, then along the column.
        first = np.where(way[:, 1:] != 0, [[0, 1]], [[1, 0]])
        self.dragon += walks[:, None] * first * np.sign(way)

    def _observe(self) -> FloatArray:
        """The observations: float32 [groups, TEAM, 19]."""
        groups, unit = len(self.place), 1.0 / (SIZE - 1)

        def seen(there: BoolArray, place: np.ndarray) -> list[np.ndarray]:
            """The flag ``there`` [groups, TEAM], and the offset of ``place`` [groups, TEAM, 2], 0 if not there."""
            return [there[..., None], there[..., None] * unit * (place - self.place)]

        everybody = np.ones((groups, TEAM), np.bool_)
        dragon, floor = (everybody & (self.key == state)[:, None] for state in (WITH_DRAGON, ON_FLOOR))
        has = np.arange(TEAM) == self.key[:, None]
        lair = self.dragon[:, None]
        parts = [self.place * unit, unit * (DOOR - self.place)]
        parts += [*seen(dragon, lair), *seen(floor, lair)]
        other_has = (self.key >= 0)[:, None] & ~has
        parts += [has[..., None], other_has[..., None]]
        for shift in range(1, TEAM):
            alive = np.roll(self.alive, shift, axis=1)
            parts += seen(alive, np.roll(self.place, shift, axis=1))
        walked = self.age % PACE / PACE
        parts.append(walked[:, None, None] * everybody[..., None])
        return np.concatenate(parts, axis=2, dtype=np.float32)

    def _everyone(self, group_reward: BoolArray | float = 0.0) -> StepBatch:
        """All agents, alive or not; ``group_reward`` [groups, TEAM], or less."""
        ids, seen = self._numbers.ravel(), self._observe().reshape(self.alive.size, -1)
        paid = np.broadcast_to(np.float32(group_reward), self.alive.shape).ravel()
        return StepBatch(_SPEC.name, ids, (seen,), np.zeros_like(paid), ids // TEAM + 1, paid, _NOBODY)
