"""Binary rewards over a sliding window of steps: one ring buffer per agent slot, all slots in one array.

A push costs a few vectorised operations whatever the number of agents. Sums are taken over the window itself and not
updated incrementally, so that nothing drifts over a long run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tau_trainer.errors import SettingsError

AggregateName = Literal["mean", "sum", "any", "all", "majority"]
AGGREGATES: tuple[AggregateName, ...] = ("mean", "sum", "any", "all", "majority")
VALUES: dict[str, tuple[float, float]] = {"01": (0.0, 1.0), "pm1": (-1.0, 1.0)}
"""What failure and success are worth."""

Float64Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
Slots = NDArray[np.integer]


class WindowAggregator:
    """Aggregates the last ``window`` successes of each slot, for ``channels`` independent channels.

    A window that is not yet full is judged by what it holds. ``majority`` means more than half: a tie is a failure.
    """

    def __init__(self, aggregate: str = "mean", window: int = 1, values: str = "01", channels: int = 1) -> None:
        """Make room for no slot; slots appear when they are first used.

        Args:
            aggregate: ``mean`` or ``sum`` of the values in the window, or the value of whether ``any``, ``all`` or
                the ``majority`` of them are successes.
            window: number of steps, at least 1.
            values: ``01`` (failure 0, success 1) or ``pm1`` (failure -1, success +1).
            channels: number of successes per push.

        Raises:
            SettingsError: an argument is outside of these.
        """
        if aggregate not in AGGREGATES:
            known = ", ".join(f"`{name}`" for name in AGGREGATES)
            raise SettingsError(f"Reward `aggregate` is `{aggregate}`; choose one of {known}.")
        if window < 1:
            raise SettingsError(f"Reward `window` is {window} but must be at least 1 step.")
        if values not in VALUES:
            raise SettingsError(f"Reward `values` is `{values}`; choose `01` or `pm1`.")
        self.aggregate = aggregate
        self.window = int(window)
        self.low, self.high = VALUES[values]
        self.channels = channels
        self._ring = np.zeros((0, self.window, channels), np.bool_)
        self._length = np.zeros(0, np.int64)
        self._next = np.zeros(0, np.int64)

    @property
    def slots(self) -> int:
        """Number of slots that there is room for."""
        return len(self._length)

    def push(self, slots: Slots, success: Bools) -> Float64Array:
        """Append one step and return the aggregates.

        Args:
            slots: ``[n]``, distinct, not negative; room is made for new ones.
            success: bool ``[n, channels]``.

        Returns:
            float64 ``[n, channels]``: aggregate over each slot's window, this step included.
        """
        self._reserve(slots)
        position = self._next[slots]
        self._ring[slots, position] = success
        self._next[slots] = (position + 1) % self.window
        length = np.minimum(self._length[slots] + 1, self.window)
        self._length[slots] = length
        return self._judge(self._ring[slots].sum(axis=1, dtype=np.int64), length[:, None])

    def peek(self, slots: Slots) -> Float64Array:
        """Aggregates without a new step: float64 ``[n, channels]``, failure's value (sum: 0) for an empty window."""
        self._reserve(slots)
        return self._judge(self._ring[slots].sum(axis=1, dtype=np.int64), self._length[slots][:, None])

    def clear(self, slots: Slots | None = None) -> None:
        """Empty the windows of ``slots``, or of all."""
        if slots is None:
            self._ring[:], self._length[:], self._next[:] = False, 0, 0
            return
        self._reserve(slots)
        self._ring[slots], self._length[slots], self._next[slots] = False, 0, 0

    def state_dict(self) -> dict[str, NDArray[np.generic]]:
        """Copies of all windows."""
        return {"ring": self._ring.copy(), "length": self._length.copy(), "next": self._next.copy()}

    def load_state_dict(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over windows from :meth:`state_dict`.

        Raises:
            ValueError: they belong to another window or number of channels.
        """
        ring = np.array(state["ring"], np.bool_)
        if ring.ndim != 3 or ring.shape[1:] != (self.window, self.channels):
            raise ValueError(f"windows have shape {ring.shape}, not [slots, {self.window}, {self.channels}]")
        self._ring = ring
        self._length = np.array(state["length"], np.int64)
        self._next = np.array(state["next"], np.int64)

    def _judge(self, successes: NDArray[np.int64], length: NDArray[np.int64]) -> Float64Array:
        """Aggregate from the number of successes ``[n, channels]`` and of steps ``[n, 1]``."""
        total = self.low * length + (self.high - self.low) * successes
        if self.aggregate == "sum":
            return np.asarray(total, np.float64)
        if self.aggregate == "mean":
            return np.where(length > 0, total / np.maximum(length, 1), self.low)
        if self.aggregate == "any":
            won = successes > 0
        elif self.aggregate == "all":
            won = (successes == length) & (length > 0)
        else:
            won = 2 * successes > length
        return np.where(won, self.high, self.low)

    def _reserve(self, slots: Slots) -> None:
        """Make room for the highest slot by doubling, so that growing slot by slot stays cheap."""
        needed = int(slots.max()) + 1 if len(slots) else 0
        extra = max(needed, 2 * self.slots) - self.slots if needed > self.slots else 0
        if extra:
            self._ring = np.concatenate([self._ring, np.zeros((extra, self.window, self.channels), np.bool_)])
            self._length = np.concatenate([self._length, np.zeros(extra, np.int64)])
            self._next = np.concatenate([self._next, np.zeros(extra, np.int64)])
