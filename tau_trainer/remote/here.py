"""Processes on this machine: messages in pipes, arrays and status in shared memory.

A process always ends with the one that launched it. It ignores Ctrl-C and ``kill``: the trainer handles them, and
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
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tau_trainer.columns import Arrays
from tau_trainer.remote.channel import Channel, SharedBytes
from tau_trainer.remote.launching import launch
from tau_trainer.remote.process import (
    NO_ARRAYS,
    NO_DATA,
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
from tau_trainer.specs import Json

_CLOSE_S = 5.0
_TAIL_BYTES = 2000
_TRAINERS_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
"""Signals that only the trainer handles, not its other processes."""


class Here:
    """This machine. Implements :class:`~tau_trainer.remote.process.Place`."""

    def __init__(self, slots: int = 0, weights: int = 0) -> None:
        """Makes the shared memory before the first process, which inherits it: so no named files can be left behind.

        Args:
            slots: rows of :attr:`status`.
            weights: maximum calls of :meth:`newest`.
        """
        self._status = SharedBytes() if slots else None
        content = bytearray() if self._status is None else self._status.view(8 * STATUS * slots)
        self.status = np.frombuffer(content, np.int64).reshape(slots, STATUS)
        self._weights = [SharedBytes() for _ in range(weights)]
        self._used = itertools.count()

    @property
    def _shared(self) -> list[SharedBytes]:
        return self._weights if self._status is None else [self._status, *self._weights]

    def launch(self, target: Target, take: Take | None = None) -> Process:
        """Start a process; see ``Place``."""
        wiring: dict[str, Any] = {"weights": [memory.place for memory in self._weights]}
        if target.slot is not None:
            assert self._status is not None
            self.status[target.slot] = 0
            wiring["status"] = self._status.place, *self.status.shape, target.slot
        return _PipedProcess(target, take, wiring, self._shared)

    def newest(self, layout: Layout) -> WeightMemory:
        """Register weights; see ``Place``. Raises IndexError if there are too many."""
        number = next(self._used)
        return WeightMemory(self._weights[number], layout, number)

    def close(self) -> None:
        """Release the memory; further calls do nothing."""
        for memory in self._shared:
            memory.close()


class _PipedProcess(Process):
    """A process connected by two pipes."""

    def __init__(self, target: Target, take: Take | None, wiring: dict[str, Any], shared: list[SharedBytes]) -> None:
        super().__init__(target, take)
        self._lent = SharedBytes() if target.lends else None
        if self._lent is not None:
            wiring["lent"], shared = self._lent.place, [*shared, self._lent]
        self._printed = target.open_log()
        try:
            with _signals_blocked():
                self._process, self._sink, self._source = launch(
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
        self._channel = Channel(self._source, self._sink, self._lent)
        self._saying = threading.Lock()
        self._how = ""
        self.say("arguments", target.arguments)
        self._thread = threading.Thread(target=self._listen, name=target.name, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        with contextlib.suppress(EOFError, OSError, ValueError), self._source:  # ValueError: not a valid message
            while True:
                message, seconds = self._channel.receive()
                message.data["seconds_on_the_way"] = seconds
                self._take(message)
        self._take(Message("ended", {"how": self.how()}, {}))

    @property
    def pid(self) -> int:
        """Its process ID."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def say(self, kind: str, data: Json = NO_DATA, arrays: Arrays = NO_ARRAYS) -> None:
        """Send a message."""
        with self._saying, contextlib.suppress(OSError):
            if not self._sink.closed:
                self._channel.send(kind, data, arrays, through_memory=self._lent is not None and bool(arrays))

    def how(self) -> str:
        """How it ended."""
        if not self._how:
            try:
                code = self._process.wait(_CLOSE_S)
            except subprocess.TimeoutExpired:
                return "its connection but still runs"
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
        """Tell it that no more messages follow."""
        if self._saying.acquire(timeout=_CLOSE_S):  # a sending thread can be blocked by a process that does not read
            with contextlib.suppress(OSError):
                self._sink.close()
            self._saying.release()

    def end(self, patience_s: float = _CLOSE_S) -> None:
        """Call :meth:`stop` and wait for its end."""
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
    killed = " (it was killed; if the system killed it, memory was low)" if code == -signal.SIGKILL else ""
    return f"by {signal.Signals(-code).name}{killed}"


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Processes started inside ignore the trainer's signals from the start.

    On Windows, :func:`launch` does this.
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
    """The parent, seen from a process: uses standard input and output as pipes, and ignores the trainer's signals."""

    def __init__(self, wiring: Json) -> None:
        for name in _TRAINERS_SIGNALS:
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.SIG_IGN)
        source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)  # printed text must go to the log, not between two messages
        sys.stdout = sys.stderr
        self._channel = Channel(source, sink, SharedBytes(wiring["lent"]) if "lent" in wiring else None)
        self._saying = threading.Lock()
        self._weights: Sequence[str] = wiring["weights"]
        self.status = np.zeros(STATUS, np.int64)
        if "status" in wiring:
            place, slots, width, slot = wiring["status"]
            content = SharedBytes(place).view(8 * slots * width)
            self.status = np.frombuffer(content, np.int64).reshape(slots, width)[slot]
        self.arguments = self.hear().data

    def say(self, kind: str, data: Json = NO_DATA, arrays: Arrays = NO_ARRAYS) -> None:
        """Send a message."""
        try:
            with self._saying:
                self._channel.send(kind, data, arrays)
        except OSError as error:
            raise GoneError from error

    def hear(self) -> Message:
        """The next message."""
        try:
            return self._channel.receive()[0]
        except (EOFError, OSError) as error:
            raise GoneError from error

    def newest(self, reference: Json) -> WeightMemory:
        """The weights that the trainer writes."""
        return WeightMemory(SharedBytes(self._weights[reference["number"]]), reference["layout"])

    def leave(self, code: int = 0) -> None:
        """End this process at once."""
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Run the launched target until its work is done."""
    name = sys.argv[1]
    with contextlib.suppress(OSError):  # its name in ps and top
        Path("/proc/self/comm").write_text(name.rpartition(".")[2], "utf-8")
    with contextlib.suppress(GoneError):
        _PipedParent(json.loads(sys.argv[2])).be(name)


if __name__ == "__main__":
    main()
