"""ML-Agents' Basic: a line of 20 cells with a small goal near the start and a large one further away.

The agent starts in cell 10. Cell 7 pays +0.1, cell 17 pays +1.0, and both end the episode; every step costs 0.01. The
best policy goes right seven times: 1.0 - 7 * 0.01 = 0.93. In Unity, an agent that stays never ends its episode. Here an
episode is truncated after ``max_decisions``, so that you can also evaluate an untrained deterministic policy.
"""

from __future__ import annotations

import numpy as np

from tau_trainer.headless.scene import LockstepScene, Played, numbers
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, IndexArray, Observations

CELLS = 20
START = 10
SMALL_GOAL = 7
LARGE_GOAL = 17
STEP_REWARD = -0.01
SMALL_REWARD = 0.1
LARGE_REWARD = 1.0

_SPEC = BehaviorSpec(
    "Basic?team=0",
    (numbers("Basic", CELLS),),
    ActionSpec(discrete_branches=(3,)),
)
_DIRECTION = np.array([0, -1, 1])


class BasicScene(LockstepScene):
    """See the module's docstring. Observation: the cell, one-hot, 20 floats. Action, one branch: stay, left, right.

    Environment parameter: ``max_decisions``.
    """

    def __init__(self, *, agents: int = 1, seed: int = 0, max_decisions: int = 200) -> None:
        super().__init__((_SPEC,), agents, seed, max_decisions)
        self._cell = np.full(agents, START)
        self._one_hot = np.eye(CELLS, dtype=np.float32)
        self._pay = np.full(CELLS, STEP_REWARD)
        self._pay[SMALL_GOAL] += SMALL_REWARD
        self._pay[LARGE_GOAL] += LARGE_REWARD
        self._pay = self._pay.astype(np.float32)
        self._goal = np.zeros(CELLS, np.bool_)
        self._goal[[SMALL_GOAL, LARGE_GOAL]] = True

    def begin(self, index: IndexArray) -> None:
        """Put the agents back to the start."""
        self._cell[index] = START

    def advance(self, actions: Actions) -> Played:
        """Move the agents and pay them; end episodes that reach a goal."""
        direction = _DIRECTION.take(actions.discrete[:, 0], mode="clip")
        self._cell = np.clip(self._cell + direction, 0, CELLS - 1)
        return self._pay[self._cell], self._goal[self._cell]

    def observe(self) -> Observations:
        """See the class's docstring."""
        return (self._one_hot[self._cell],)
