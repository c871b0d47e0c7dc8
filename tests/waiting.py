"""How long tests wait: for what comes sooner or later, and never for what has to come within some seconds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

HANG_S: Final = 300.0
"""After so long something hangs: the limit of a test (``timeout`` in pyproject.toml), and of each wait inside one.

A busy machine may hold up a right test for a minute, so no limit measures how fast something is."""
NEVER_S: Final = 1000.0
"""What a test ends before its time is up: who waited for that would hang."""


def until(condition: Callable[[], object]) -> None:
    """Wait for something that another thread or process does."""
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


def until_gone(pid: int) -> None:
    """Wait until a process has ended; one that does not is killed with the test."""

    def gone() -> bool:
        status = Path(f"/proc/{pid}/stat")
        try:
            os.kill(pid, 0)
            return status.exists() and status.read_text().rpartition(") ")[2].startswith("Z")
        except (ProcessLookupError, FileNotFoundError):
            return True

    try:
        until(gone)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def run(work: Awaitable[T]) -> T:
    """The result of ``work`` in an event loop of its own."""

    async def main() -> T:
        return await asyncio.wait_for(work, HANG_S)

    return asyncio.run(main())


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
