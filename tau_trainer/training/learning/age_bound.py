"""A bound on the age of the policy that agents act with: how far acting may run ahead of learning."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

_MARGIN = 1.1
"""Share of the time for filling a buffer: a waiting learner costs more than slightly older experience."""
_now = time.monotonic


class AgeBound:
    """Decides when agents wait for learning, and when they act during an update. Belongs to the event loop.

    Attributes:
        outstanding: number of updates whose work runs or waits.
        most: the largest number that may be outstanding while agents still act.
        held_seconds: time for which observations waited because the policy's age was at its bound.
    """

    def __init__(self, most: int, *, on_policy: bool, abreast: int = 1) -> None:
        """How far ahead agents may act.

        Args:
            most: work that may be outstanding while agents still act, in addition to that of parallel updates; 0 for a
                single update at a time means that learning and collection take turns.
            on_policy: whether the age of the weights that act matters.
            abreast: number of updates that run at a time.
        """
        self.outstanding = 0
        self.held_seconds = 0.0
        self.most, self.abreast = most + abreast - 1, abreast
        self._on_policy = on_policy
        self._waiting_pairs = 0
        self._moved = asyncio.Event()
        self._collecting_since = self._held_until = 0.0
        self._filling_seconds = self._last_update_seconds = 0.0

    def comes(self) -> None:
        """Count a piece of work that was handed over."""
        self._filling_seconds = _now() - self._collecting_since
        self.outstanding += 1
        if self.outstanding <= self.abreast:
            self.plan_ahead()

    def took(self, seconds: float) -> None:
        """Report how many seconds an update took."""
        self._last_update_seconds = seconds

    def goes(self, count: int = 1, *, more: bool = False) -> None:
        """Count ``count`` pieces of work that were learned from or dropped; ``more``: the next update starts."""
        self.outstanding -= count
        if more:
            self.plan_ahead()
        self._moved.set()

    def plan_ahead(self) -> None:
        """Decide when agents act during the update that starts: late, and just in time to fill the next buffer.

        So their weights are as new as they can be. The durations are those of the last time. If filling a buffer takes
        longer than an update, or experience is replayed, agents continue at once.
        """
        busy = self._on_policy and self.outstanding >= self.abreast  # the first of several updates ends sooner
        ahead = self._last_update_seconds / self.abreast - _MARGIN * self._filling_seconds if busy else 0.0
        self._collecting_since = self._held_until = _now() + max(0.0, ahead)

    def _too_early(self) -> float:
        """Seconds until agents may act during the current update."""
        return self._held_until - _now()

    @property
    def reached(self) -> bool:
        """Whether agents have to wait."""
        return self.outstanding >= self.abreast and (self.outstanding > self.most or self._too_early() > 0.0)

    async def wait(self, given_up: Callable[[], bool]) -> float | None:
        """Wait until agents may act again, or ``given_up`` returns True.

        Returns:
            Seconds waited; None if another caller has waited longer, because that wait counts this time too.
        """
        since = time.monotonic()
        first = self._waiting_pairs == 0
        self._waiting_pairs += 1
        try:
            while self.reached and not given_up():
                limit = None if self.outstanding > self.most else self._too_early()
                self._moved.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._moved.wait(), limit)
        finally:
            self._waiting_pairs -= 1
        if not first:
            return None
        held = time.monotonic() - since
        self.held_seconds += held
        return held
