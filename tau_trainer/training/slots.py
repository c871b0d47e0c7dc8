"""Agent ids to slots: small consecutive numbers that index preallocated arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tau_trainer.specs import IntArray

Slots = NDArray[np.intp]

_DENSE = 1 << 16
"""Ids below this are looked up in an array, others in a dictionary."""


class SlotTable:
    """Gives every agent id a slot; a released slot is given to the next new id.

    Unity keeps an agent's id over its episodes and counts upward for respawned agents, so a table that never let go
    would grow for ever.
    """

    def __init__(self) -> None:
        self.capacity = 0
        """One more than the largest slot given so far."""
        self._dense = np.full(64, -1, np.intp)
        self._sparse: dict[int, int] = {}
        self._free: list[int] = []
        self._forget()

    def _forget(self) -> None:
        self._last_ids = np.zeros(0, np.int32)
        self._last_slots = np.zeros(0, np.intp)

    def __call__(self, ids: IntArray) -> Slots:
        """Slots of ``ids`` [n], new ones where an id has none. The result is the caller's to read, not to write."""
        if len(ids) == len(self._last_ids) and (ids == self._last_ids).all():
            return self._last_slots  # most exchanges bring the same agents
        slots = self._find(ids)
        missing = slots < 0
        if missing.any():
            slots[missing] = self._give(ids[missing])
        self._last_ids, self._last_slots = ids, slots
        return slots

    def _find(self, ids: IntArray) -> Slots:
        if len(ids) == 0:
            return np.zeros(0, np.intp)
        dense = (ids >= 0) & (ids < _DENSE)
        if not dense.all():
            return np.fromiter((self._one(agent) for agent in ids.tolist()), np.intp, len(ids))
        self._reach(int(ids.max()))
        return self._dense[ids]

    def _one(self, agent: int) -> int:
        return int(self._dense[agent]) if 0 <= agent < len(self._dense) else self._sparse.get(agent, -1)

    def _reach(self, largest: int) -> None:
        if largest >= len(self._dense):
            grown = np.full(min(max(largest + 1, 2 * len(self._dense)), _DENSE), -1, np.intp)
            grown[: len(self._dense)] = self._dense
            self._dense = grown

    def _give(self, ids: IntArray) -> Slots:
        reuse = min(len(ids), len(self._free))
        fresh = np.arange(self.capacity, self.capacity + len(ids) - reuse)
        self.capacity += len(fresh)
        slots = np.concatenate([np.array([self._free.pop() for _ in range(reuse)], np.intp), fresh])
        dense = (ids >= 0) & (ids < _DENSE)
        if dense.any():
            self._reach(int(ids[dense].max()))
            self._dense[ids[dense]] = slots[dense]
        self._sparse.update(zip(ids[~dense].tolist(), slots[~dense].tolist(), strict=True))
        return slots

    def release(self, ids: IntArray) -> None:
        """Let go of ids that ended without asking again; unknown ids are ignored."""
        slots = self._find(ids)
        known = slots >= 0
        self._free.extend(slots[known].tolist())
        self._forget()
        for agent in ids[known].tolist():
            if 0 <= agent < len(self._dense):
                self._dense[agent] = -1
            self._sparse.pop(agent, None)

    def clear(self) -> None:
        """Let go of all ids: the engine is a fresh one."""
        self._dense.fill(-1)
        self._sparse.clear()
        self._forget()
        self._free = list(range(self.capacity))[::-1]
