"""How far agents may act ahead of learning: a bound on the age of the policy that they act with."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

_MARGIN = 1.1
"""Of the time for filling a buffer: a learner that waits costs more than experience that is a little older."""
_now = time.monotonic


class AgeBound:
    """Who waits for learning, and when agents act on beside an update. Belongs to the event loop.

    Attributes:
        outstanding: updates' worth of work that run or wait.
        most: that may be outstanding while agents still act.
        held_seconds: time for which observations waited because the policy's age was at its bound.
    """

    def __init__(self, most: int, *, on_policy: bool, abreast: int = 1) -> None:
        """How far ahead agents may act.

        Args:
            most: work that may be outstanding while agents still act, besides what other learners have; 0 with a lone
                one: learning and collection take turns.
            on_policy: whether it matters how new the weights are that act.
            abreast: updates that run at a time.
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
        """Work comes."""
        self._filling_seconds = _now() - self._collecting_since
        self.outstanding += 1
        if self.outstanding <= self.abreast:
            self.plan_ahead()

    def took(self, seconds: float) -> None:
        """An update took so long."""
        self._last_update_seconds = seconds

    def goes(self, count: int = 1, *, more: bool = False) -> None:
        """So much work was learned from, or given up; ``more``: the next update begins."""
        self.outstanding -= count
        if more:
            self.plan_ahead()
        self._moved.set()

    def plan_ahead(self) -> None:
        """When agents act on beside the update that begins: late, and just in time to fill the next buffer.

        So their weights are as new as they can be. How long both take is known from the last time; where filling a
        buffer takes longer than an update, or a replay memory does not mind, agents go on at once.
        """
        busy = self._on_policy and self.outstanding >= self.abreast  # of several one is free after a part of the time
        ahead = self._last_update_seconds / self.abreast - _MARGIN * self._filling_seconds if busy else 0.0
        self._collecting_since = self._held_until = _now() + max(0.0, ahead)

    def _too_early(self) -> float:
        """Seconds until agents may act beside the update that runs."""
        return self._held_until - _now()

    @property
    def reached(self) -> bool:
        """Whether agents have to wait."""
        return self.outstanding >= self.abreast and (self.outstanding > self.most or self._too_early() > 0.0)

    async def wait(self, given_up: Callable[[], bool]) -> float | None:
        """Wait until agents may act on, or ``given_up``.

        Returns:
            Seconds that it took; None: others have waited longer, so that this time counts with theirs.
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
