"""Named arrays over the same rows: how everything that is kept by row is declared, written and grown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tau_trainer.specs import ActionSpec, BehaviorSpec, IndexArray

Arrays = Mapping[str, NDArray[Any]]
"""Arrays by name, [n, ...] where they belong to ``n`` agents."""
Rows = IndexArray
"""Row numbers: small consecutive integers, one for each agent or record."""


@dataclass(frozen=True, slots=True)
class Column:
    """One array of a table: ``[rows, *shape]`` of ``dtype``."""

    name: str
    shape: tuple[int, ...] = ()
    dtype: DTypeLike = np.float32
    fill: float = 0
    """What rows hold that were never written."""

    @property
    def size(self) -> int:
        """Bytes of a row."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def empty(self, rows: int) -> NDArray[Any]:
        """An array of ``rows`` rows that hold ``fill``. Untouched rows of zeros take no memory."""
        shape = (rows, *self.shape)
        return np.full(shape, self.fill, self.dtype) if self.fill else np.zeros(shape, self.dtype)


class ColumnTable:
    """Columns that grow together. ``table[name]`` is the whole array: read it anew after every growth."""

    def __init__(self, columns: Iterable[Column], rows: int = 0) -> None:
        self.columns = tuple(columns)
        self._arrays = {column.name: column.empty(rows) for column in self.columns}
        self._rows = rows
        self._fitted: NDArray[np.integer[Any]] | None = None

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._arrays[name]

    def __len__(self) -> int:
        """Rows that there is room for."""
        return self._rows

    def reserve(self, rows: int) -> None:
        """Make room for so many rows, at least twice as many as before, so that growing row by row stays cheap."""
        if rows <= self._rows:
            return
        target = max(rows, 2 * self._rows)
        for column in self.columns:
            larger = column.empty(target)
            larger[: self._rows] = self._arrays[column.name]
            self._arrays[column.name] = larger
        self._rows = target

    def fit(self, rows: NDArray[np.integer[Any]]) -> None:
        """Make room for the largest of these row numbers. Nobody may write to ``rows`` afterwards."""
        if rows is not self._fitted and len(rows):  # most steps bring the same array
            self.reserve(int(rows.max()) + 1)
            self._fitted = rows

    def clear(self, rows: NDArray[np.integer[Any]] | slice = slice(None)) -> None:
        """Give these rows (all by default) their columns' ``fill`` again."""
        if isinstance(rows, np.ndarray):
            self.fit(rows)
        for column in self.columns:
            self._arrays[column.name][rows] = column.fill


def observation_columns(spec: BehaviorSpec) -> tuple[Column, ...]:
    """``obs_0``, ``obs_1``, ...: one for each sensor, in the sensor's own dtype."""
    return tuple(Column(f"obs_{i}", sensor.shape, sensor.dtype) for i, sensor in enumerate(spec.observations))


MOMENT = Column("moment", (), np.int64)
"""The message by which an agent decided: the same for all agents of one behavior in one environment that decided
together, for nobody else, and growing."""
GROUP = Column("group", (), np.int32)
"""The agent's group, by the number that its environment gives it; 0: none. Environments count for themselves."""
TEAM = Column("team", (), np.int32)
"""What follows ``?team=`` in the name of the agent's behavior: several teams may feed one learner."""
KNOWN = (MOMENT, GROUP, TEAM)
"""What a message says beside rewards and observations; a memory keeps those of them that are among its columns."""


def action_columns(spec: BehaviorSpec, choices: ActionSpec) -> tuple[Column, ...]:
    """``continuous`` (raw sample) and ``discrete`` of what is drawn, and the behavior's ``mask`` (True = forbidden)."""
    return (
        Column("continuous", (choices.continuous_size,)),
        Column("discrete", (choices.discrete_size,), np.int32),
        Column("mask", (spec.actions.mask_size,), np.bool_),
    )
