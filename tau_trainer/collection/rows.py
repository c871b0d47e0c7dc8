"""Maps agent ids to rows: the indices of all data about an agent, from its reward to its experience."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tau_trainer.columns import Column, ColumnTable, Rows
from tau_trainer.specs import IntArray

_DENSE = 1 << 16
"""Smaller ids are looked up in an array, others in a dictionary."""


class RowTable:
    """Gives every agent id of one environment a row; a released row is given to the next new id.

    Unity keeps an agent's id over its episodes and counts upward for respawned agents, so a table that never released
    rows would grow forever.
    """

    def __init__(self, new_rows: Callable[[int], Rows]) -> None:
        """``new_rows(count)``: returns unused rows in the learner's memory, which several environments feed."""
        self._new_rows = new_rows
        self._dense = ColumnTable((Column("row", (), np.intp, fill=-1),), 64)
        self._sparse: dict[int, int] = {}
        self._by_row = ColumnTable(
            (
                Column("agent", (), np.int32),
                Column("given", (), np.bool_),
                Column("met", (), np.bool_),  # in the current round
                Column("silent", (), np.int32),  # rounds since then
            )
        )
        self._own: list[int] = []
        self._free: list[int] = []
        self._forget()

    def _forget(self) -> None:
        self._last_ids = np.zeros(0, np.int32)
        self._last_rows = np.zeros(0, np.intp)

    @property
    def rows(self) -> Rows:
        """All rows that were ever assigned here."""
        return np.array(self._own, np.intp)

    def __call__(self, ids: IntArray) -> Rows:
        """Rows of ``ids`` [n], with new ones for unknown ids. The caller must not write to the result."""
        if len(ids) == len(self._last_ids) and (ids == self._last_ids).all():
            return self._last_rows  # most exchanges have the same agents
        rows = self._find(ids)
        missing = rows < 0
        if missing.any():
            rows[missing] = self._give(ids[missing])
        self._by_row["met"][rows] = True
        if len(ids) >= len(self._last_ids):  # prefer agents that ask over the few that ended
            self._last_ids, self._last_rows = ids, rows
        return rows

    def _find(self, ids: IntArray) -> Rows:
        dense = (ids >= 0) & (ids < _DENSE)
        if not dense.all():
            return np.fromiter((self._one(agent) for agent in ids.tolist()), np.intp, len(ids))
        self._dense.fit(ids)
        rows: Rows = self._dense["row"][ids]
        return rows

    def _one(self, agent: int) -> int:
        # The dense table may be larger than the range of ids that it is for.
        if not 0 <= agent < _DENSE:
            return self._sparse.get(agent, -1)
        return int(self._dense["row"][agent]) if agent < len(self._dense) else -1

    def _give(self, ids: IntArray) -> Rows:
        reuse = min(len(ids), len(self._free))
        fresh = self._new_rows(len(ids) - reuse)
        self._own.extend(fresh.tolist())
        rows = np.concatenate([np.array([self._free.pop() for _ in range(reuse)], np.intp), fresh])
        self._by_row.fit(rows)
        self._by_row["agent"][rows] = ids
        self._by_row["given"][rows] = True
        self._by_row["silent"][rows] = 0
        dense = (ids >= 0) & (ids < _DENSE)
        self._dense.fit(ids[dense])
        self._dense["row"][ids[dense]] = rows[dense]
        self._sparse.update(zip(ids[~dense].tolist(), rows[~dense].tolist(), strict=True))
        return rows

    def release(self, ids: IntArray) -> None:
        """Release ids that ended without asking again; unknown ids are ignored."""
        rows = self._find(ids)
        known, rows = ids[rows >= 0], rows[rows >= 0]
        self._free.extend(rows.tolist())
        self._by_row["given"][rows] = False
        self._forget()
        dense = (known >= 0) & (known < _DENSE)
        self._dense["row"][known[dense]] = -1
        for agent in known[~dense].tolist():
            del self._sparse[agent]

    def silent(self) -> tuple[IntArray, IntArray]:
        """End a round: returns the ids [n] with rows that did not ask in it, and their number of silent rounds.

        A round starts with the previous call, or when the table was cleared.
        """
        rows, table = self.rows, self._by_row
        table.fit(rows)
        silent = rows[table["given"][rows] & ~table["met"][rows]]
        table["silent"][rows[table["met"][rows]]] = 0
        table["silent"][silent] += 1
        table["met"][rows] = False
        self._forget()  # so that the next request marks agents again
        return table["agent"][silent], table["silent"][silent]

    def clear(self) -> None:
        """Release all ids, because the environment is a new one."""
        self._by_row.clear()
        self._dense.clear()
        self._sparse.clear()
        self._forget()
        self._free = self._own[::-1]
