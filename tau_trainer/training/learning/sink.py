"""The collecting side that all receivers of experience share, whether they learn in this process or send it on."""

from __future__ import annotations

import numpy as np

from tau_trainer.algorithms import Algorithm
from tau_trainer.columns import Rows
from tau_trainer.memory import Memory


class Sink:
    """The collecting side of an algorithm: its memory, and rows in it for agents.

    Attributes:
        algorithm: the instance that collects.
        memory: holds the experience.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self.memory: Memory = algorithm.memory
        self._rows = 0

    def new_rows(self, count: int) -> Rows:
        """Rows in the memory for ``count`` more agents."""
        rows = np.arange(self._rows, self._rows + count)
        self._rows += count
        return rows
