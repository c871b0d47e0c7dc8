"""One question to a process of its own: it says how it goes (``progress``) and what came of it (``answer``)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from tau_trainer.remote.here import Here
from tau_trainer.remote.process import Place, Process, Target


class Job:
    """A process that answers once.

    Attributes:
        process: since it runs.
    """

    def __init__(self, target: Target, *, limit_s: float | None = None, place: Place | None = None) -> None:
        """Nothing is started yet. ``limit_s``: what it may take, from its start on."""
        self.process: Process | None = None
        self._target, self._limit_s, self._place = target, limit_s, place or Here()
        self._lock = threading.RLock()  # a signal's handler may stop it while the same thread launches it
        self._stopped = False

    def stop(self) -> None:
        """Ask it to answer soon, or to end. Call from any thread, before it runs too."""
        with self._lock:
            self._stopped = True
            if self.process is not None:
                self.process.stop()

    def run(self, on_progress: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Its answer; ``on_progress`` hears how it goes.

        Raises:
            TimeoutError: it was killed, for its time was up.
            TauError: it failed by that. The target's ``failure``: it ended without an answer, or was not started.
        """
        with self._lock:
            process = self.process = self._place.launch(self._target)
            if self._stopped:
                process.stop()
        until = None if self._limit_s is None else time.monotonic() + self._limit_s
        try:
            while True:
                left = None if until is None else max(0.0, until - time.monotonic())
                kind, facts, _ = process.hear(left)
                if kind == "answer":
                    return facts
                on_progress(facts)
        except TimeoutError:
            process.kill()
            raise
        finally:
            process.end()
