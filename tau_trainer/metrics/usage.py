"""Usage of the machine by the trainer's own process. Engines, which are other processes, are not counted."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tau_trainer.metrics.snapshot import Usage
from tau_trainer.metrics.timers import Clock, RateMeter

_MEMORY = Path("/proc/self/statm")
"""Linux: the second number is the resident memory, in pages."""


class UsageMeter:
    """Measures the processor time of this process, averaged over recent seconds."""

    def __init__(
        self, clock: Clock = time.perf_counter, cpu_clock_ns: Callable[[], int] = time.process_time_ns
    ) -> None:
        self._cpu_clock_ns = cpu_clock_ns
        self._meter = RateMeter(clock=clock)
        self._begin = cpu_clock_ns()

    def take(self) -> Usage:
        """The usage now."""
        self._meter.add(self._cpu_clock_ns() - self._begin - self._meter.total)
        return Usage(self._meter.rate() / 1e9, usable_cores(), memory_used())


def usable_cores() -> int | None:
    """Number of cores that this process may use, if the system reports it (Linux); otherwise all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def memory_used(statm: Path = _MEMORY) -> int | None:
    """Bytes of resident memory: now on Linux, otherwise the peak; None on Windows."""
    try:
        return int(statm.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return peak_memory()


def peak_memory() -> int | None:
    """Bytes of resident memory at the peak of this process; None on Windows."""
    if sys.platform == "win32":
        return None
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
