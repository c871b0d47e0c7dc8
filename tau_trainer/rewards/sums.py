"""Sums of the learned reward streams over episodes, which only the learning side knows."""

from __future__ import annotations

import numpy as np

from tau_trainer.memory import Rollout
from tau_trainer.specs import Float64Array, FloatArray


class EpisodeSums:
    """Adds up rewards from rollout to rollout, for every agent.

    Args:
        streams: ``S``, the number of streams.
    """

    def __init__(self, streams: int) -> None:
        self._streams = streams
        self._open: dict[int, Float64Array] = {}
        """By source: the sum of each row's open episode so far, [rows, S]."""

    def add(self, rollout: Rollout, rewards: FloatArray, source: int = 0) -> Float64Array:
        """The sums [e, S] of the episodes that end in a rollout.

        Args:
            rollout: the transitions since the last call.
            rewards: [N, S], of its transitions.
            source: the collector of the rows, if there are several.
        """
        if not len(rollout):
            return np.zeros((0, self._streams))
        order, begins = rollout.sequences(len(rollout))
        first = np.flatnonzero(begins)
        last = order[np.append(first[1:], len(order)) - 1]
        sums = np.add.reduceat(rewards[order].astype(np.float64), first, axis=0)
        rows = rollout.rows[last]
        known = self._open.get(source, np.zeros((0, self._streams)))
        room = np.zeros((max(int(rows.max()) + 1, len(known)), self._streams))
        room[: len(known)] = known
        sums += np.where(rollout.begins[order[first], None], 0.0, room[rows])
        over = (rollout.terminated | rollout.truncated)[last]
        room[rows[~over]] = sums[~over]
        self._open[source] = room
        ended: Float64Array = sums[over]
        return ended
