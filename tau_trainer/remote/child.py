"""Processes that the trainer starts for itself, and ends with it: how they begin, and how they ended.

A child speaks with the trainer over its standard input and output (:mod:`.channel`). It ends with the trainer,
whatever happens to that, and leaves Ctrl-C and ``kill`` to the trainer, which saves first.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from tau_trainer.remote.channel import SharedBytes
from tau_trainer.remote.launching import launch

_CLOSE_S = 5.0
_TAIL_BYTES = 2000
_TRAINERS_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
"""Signals that the trainer answers, and a child does not."""


class ChildProcess:
    """The trainer's end of a process that calls ``module``'s ``main``.

    Attributes:
        source: what it says. sink: what it is told.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        log: Path,
        shared: Sequence[SharedBytes],
        *,
        several: bool = False,
    ) -> None:
        """Start it. Raises OSError where that cannot be done.

        Args:
            module: what it runs.
            arguments: its own.
            log: where it writes what it has to say besides.
            shared: memory whose places are among the arguments.
            several: there will be more like it.
        """
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as errors, _signals_blocked():
            launched = launch(
                module,
                arguments,
                errors=errors,
                shared=[] if sys.platform == "win32" else [int(one.place) for one in shared],
                several=several,
            )
        self._process = launched.process
        self.source: IO[bytes] = launched.source
        self.sink: IO[bytes] = launched.sink

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def how(self) -> str:
        """How it ended, with the last line of its log."""
        code = self._process.wait(_CLOSE_S)
        how = f"with exit code {code}"
        if code < 0:
            how = f"by {signal.Signals(-code).name}"
            if code == -signal.SIGKILL:
                how += " (somebody killed it; if that was the system, memory was short)"
        with contextlib.suppress(OSError):
            lines = self._log.read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace").splitlines()
            how += f"; see {self._log}" + (f": {lines[-1]}" if lines else "")
        return how

    def end(self, patience_s: float = _CLOSE_S) -> None:
        """Wait for its end, though not for ever."""
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
        for pipe in (self.source, self.sink):
            with contextlib.suppress(OSError):
                pipe.close()

    def kill(self) -> None:
        """End it at once, also where it was stopped; its end is waited for, though not for ever."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_S)


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """A process that is started inside is spared the trainer's signals from its first moment on, not Windows' ones."""
    if sys.platform == "win32":
        yield
        return
    own = {getattr(signal, name) for name in _TRAINERS_SIGNALS if hasattr(signal, name)}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, own)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def streams() -> tuple[IO[bytes], IO[bytes]]:
    """In a child: what the trainer says, and where it is answered; the trainer's signals are ignored from here on."""
    for name in _TRAINERS_SIGNALS:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not end up between two messages, but in the log
    sys.stdout = sys.stderr
    return source, sink
