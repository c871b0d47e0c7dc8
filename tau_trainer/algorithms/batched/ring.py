"""Replay that stays on the device: a ring of rows, drawn from evenly and with replacement.

How many rows it holds is known to the device alone, since rows that teach nothing are not taken in: so neither
:meth:`Ring.append` nor :meth:`Ring.draw` waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tau_trainer.algorithms.parameters import fitting
from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError

_WRITTEN = "written"


class Ring:
    """Named columns over the newest ``capacity`` rows.

    Args:
        capacity: rows.
        like: one row [1, ...] of every column, for its shape, dtype and device.
    """

    def __init__(self, capacity: int, like: Mapping[str, torch.Tensor]) -> None:
        self.capacity = capacity
        # What is not to be kept goes to a row behind the last.
        self._columns = {name: row.new_zeros(capacity + 1, *row.shape[1:]) for name, row in like.items()}
        self._written = next(iter(like.values())).new_zeros((), dtype=torch.int64)

    @property
    def size(self) -> torch.Tensor:
        """int64 []: rows held."""
        return self._written.clamp(max=self.capacity)

    def append(self, rows: Mapping[str, torch.Tensor], kept: torch.Tensor) -> None:
        """Take in those of ``n`` rows [n, ...] of every column that are ``kept`` (bool [n]), over the oldest."""
        rank = kept.cumsum(0)
        written = self._written + rank[-1]
        kept = kept & (rank[-1] - rank < self.capacity)  # of more than it can hold, the newest
        places = torch.where(kept, (self._written + rank - 1) % self.capacity, self.capacity)
        for name, column in self._columns.items():
            column.index_copy_(0, places, rows[name])
        self._written = written

    def draw(self, count: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """``count`` rows of every column; zeros where nothing was ever taken in. ``generator``: on the device."""
        share = torch.rand(count, dtype=torch.float64, device=self._written.device, generator=generator)
        places = (share * self.size).to(torch.int64)
        return {name: column[places] for name, column in self._columns.items()}

    def state(self) -> dict[str, NDArray[Any]]:
        """What :meth:`load` reads, by name; waits for the device."""
        held = int(self.size)
        arrays = {name: column[:held].cpu().numpy() for name, column in self._columns.items()}
        return arrays | {_WRITTEN: self._written.cpu().numpy()}

    def load(self, arrays: Arrays) -> None:
        """Go on from :meth:`state`; nothing is changed unless everything fits. Raises CheckpointError."""
        written = int(fitting(arrays, _WRITTEN, ()))
        held = min(written, self.capacity)
        if written < 0:
            raise CheckpointError("The checkpoint's replay memory is damaged; use an earlier checkpoint.")
        read = {name: fitting(arrays, name, (held, *column.shape[1:])) for name, column in self._columns.items()}
        for name, column in self._columns.items():
            column[:held] = torch.from_numpy(np.array(read[name])).to(column)
        self._written.fill_(written)
