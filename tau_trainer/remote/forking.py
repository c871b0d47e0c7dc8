"""Processes forked from a server that has their modules loaded: the side that asks.

The server (:mod:`.server`) runs one thread, no operation of torch's, and nothing on a GPU. It is asked through a pair
of sockets without a name, and is gone once nobody is left who could ask. Of a process that it forks it tells, through
a socket of that process's own, the number and in the end the exit code.

A child's variables are its own. Those that count only while libraries are loaded (``OMP_NUM_THREADS`` among them)
must be the server's; a child that wants others is not forked.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

POSSIBLE = sys.platform == "linux"
"""Elsewhere there is no fork, or loaded frameworks do not outlive one."""
AT_START = (
    *("OMP_", "GOMP_", "KMP_", "OPENBLAS_", "GOTO_", "MKL_", "NUMEXPR_", "ATEN_", "TORCH", "PYTORCH_"),
    *("LD_", "MALLOC_", "GLIBC_", "PYTHON", "LC_", "LANG", "TZ"),
)
"""How the names of variables begin that are read while the interpreter and its libraries are loaded."""
MOST_BYTES = 128 << 10
"""Of one request: it is one packet."""
_END_S = 1.0
NUMBER = 8
"""Bytes of a process's number, and of an exit code."""


@dataclass(frozen=True)
class Request:
    """What is to be forked.

    Attributes:
        module: its function ``main`` is called.
        arguments: of the command line.
        environment: all variables.
        folder: working directory.
        paths: where modules are looked for.
        shared: open files that it gets under the same numbers.
        preload: modules that the server loads besides, for a module that loads them late.
    """

    module: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    paths: Sequence[str]
    shared: Sequence[int] = ()
    preload: Sequence[str] = ()


class Forked:
    """A process that the server forked: what :class:`subprocess.Popen` is for a child, without its streams."""

    def __init__(self, status: socket.socket) -> None:
        """``status``: brings its number, and its exit code when it has ended."""
        self._status = status
        self._heard = b""
        self._over = False
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """Its number; waits until the server has forked it. -1: it could not."""
        while not (self._over or len(self._heard) >= NUMBER):
            self._hear(None)
        return int.from_bytes(self._heard[:NUMBER], "little", signed=True) if len(self._heard) >= NUMBER else -1

    @property
    def returncode(self) -> int | None:
        """As it was last known."""
        if not self._over:
            return None
        code = self._heard[NUMBER : 2 * NUMBER]
        # a server that was killed tells nothing any more, and most likely somebody has killed both
        return int.from_bytes(code, "little", signed=True) if len(code) == NUMBER else -int(signal.SIGKILL)

    def poll(self) -> int | None:
        """Its exit code; None: it runs."""
        self._hear(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code once it has ended. Raises subprocess.TimeoutExpired after ``timeout`` seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0.0:
                assert timeout is not None
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            self._hear(left)
        return code

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def send_signal(self, sig: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None and self.pid > 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def _hear(self, timeout: float | None) -> None:
        """What the server says next, if it says something in time; from any thread."""
        try:
            ready = select.poll()
            ready.register(self._status, select.POLLIN)
        except ValueError:  # another thread has heard its end
            return
        if not ready.poll(None if timeout is None else 1000.0 * timeout):
            return
        with self._lock:
            if self._over:
                return
            try:
                said = self._status.recv(2 * NUMBER, socket.MSG_DONTWAIT)
            except BlockingIOError:  # another thread has heard it
                return
            except OSError:
                said = b""
            self._heard += said
            if not said or len(self._heard) == 2 * NUMBER:
                self._over = True
                self._status.close()


class ForkServer:
    """A server, and how it is asked."""

    def __init__(self, asking: socket.socket, environment: Mapping[str, str]) -> None:
        """``environment``: the server's own."""
        self._asking = asking
        self._fixed = _at_start(environment)
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def started(cls, environment: Mapping[str, str], paths: Sequence[str]) -> ForkServer:
        """Start one. Raises OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        server = cls(ours, environment)
        with theirs:
            server._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tau_trainer.remote.server", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**environment, "PYTHONPATH": os.pathsep.join(paths)},
                pass_fds=[theirs.fileno()],
            )
        return server

    def suits(self, environment: Mapping[str, str]) -> bool:
        """Whether a child with these variables may be forked here."""
        return _at_start(environment) == self._fixed

    def fork(self, request: Request, streams: Sequence[int]) -> Forked | None:
        """Ask for a process with these files for its standard input, output and error; None: it is not possible.

        Raises OSError: the server is gone.
        """
        asked = {
            "module": request.module,
            "arguments": [*request.arguments],
            "environment": dict(request.environment),
            "folder": str(request.folder),
            "paths": [*request.paths],
            "preload": [*request.preload],
            "files": [0, 1, 2, *request.shared],
            "blocked": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
        }
        packet = json.dumps(asked).encode()
        if len(packet) > MOST_BYTES:
            return None
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                files = [self._asking.fileno(), theirs.fileno(), *streams, *request.shared]
                socket.send_fds(self._asking, [packet], files)
            except OSError:
                ours.close()
                raise
        return Forked(ours)

    def close(self) -> None:
        """Let it go: it ends as soon as nobody else can ask; what it has forked goes on."""
        self._asking.close()
        if self._process is not None:
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:  # a process that it forked can ask
                self._process.kill()
                self._process.wait()


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(AT_START) and name != "PYTHONPATH"}


_server: ForkServer | None = None
"""This process's, or the one that it was forked from."""
_lock = threading.Lock()


def fork(request: Request, errors: IO[bytes]) -> tuple[Forked, IO[bytes], IO[bytes]] | None:
    """Have a process forked, by a server that is started where there is none.

    Returns the process and this end of its standard input and output; None: it must be started in another way.
    """
    theirs_in, sink = os.pipe()
    source, theirs_out = os.pipe()
    try:
        forked = _forked(request, [theirs_in, theirs_out, errors.fileno()])
    finally:
        os.close(theirs_in)
        os.close(theirs_out)
    if forked is None:
        os.close(sink)
        os.close(source)
        return None
    return forked, os.fdopen(sink, "wb"), os.fdopen(source, "rb")


def _forked(request: Request, streams: Sequence[int]) -> Forked | None:
    global _server
    with _lock:
        for _ in range(2):  # a server that somebody has killed is replaced
            try:
                if _server is None:
                    _server = ForkServer.started(request.environment, request.paths)
                return _server.fork(request, streams) if _server.suits(request.environment) else None
            except OSError:
                close()
    return None


def close() -> None:
    """Let this process's server go; the next process that is to be forked gets a new one."""
    global _server
    if _server is not None:
        _server.close()
    _server = None


def inherit(asking: socket.socket) -> None:
    """In a forked process: ask the same server."""
    global _server
    _server = ForkServer(asking, os.environ)


atexit.register(close)
