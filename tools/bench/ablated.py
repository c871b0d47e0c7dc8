"""The headless engine with scenes that keep something to themselves: what `scenes.py` shows to be needed is taken away.

    python -m tools.bench.ablated --scene gridworld --mlagents-port 5005    (any flag of the headless engine)

`gridworld`: the goal signal is always zero. `sorter`: the list of tiles is handed out as one vector, which no attention
reads.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tau_trainer.headless.main import main
from tau_trainer.headless.scenes import gridworld, sorter
from tau_trainer.headless.scenes.gridworld import GridWorldScene
from tau_trainer.headless.scenes.sorter import SorterScene
from tau_trainer.specs import DimensionProperty, Observations


class GridWorldWithoutGoal(GridWorldScene):
    """Nobody is told where to go; what there is to see keeps its shape."""

    def observe(self) -> Observations:
        """The board, and a goal that says nothing."""
        board, goal = super().observe()
        return board, np.zeros_like(goal)


class SorterOfVectors(SorterScene):
    """All tiles side by side, in the order of the list."""

    def __init__(self, *, agents: int = 16, seed: int = 0, max_decisions: int = 1000) -> None:
        super().__init__(agents=agents, seed=seed, max_decisions=max_decisions)
        tiles, own = self.specs[0].observations
        flat = replace(tiles, shape=(tiles.size,), dimension_property=(DimensionProperty.NONE,))
        self.specs = (replace(self.specs[0], observations=(flat, own)),)

    def observe(self) -> Observations:
        """Tiles [n, 460], and the 4 floats."""
        tiles, own = super().observe()
        return tiles.reshape(self.agents, -1), own


if __name__ == "__main__":
    gridworld.GridWorldScene = GridWorldWithoutGoal  # type: ignore[misc]
    sorter.SorterScene = SorterOfVectors  # type: ignore[misc]
    sys.exit(main())
