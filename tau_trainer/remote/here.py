"""Processes on this machine: messages in pipes, arrays and status in memory that is shared.

A process ends with whoever launched it, whatever happens to that, and leaves Ctrl-C and ``kill`` to the trainer, which
saves first.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from tau_trainer.columns import Arrays
from tau_trainer.remote.channel import Channel, SharedBytes
from tau_trainer.remote.launching import launch
from tau_trainer.remote.process import (
    NO_ARRAYS,
    NO_FACTS,
    STATUS,
    GoneError,
    Layout,
    Message,
    Parent,
    Process,
    Take,
    Target,
)
from tau_trainer.remote.weights import WeightMemory

_CLOSE_S = 5.0
_TAIL_BYTES = 2000
_TRAINERS_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
"""Signals that the trainer answers, and no process of ours."""


class Here:
    """This machine. Fulfils :class:`~tau_trainer.remote.process.Place`."""

    def __init__(self, seats: int = 0, weights: int = 0) -> None:
        """What is shared is made before the first process, which inherits it: no name is left behind, whatever dies.

        Args:
            seats: rows of :attr:`status`.
            weights: calls of :meth:`newest` at most.
        """
        self._status = SharedBytes() if seats else None
        content = bytearray() if self._status is None else self._status.view(8 * STATUS * seats)
        self.status = np.frombuffer(content, np.int64).reshape(seats, STATUS)
        self._weights = [SharedBytes() for _ in range(weights)]
        self._used = itertools.count()

    @property
    def _shared(self) -> list[SharedBytes]:
        return self._weights if self._status is None else [self._status, *self._weights]

    def launch(self, target: Target, take: Take | None = None) -> Process:
        """Start a process; see there."""
        wiring: dict[str, Any] = {"weights": [memory.place for memory in self._weights]}
        if target.seat is not None:
            assert self._status is not None
            self.status[target.seat] = 0
            wiring["status"] = self._status.place, *self.status.shape, target.seat
        return _PipedProcess(target, take, wiring, self._shared)

    def newest(self, layout: Layout) -> WeightMemory:
        """Make weights known; see there. Raises IndexError: too many."""
        number = next(self._used)
        return WeightMemory(self._weights[number], layout, number)

    def close(self) -> None:
        """Let go of the memory; further calls do nothing."""
        for memory in self._shared:
            memory.close()


class _PipedProcess(Process):
    """A process at the other ends of two pipes."""

    def __init__(self, target: Target, take: Take | None, wiring: dict[str, Any], shared: list[SharedBytes]) -> None:
        super().__init__(target, take)
        self._lent = SharedBytes() if target.lends else None
        if self._lent is not None:
            wiring["lent"], shared = self._lent.place, [*shared, self._lent]
        self._printed = self._opened()
        try:
            with _signals_blocked():
                launched = launch(
                    "tau_trainer.remote.here",
                    [target.module, json.dumps(wiring)],
                    errors=self._printed,
                    shared=[] if sys.platform == "win32" else [int(memory.place) for memory in shared],
                    several=target.several,
                    preload=[target.module, *target.preload],
                )
        except OSError as error:
            self._close_files()
            raise target.failure(f"{target.name} cannot be started: {error.strerror or error}") from error
        self._process, self._source, self._sink = launched.process, launched.source, launched.sink
        self._channel = Channel(self._source, self._sink, self._lent)
        self._saying = threading.Lock()
        self._how = ""
        self.say("arguments", target.arguments)
        self._thread = threading.Thread(target=self._listen, name=target.name, daemon=True)
        self._thread.start()

    def _opened(self) -> IO[bytes]:
        if self.target.log is None:
            return tempfile.TemporaryFile("a+b")
        self.target.log.parent.mkdir(parents=True, exist_ok=True)
        return self.target.log.open("a+b")

    def _listen(self) -> None:
        with contextlib.suppress(EOFError, OSError, ValueError), self._source:  # ValueError: no message of ours
            while True:
                message, seconds = self._channel.receive()
                message.facts["seconds_on_the_way"] = seconds
                self._take(message)
        self._take(Message("ended", {"how": self.how()}, {}))

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None: it runs."""
        return self._process.poll()

    def say(self, kind: str, facts: Mapping[str, Any] = NO_FACTS, arrays: Arrays = NO_ARRAYS) -> None:
        """Say something."""
        with self._saying, contextlib.suppress(OSError):
            if not self._sink.closed:
                self._channel.send(kind, facts, arrays, through_memory=self._lent is not None and bool(arrays))

    def how(self) -> str:
        """How it ended."""
        if not self._how:
            try:
                code = self._process.wait(_CLOSE_S)
            except subprocess.TimeoutExpired:
                return "its connection, and goes on"
            self._how = f"{_named(code)}{self._last_words()}"
        return self._how

    def _last_words(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            size = self._printed.seek(0, os.SEEK_END)
            self._printed.seek(max(0, size - _TAIL_BYTES))
            last = "".join(f": {line}" for line in self._printed.read().decode("utf-8", "replace").splitlines()[-1:])
            return last if self.target.log is None else f"; see {self.target.log}{last}"
        return ""

    def stop(self) -> None:
        """Let it know that nothing more will be said."""
        if self._saying.acquire(timeout=_CLOSE_S):  # whoever says something may wait for a process that hears nothing
            with contextlib.suppress(OSError):
                self._sink.close()
            self._saying.release()

    def end(self, patience_s: float = _CLOSE_S) -> None:
        """The same, and wait for its end."""
        self.stop()
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._thread.join(_CLOSE_S)
        self.how()
        self._close_files()

    def _close_files(self) -> None:
        self._printed.close()
        if self._lent is not None:
            self._lent.close()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_S)


