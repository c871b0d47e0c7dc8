"""Binary rewards over a sliding window of steps: one ring buffer per agent, all of them in one array.

A push costs a few vectorised operations, independent of the number of agents.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import Column, ColumnTable, Rows
from tau_trainer.settings import RewardSettings
from tau_trainer.specs import BoolArray, Float64Array

VALUES: dict[str, tuple[float, float]] = {"01": (0.0, 1.0), "pm1": (-1.0, 1.0)}
"""Values of failure and success."""


class WindowAggregator:
    """Aggregates the last ``window`` successes of each row, for ``channels`` independent channels.

    A window that is not full yet is aggregated over its current content. ``majority`` means more than half: a tie is a
    failure.
    """

    def __init__(self, settings: RewardSettings, channels: int = 1) -> None:
        """``settings``: ``aggregate``, ``window`` and ``values`` are used.

        ``channels``: number of successes per push.
        """
        self.aggregate, self.window = settings.aggregate, settings.window
        self.low, self.high = VALUES[settings.values]
        self._windows = ColumnTable(
            (
                Column("ring", (self.window, channels), np.bool_),
                Column("length", (), np.int64),
                Column("next", (), np.int64),
            )
        )

    def push(self, rows: Rows, success: BoolArray) -> Float64Array:
        """Append one step and return the aggregates.

        Args:
            rows: ``[n]``, distinct, not negative; room is made for new ones.
            success: bool ``[n, channels]``.

        Returns:
            float64 ``[n, channels]``: aggregate over each row's window, this step included.
        """
        self._windows.fit(rows)
        ring, position = self._windows["ring"], self._windows["next"][rows]
        ring[rows, position] = success
        self._windows["next"][rows] = (position + 1) % self.window
        length = np.minimum(self._windows["length"][rows] + 1, self.window)
        self._windows["length"][rows] = length
        # Summed over the window itself, so that no error accumulates over a long run.
        return self._judge(ring[rows].sum(axis=1, dtype=np.int64), length[:, None])

    def clear(self, rows: Rows | None = None) -> None:
        """Empty the windows of ``rows``, or of all."""
        self._windows.clear(slice(None) if rows is None else rows)

    def _judge(self, successes: NDArray[np.int64], length: NDArray[np.int64]) -> Float64Array:
        """Aggregate from the number of successes ``[n, channels]`` and of steps ``[n, 1]``."""
        total = self.low * length + (self.high - self.low) * successes
        if self.aggregate == "sum":
            return np.asarray(total, np.float64)
        if self.aggregate == "mean":
            return np.asarray(total / length, np.float64)
        if self.aggregate == "any":
            won = successes > 0
        elif self.aggregate == "all":
            won = successes == length
        else:
            won = 2 * successes > length
        return np.where(won, self.high, self.low)
