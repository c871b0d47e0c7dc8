"""A speed that forgets, and how long it will take."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Seconds from any fixed moment, never backwards."""


class RateMeter:
    """Events per second, averaged with exponential forgetting; safe to use from several threads.

    The estimate is exact from the first second on: the weight that a plain EWMA would give to the time before the
    start is divided out (the bias correction of Adam, Kingma & Ba 2015, section 3, in continuous time).

    :param half_life: seconds after which an event counts half.
    """

    def __init__(self, half_life: float = 5.0, clock: Clock = time.perf_counter) -> None:
        self._decay = math.log(2.0) / half_life
        self._clock = clock
        self._lock = threading.Lock()
        self._started = self._updated = clock()
        self._weighted = 0.0
        self._total = 0

    @property
    def total(self) -> int:
        """All events so far."""
        return self._total

    def add(self, count: int) -> None:
        """Count ``count`` events that happened now."""
        now = self._clock()
        with self._lock:
            self._weighted = self._weighted * math.exp(-self._decay * (now - self._updated)) + count
            self._updated = now
            self._total += count

    def rate(self) -> float:
        """Events per second, now; falls towards 0 when nothing happens any more."""
        now = self._clock()
        with self._lock:
            span = -math.expm1(-self._decay * (now - self._started)) / self._decay
            return self._weighted * math.exp(-self._decay * (now - self._updated)) / span if span > 0 else 0.0


def eta_seconds(done: float, total: float, rate: float) -> float | None:
    """Seconds until ``done`` reaches ``total`` at ``rate`` a second; None without a total or without movement."""
    if total <= 0 or rate <= 0:
        return None
    return max(total - done, 0.0) / rate
