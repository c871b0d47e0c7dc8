"""What whoever takes experience in has in common, whether it learns here or elsewhere."""

from __future__ import annotations

import numpy as np

from tau_trainer.algorithms import Algorithm
from tau_trainer.columns import Rows
from tau_trainer.memory import Memory


class Sink:
    """The collecting side of an algorithm: its memory, and rows in it for agents.

    Attributes:
        algorithm: the instance that collects.
        memory: where experience waits.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self.memory: Memory = algorithm.memory
        self._rows = 0

    def new_rows(self, count: int) -> Rows:
        """Rows in the memory for ``count`` agents more."""
        rows = np.arange(self._rows, self._rows + count)
        self._rows += count
        return rows
