"""A single task in its own process, which reports ``progress`` and finally an ``answer``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from tau_trainer.remote.here import Here
from tau_trainer.remote.process import Place, Process, Target


class Job:
    """A process that sends one answer.

    Attributes:
        process: the process, once it runs.
    """

    def __init__(self, target: Target, *, limit_s: float | None = None, place: Place | None = None) -> None:
        """Does not start it yet. ``limit_s``: maximum seconds from its start."""
        self.process: Process | None = None
        self._target = target
        self._limit_s = limit_s
        self._place = place or Here()
        self._lock = threading.RLock()  # a signal's handler may stop it while the same thread launches it
        self._stopped = False

    def stop(self) -> None:
        """Ask it to answer soon, or to end. Call from any thread, even before it runs."""
        with self._lock:
            self._stopped = True
            if self.process is not None:
                self.process.stop()

    def run(self, on_progress: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Run it and return its answer; ``on_progress`` gets its progress.

        Raises:
            TimeoutError: its time was up, so it was killed.
            TauError: it failed with that error. The target's ``failure``: it ended without an answer, or cannot start.
        """
        with self._lock:
            process = self.process = self._place.launch(self._target)
            if self._stopped:
                process.stop()
        until = None if self._limit_s is None else time.monotonic() + self._limit_s
        try:
            while True:
                left = None if until is None else max(0.0, until - time.monotonic())
                kind, data, _ = process.hear(left)
                if kind == "answer":
                    return data
                on_progress(data)
        except TimeoutError:
            process.kill()
            raise
        finally:
            process.end()
