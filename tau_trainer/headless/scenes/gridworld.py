"""ML-Agents' GridWorld: walk to the plus or the cross, as the goal signal says, on a board seen from above.

Five by five cells, with the agent, a plus and a cross in different cells. The correct symbol pays +1, the wrong one -1,
and both end the episode; every other step costs 0.01. Moves into a wall are masked, and do nothing. An episode is
truncated after 100 decisions. The best policy walks straight to the symbol: 0.977 on average.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tau_trainer.headless.scene import LockstepScene, Played, numbers, picture
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, BoolArray, IndexArray, Observations, ObservationType

SIZE = 5
"""Cells along each side."""
STEP_REWARD = -0.01
HEIGHT, WIDTH, CELL = 64, 84, 12
"""Size of the image in pixels, as in Unity's camera texture, and of a cell."""
_BOARD = [slice((side - SIZE * CELL) // 2, (side + SIZE * CELL) // 2) for side in (HEIGHT, WIDTH)]
"""Rows and columns of the image that show the board, which is in its middle."""
STAY, UP, DOWN, LEFT, RIGHT = range(5)
"""Actions."""

_SPEC = BehaviorSpec(
    "GridWorld?team=0",
    (
        picture("RenderTextureSensor", 3, HEIGHT, WIDTH),
        numbers("VectorSensor_size2_GoalSignal", 2, ObservationType.GOAL_SIGNAL),
    ),
    ActionSpec(discrete_branches=(5,)),
)
_MOVE = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])
"""Rows and columns, from the top left."""
_WALL = (90, 90, 90)
_FLOOR = (220, 220, 220)
_PLUS = (30, 170, 60)
_CROSS = (200, 40, 40)
_AGENT = (40, 80, 220)


class GridWorldScene(LockstepScene):
    """See the module's docstring.

    Observations: the board as an image, uint8 [3, 64, 84]; the goal signal, one-hot: plus, cross. Action, one branch:
    stay, up, down, left, right.

    Environment parameter: ``max_decisions``.
    """

    def __init__(self, *, agents: int = 9, seed: int = 0, max_decisions: int = 100) -> None:
        super().__init__((_SPEC,), agents, seed, max_decisions)
        self._cells = np.zeros((3, agents, 2), np.intp)
        """Row and column of plus, cross and agent."""
        self._goal = np.zeros(agents, np.intp)
        self._one_hot = np.eye(2, dtype=np.float32)
        self._empty, self._sprites = _empty_board(), _sprites()

    def begin(self, index: IndexArray) -> None:
        """Draw three different cells, and a goal."""
        draw = self.random.uniform(index, 4)
        first, second, third = (draw[:3] * (SIZE**2 - np.arange(3))[:, None]).astype(np.intp)
        second += second >= first
        third += third >= np.minimum(first, second)
        third += third >= np.maximum(first, second)
        self._cells[:, index] = np.stack(np.divmod([first, second, third], SIZE), axis=-1)
        self._goal[index] = draw[3] >= 0.5

    def advance(self, actions: Actions) -> Played:
        """Move the agents; end episodes on a plus or a cross."""
        agent = self._cells[2]
        agent[:] = np.clip(agent + _MOVE.take(actions.discrete[:, 0], axis=0, mode="clip"), 0, SIZE - 1)
        on_plus, on_cross = (self._cells[:2] == agent).all(axis=2)
        over: BoolArray = on_plus | on_cross
        right = np.where(self._goal == 0, on_plus, on_cross)
        return np.where(over, np.where(right, 1.0, -1.0), STEP_REWARD).astype(np.float32), over

    def mask(self) -> BoolArray:
        """Mask moves into a wall."""
        row, column = self._cells[2].T
        free = np.zeros(self.agents, np.bool_)
        return np.stack([free, row == 0, row == SIZE - 1, column == 0, column == SIZE - 1], axis=1)

    def observe(self) -> Observations:
        """See the class's docstring."""
        picture = np.repeat(self._empty[None], self.agents, axis=0)
        board = picture[:, :, *_BOARD]
        board = board.reshape(self.agents, 3, SIZE, CELL, SIZE, CELL).transpose(0, 2, 4, 1, 3, 5)  # a view
        everyone = np.arange(self.agents)
        for (row, column), sprite in zip(self._cells.transpose(0, 2, 1), self._sprites, strict=True):
            board[everyone, row, column] = sprite
        return picture, self._one_hot[self._goal]


def _empty_board() -> NDArray[np.uint8]:
    """The board with only floor and walls: uint8 [3, 64, 84]."""
    picture = np.empty((3, HEIGHT, WIDTH), np.uint8)
    picture[:] = np.array(_WALL, np.uint8)[:, None, None]
    picture[:, *_BOARD] = np.array(_FLOOR, np.uint8)[:, None, None]
    return picture


def _sprites() -> NDArray[np.uint8]:
    """Plus, cross and agent on the floor: uint8 [3, 3, 12, 12]."""
    across, down = np.meshgrid(np.arange(CELL) - (CELL - 1) / 2, np.arange(CELL) - (CELL - 1) / 2)
    inside = np.maximum(np.abs(across), np.abs(down)) < CELL / 2 - 1
    plus = inside & (np.minimum(np.abs(across), np.abs(down)) < 2.0)
    cross = inside & (np.minimum(np.abs(across - down), np.abs(across + down)) < 2.5)
    sprites = np.empty((3, 3, CELL, CELL), np.uint8)
    for sprite, shape, colour in zip(sprites, (plus, cross, inside), (_PLUS, _CROSS, _AGENT), strict=True):
        for channel, floor, value in zip(sprite, _FLOOR, colour, strict=True):
            channel[:] = np.where(shape, value, floor)
    return sprites
