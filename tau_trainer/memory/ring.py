"""Replay that stays on the device: a ring of rows, drawn uniformly and with replacement.

Only the device knows the number of its rows, because unusable rows are left out: so neither :meth:`Ring.append` nor
:meth:`Ring.draw` waits for the device. The ring of arrays, which links rows to their next ones, is
:class:`~tau_trainer.memory.replay.Replay`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import Arrays, Column

if TYPE_CHECKING:
    import torch

_WRITTEN = "written"


class Ring:
    """Named columns over the newest ``capacity`` rows.

    Args:
        columns: columns of a row.
        capacity: number of rows.
        device: device of the columns.
    """

    def __init__(self, columns: Sequence[Column], capacity: int, device: torch.device) -> None:
        import torch

        self.capacity = capacity
        # Rows that are not kept go to a spare row after the last.
        self._columns = {column.name: torch.from_numpy(column.empty(capacity + 1)).to(device) for column in columns}
        self._written = torch.zeros((), dtype=torch.int64, device=device)
        """int64 []: number of rows taken in so far, including overwritten ones."""

    @property
    def size(self) -> torch.Tensor:
        """int64 []: number of rows held."""
        return self._written.clamp(max=self.capacity)

    def append(self, rows: Mapping[str, torch.Tensor], kept: torch.Tensor) -> Callable[[], None]:
        """Take in those of ``n`` rows [n, ...] of every column that are ``kept`` (bool [n]), over the oldest.

        Returns:
            A function that removes them again and restores the overwritten ones, until the next rows are added.
        """
        rank = kept.cumsum(0)  # int64 [n]: rank of each among the kept ones, from 1
        written = self._written + rank[-1]  # int64 []
        kept = kept & (rank[-1] - rank < self.capacity)  # if they do not all fit, the newest
        # int64 [n]; the spare row for all others.
        places = ((self._written + rank - 1) % self.capacity).where(kept, self.capacity)
        before = self._written
        overwritten = {name: column[places] for name, column in self._columns.items()}
        for name, column in self._columns.items():
            column.index_copy_(0, places, rows[name])
        self._written = written

        def undo() -> None:
            for name, values in overwritten.items():
                self._columns[name].index_copy_(0, places, values)
            self._written = before

        return undo

    def draw(self, count: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """``count`` rows of every column; zeros if it is empty. ``generator``: on the device."""
        # float64: float32 would never reach some rows of a large ring
        share = self._written.new_empty(count).double().uniform_(generator=generator)  # in [0, 1)
        places = (share * self.size).long()
        return {name: column[places] for name, column in self._columns.items()}

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays for :meth:`load`, by name; waits for the device."""
        held = int(self.size)
        arrays = {name: column[:held].cpu().numpy() for name, column in self._columns.items()}
        return arrays | {_WRITTEN: self._written.cpu().numpy()}

    def load(self, arrays: Arrays) -> None:
        """Restore :meth:`state`; nothing is changed unless everything fits. Raises ValueError."""
        held = rows_held(arrays, {name: tuple(column.shape[1:]) for name, column in self._columns.items()})
        written = int(arrays[_WRITTEN]) if _WRITTEN in arrays else -1
        if held != min(written, self.capacity):
            raise ValueError(f"the replay memory cannot be read: {held:,} rows do not fit {self.capacity:,}")
        for name, column in self._columns.items():
            column[:held] = column.new_tensor(arrays[name])
        self._written.fill_(written)


def rows_held(arrays: Arrays, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Number of rows in the columns of a checkpoint's replay memory; ``shapes``: of a row of each column, by name.

    Raises:
        ValueError: a column is missing, has another shape or another length than the others, or contains NaN or
        infinity.
    """
    wrong = [
        name
        for name, shape in shapes.items()
        if name not in arrays
        or arrays[name].shape[1:] != shape
        or (arrays[name].dtype.kind == "f" and not np.isfinite(arrays[name]).all())
    ]
    lengths = {len(arrays[name]) for name in shapes if name not in wrong}
    if wrong or len(lengths) > 1:
        what = f"its columns {wrong} do not fit" if wrong else f"columns of {sorted(lengths)} rows do not fit together"
        raise ValueError(f"the replay memory cannot be read: {what}")
    return min(lengths)
