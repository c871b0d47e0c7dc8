"""Named arrays that share the same rows: how per-agent and per-record data is declared, written and grown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tau_trainer.specs import ActionSpec, BehaviorSpec, IndexArray

Value = TypeVar("Value")
Arrays = Mapping[str, NDArray[Any]]
"""Arrays by name; [n, ...] if they hold data of ``n`` agents."""
Rows = IndexArray
"""Row numbers: small consecutive integers, one for each agent or record."""


@dataclass(frozen=True, slots=True)
class Column:
    """One array of a table: ``[rows, *shape]`` of ``dtype``."""

    name: str
    shape: tuple[int, ...] = ()
    dtype: DTypeLike = np.float32
    fill: float = 0
    """Value of rows that were never written."""

    @property
    def size(self) -> int:
        """Size of one row in bytes."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def empty(self, rows: int) -> NDArray[Any]:
        """A new array of ``rows`` rows filled with ``fill``. Rows of zeros take no memory until they are written."""
        shape = (rows, *self.shape)
        return np.full(shape, self.fill, self.dtype) if self.fill else np.zeros(shape, self.dtype)


class ColumnTable:
    """Columns that grow together. ``table[name]`` is the whole array: growing replaces it, so look it up again."""

    def __init__(self, columns: Iterable[Column], rows: int = 0) -> None:
        self.columns = tuple(columns)
        self._arrays = {column.name: column.empty(rows) for column in self.columns}
        self._rows = rows
        self._fitted: NDArray[np.integer[Any]] | None = None

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._arrays[name]

    def __len__(self) -> int:
        """Number of rows that fit without growing."""
        return self._rows

    def reserve(self, rows: int) -> None:
        """Make room for ``rows`` rows. The size at least doubles each time, so growing row by row stays cheap."""
        if rows <= self._rows:
            return
        target = max(rows, 2 * self._rows)
        for column in self.columns:
            larger = column.empty(target)
            larger[: self._rows] = self._arrays[column.name]
            self._arrays[column.name] = larger
        self._rows = target

    def fit(self, rows: NDArray[np.integer[Any]]) -> None:
        """Make room for the largest of these row numbers. Do not change ``rows`` afterwards."""
        if rows is not self._fitted and len(rows):  # most steps pass the same array
            self.reserve(int(rows.max()) + 1)
            self._fitted = rows

    def clear(self, rows: NDArray[np.integer[Any]] | slice = slice(None)) -> None:
        """Reset these rows to their columns' ``fill``. Default: all rows."""
        if isinstance(rows, np.ndarray):
            self.fit(rows)
        for column in self.columns:
            self._arrays[column.name][rows] = column.fill


def observation_columns(spec: BehaviorSpec) -> tuple[Column, ...]:
    """Columns ``obs_0``, ``obs_1``, ...: one for each sensor, in the sensor's dtype."""
    return tuple(Column(f"obs_{i}", sensor.shape, sensor.dtype) for i, sensor in enumerate(spec.observations))


MOMENT = Column("moment", (), np.int64)
"""Number of the message in which an agent decided. All agents of one behavior in one environment that decide together
share it, and no other agents do. It only grows."""
GROUP = Column("group", (), np.int32)
"""The agent's group, numbered by its environment; 0: none. Each environment has its own numbering."""
TEAM = Column("team", (), np.int32)
"""The number after ``?team=`` in the name of the agent's behavior: several teams can feed one learner."""
EXTRINSIC = "extrinsic"
"""The reward stream that the engine or the AgentTrainer pays."""
KNOWN = (MOMENT, GROUP, TEAM)
"""Data in a message in addition to rewards and observations; a memory stores those that it has columns for."""


def action_columns(spec: BehaviorSpec, choices: ActionSpec) -> tuple[Column, ...]:
    """Columns for sampled actions: ``continuous`` (raw sample), ``discrete``, and ``mask`` (True = forbidden)."""
    return (
        Column("continuous", (choices.continuous_size,)),
        Column("discrete", (choices.discrete_size,), np.int32),
        Column("mask", (spec.actions.mask_size,), np.bool_),
    )


def prefixed(prefix: str, values: Mapping[str, Value]) -> dict[str, Value]:
    """The values under names that start with a prefix."""
    return {prefix + name: value for name, value in values.items()}


def unprefixed(prefix: str, values: Mapping[str, Value]) -> dict[str, Value]:
    """The values whose names start with a prefix, under names without it."""
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
