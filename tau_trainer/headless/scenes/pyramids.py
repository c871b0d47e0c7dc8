"""A task like ML-Agents' Pyramids: random moves never find its reward.

Six rooms are in a row, each with one door to the next. The last room has a switch. An agent that steps on the switch
sets up a pyramid in the room before it; the pyramid's gold pays +2 and ends the episode. The positions of the switch,
the gold, and the agent (in the first room) are drawn for every episode.

Nothing else pays, and nothing shows the way: random moves pass a door once in about 125 decisions, press the switch in
less than one of a thousand episodes, and find the gold in none of 40,000. In Unity every decision has a cost. Here it
has none: with a cost, states that were never seen look better to a critic than known ones, and PPO finds the way
without curiosity.
"""

from __future__ import annotations

import numpy as np

from tau_trainer.headless.scene import LockstepScene, Played, numbers
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, IndexArray, Observations

ROOMS = 6
SIZE = 5
"""Number of cells of a room, along and across."""
DOORS = np.array([0, 4, 0, 4, 0])
"""Cell (across) of the door from each room to the next."""
GOLD_ROOM = 4
EPISODE = 300
GOLD_REWARD = 2.0
STAY, FORWARD, BACK, RIGHT, LEFT = range(5)
"""Actions; forward is the direction of the last room."""
SEEN = ROOMS + 2 + 4 * 3 + 1
"""Size of the observation."""

_SPEC = BehaviorSpec(
    "Pyramids?team=0",
    (numbers("VectorSensor", SEEN),),
    ActionSpec(discrete_branches=(5,)),
)
_AHEAD, _BEHIND = np.append(DOORS, 0), np.append(0, DOORS)
"""Cells of the doors of each room. The last value of ``_AHEAD`` and the first one of ``_BEHIND`` are not used."""
_ALONG = np.array([0, 1, -1, 0, 0])
_ACROSS = np.array([0, 0, 0, 1, -1])


class PyramidsScene(LockstepScene):
    """See the module's docstring.

    Observation, 21 floats: the room, one-hot; the position in it, across and along, from 0 to 1; for each of the door
    ahead, the door behind, the switch and the gold, whether the room has it, and its offset across and along, as shares
    of the room's size; whether the switch was pressed. Action, one branch: stay, forward, back, right, left, by one
    cell. Walls stop the agent.

    Environment parameter: ``max_decisions``.
    """

    def __init__(self, *, agents: int = 16, seed: int = 0, max_decisions: int = EPISODE) -> None:
        super().__init__((_SPEC,), agents, seed, max_decisions)
        self._room = np.zeros(agents, np.intp)
        self._place = np.zeros((agents, 2), np.intp)
        """Cell in the room, across and along."""
        self._switch = np.zeros((agents, 2), np.intp)
        self._gold = np.zeros((agents, 2), np.intp)
        self._pressed = np.zeros(agents, np.bool_)

    def begin(self, index: IndexArray) -> None:
        """Place agent, switch and gold at random in their rooms."""
        drawn = (self.random.uniform(index, 6) * SIZE).astype(np.intp).T  # [k, three cells]
        self._place[index], self._switch[index], self._gold[index] = np.split(drawn, 3, axis=1)
        self._room[index] = 0
        self._pressed[index] = False

    def advance(self, actions: Actions) -> Played:
        """Move the agents, through doors too; press the switch; end episodes that find the gold."""
        action = actions.discrete[:, 0]
        across = np.clip(self._place[:, 0] + _ACROSS.take(action, mode="clip"), 0, SIZE - 1)
        along = self._place[:, 1] + _ALONG.take(action, mode="clip")
        ahead = (along == SIZE) & (self._room < ROOMS - 1) & (_AHEAD[self._room] == across)
        behind = (along < 0) & (self._room > 0) & (_BEHIND[self._room] == across)
        self._room += ahead.astype(np.intp) - behind
        self._place[:, 0] = across
        self._place[:, 1] = np.where(ahead, 0, np.where(behind, SIZE - 1, np.clip(along, 0, SIZE - 1)))
        self._pressed |= (self._room == ROOMS - 1) & (self._place == self._switch).all(axis=1)
        over = self._pressed & (self._room == GOLD_ROOM) & (self._place == self._gold).all(axis=1)
        return np.where(over, np.float32(GOLD_REWARD), np.float32(0.0)), over

    def observe(self) -> Observations:
        """See the class's docstring."""
        seen = np.zeros((self.agents, SEEN), np.float32)
        seen[np.arange(self.agents), self._room] = 1.0
        seen[:, ROOMS : ROOMS + 2] = self._place / (SIZE - 1)
        first, last = self._room == 0, self._room == ROOMS - 1
        things = (
            (~last, np.stack((_AHEAD[self._room], np.full(self.agents, SIZE)), axis=1)),
            (~first, np.stack((_BEHIND[self._room], np.full(self.agents, -1)), axis=1)),
            (last, self._switch),
            ((self._room == GOLD_ROOM) & self._pressed, self._gold),
        )
        for thing, (there, where) in enumerate(things):
            column = ROOMS + 2 + 3 * thing
            seen[:, column] = there
            seen[:, column + 1 : column + 3] = (where - self._place) / SIZE * there[:, None]
        seen[:, -1] = self._pressed
        return (seen,)
