"""Experience that is learned from many times: the newest rows, drawn at random.

What agents do is collected and closed by :class:`~tau_trainer.memory.rollout.RolloutMemory`, as for every algorithm.
The learning side moves the transitions that come out of it in here, so only these ever travel to another process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import Arrays, Column, ColumnTable, Rows


class Replay:
    """A ring of rows: once it is full, every new one takes the place of the oldest.

    Rows have *places*, 0 to ``len - 1``, in no particular order of time. A column has the type that was declared, so
    images stay bytes. Room that was never written takes no memory.

    Args:
        columns: what a row consists of.
        capacity: rows that are kept.
    """

    def __init__(self, columns: Sequence[Column], capacity: int) -> None:
        self.columns = tuple(columns)
        self.capacity = capacity
        self._table = ColumnTable(columns, capacity)
        self._size = 0
        self._next = 0

    def __len__(self) -> int:
        """Rows that it holds."""
        return self._size

    def append(self, values: Arrays) -> Callable[[], None]:
        """Add ``n`` rows, ``[n, *shape]`` for every column; of more than fit, the last ones.

        Returns:
            What takes these rows out again and puts the overwritten ones back, until the next rows are added.
        """
        count = len(values[self.columns[0].name])
        kept = min(count, self.capacity)
        places = (self._next + np.arange(kept)) % self.capacity
        before = self._size, self._next, self.take(places[places < self._size])
        for column in self.columns:
            self._table[column.name][places] = values[column.name][count - kept :]
        self._size = min(self._size + kept, self.capacity)
        self._next = (self._next + kept) % self.capacity

        def undo() -> None:
            self._size, self._next, overwritten = before
            for name, rows in overwritten.items():
                self._table[name][places[places < self._size]] = rows

        return undo

    def take(self, places: Rows) -> dict[str, NDArray[Any]]:
        """Copies of the rows in ``places`` [n]: ``[n, *shape]`` for every column."""
        return {column.name: self._table[column.name].take(places, axis=0) for column in self.columns}

    def state(self) -> tuple[dict[str, NDArray[Any]], int]:
        """Every column as it is (views), and the place that the next row takes."""
        return {column.name: self._table[column.name][: self._size] for column in self.columns}, self._next

    def load(self, arrays: Arrays, following: int) -> None:
        """Go on from :meth:`state`: places, and so what a draw means, are as they were.

        Raises:
            ValueError: an array is missing, has another shape, or the ring had another capacity.
        """
        sizes = {len(arrays[column.name]) for column in self.columns if column.name in arrays}
        wrong = [
            column.name
            for column in self.columns
            if column.name not in arrays or arrays[column.name].shape[1:] != column.shape
        ]
        size = min(sizes, default=0)
        fits = size <= self.capacity and (following == size if size < self.capacity else 0 <= following < size)
        if wrong or len(sizes) > 1 or not fits:
            what = f"its columns {wrong} do not fit" if wrong else f"{sizes} rows do not fit {self.capacity:,}"
            raise ValueError(f"the replay memory cannot be read: {what}")
        for column in self.columns:
            self._table[column.name][:size] = arrays[column.name]
        self._size, self._next = size, following

    def clear(self) -> None:
        """Forget every row."""
        self._size = self._next = 0
