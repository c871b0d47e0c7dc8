"""Replay that stays on the device: a ring of rows, drawn from evenly and with replacement.

How many rows it holds is known to the device alone, since rows that teach nothing are not taken in: so neither
:meth:`Ring.append` nor :meth:`Ring.draw` waits for it. The ring of arrays, which knows what came after its rows, is
:class:`~tau_trainer.memory.replay.Replay`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        columns: what a row consists of.
        capacity: rows.
        device: where they are.
    """

    def __init__(self, columns: Sequence[Column], capacity: int, device: torch.device) -> None:
        import torch

        self.capacity = capacity
        # What is not to be kept goes to a row behind the last.
        self._columns = {column.name: torch.from_numpy(column.empty(capacity + 1)).to(device) for column in columns}
        self._written = torch.zeros((), dtype=torch.int64, device=device)
        """int64 []: rows taken in so far, the overwritten ones included."""

    @property
    def size(self) -> torch.Tensor:
        """int64 []: rows held."""
        return self._written.clamp(max=self.capacity)

    def append(self, rows: Mapping[str, torch.Tensor], kept: torch.Tensor) -> None:
        """Take in those of ``n`` rows [n, ...] of every column that are ``kept`` (bool [n]), over the oldest."""
        rank = kept.cumsum(0)  # int64 [n]: the how-manieth of the kept ones each is, from 1
        written = self._written + rank[-1]  # int64 []
        kept = kept & (rank[-1] - rank < self.capacity)  # of more than it can hold, the newest
        # int64 [n]; the spare row for all others.
        places = ((self._written + rank - 1) % self.capacity).where(kept, self.capacity)
        for name, column in self._columns.items():
            column.index_copy_(0, places, rows[name])
        self._written = written

    def draw(self, count: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """``count`` rows of every column; zeros where nothing was ever taken in. ``generator``: on the device."""
        # float64: float32 would never reach some rows of a large ring
        share = self._written.new_empty(count).double().uniform_(generator=generator)  # in [0, 1)
        places = (share * self.size).long()
        return {name: column[places] for name, column in self._columns.items()}

    def state(self) -> dict[str, NDArray[Any]]:
        """What :meth:`load` reads, by name; waits for the device."""
        held = int(self.size)
        arrays = {name: column[:held].cpu().numpy() for name, column in self._columns.items()}
        return arrays | {_WRITTEN: self._written.cpu().numpy()}

    def load(self, arrays: Arrays) -> None:
        """Go on from :meth:`state`; nothing is changed unless everything fits. Raises ValueError."""
        held = rows_held(arrays, {name: tuple(column.shape[1:]) for name, column in self._columns.items()})
        written = int(arrays[_WRITTEN]) if _WRITTEN in arrays else -1
        if held != min(written, self.capacity):
            raise ValueError(f"the replay memory cannot be read: {held:,} rows do not fit {self.capacity:,}")
        for name, column in self._columns.items():
            column[:held] = column.new_tensor(arrays[name])
        self._written.fill_(written)


def rows_held(arrays: Arrays, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """How many rows the columns of a checkpoint's replay memory have; ``shapes``: of a row of each, by name.

    Raises:
        ValueError: a column is missing, has another shape or another length than the others, or holds NaN or infinity.
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