def _named(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    killed = " (somebody killed it; if that was the system, memory was short)" if code == -signal.SIGKILL else ""
    return f"by {signal.Signals(-code).name}{killed}"


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """A process that is started inside is spared the trainer's signals from its first moment on.

    On Windows :func:`launch` sees to that.
    """
    if sys.platform == "win32":
        yield
        return
    trainers = {getattr(signal, name) for name in _TRAINERS_SIGNALS if hasattr(signal, name)}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, trainers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _PipedParent(Parent):
    """In a process: standard input and output are the pipes; the trainer's signals are ignored from here on."""

    def __init__(self, wiring: Mapping[str, Any]) -> None:
        for name in _TRAINERS_SIGNALS:
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.SIG_IGN)
        source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)  # whatever prints must not end up between two messages, but in the log
        sys.stdout = sys.stderr
        self._channel = Channel(source, sink, SharedBytes(wiring["lent"]) if "lent" in wiring else None)
        self._saying = threading.Lock()
        self._weights: Sequence[str] = wiring["weights"]
        self.status = np.zeros(STATUS, np.int64)
        if "status" in wiring:
            place, seats, width, seat = wiring["status"]
            content = SharedBytes(place).view(8 * seats * width)
            self.status = np.frombuffer(content, np.int64).reshape(seats, width)[seat]
        self.arguments = self.hear().facts

    def say(self, kind: str, facts: Mapping[str, Any] = NO_FACTS, arrays: Arrays = NO_ARRAYS) -> None:
        """Say something."""
        try:
            with self._saying:
                self._channel.send(kind, facts, arrays)
        except OSError as error:
            raise GoneError from error

    def hear(self) -> Message:
        """What is said next."""
        try:
            return self._channel.receive()[0]
        except (EOFError, OSError) as error:
            raise GoneError from error

    def newest(self, reference: Mapping[str, Any]) -> WeightMemory:
        """The weights that the trainer writes."""
        return WeightMemory(SharedBytes(self._weights[reference["number"]]), reference["layout"])

    def leave(self, code: int = 0) -> None:
        """End this process at once."""
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Be what was launched, until its work is over."""
    name = sys.argv[1]
    with contextlib.suppress(OSError):  # its name in ps and top
        Path("/proc/self/comm").write_text(name.rpartition(".")[2], "utf-8")
    with contextlib.suppress(GoneError):
        _PipedParent(json.loads(sys.argv[2])).be(name)


if __name__ == "__main__":
    main()
