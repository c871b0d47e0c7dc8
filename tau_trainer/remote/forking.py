"""Client of the fork server, which forks processes whose modules are already loaded.

The server (:mod:`.server`) runs one thread, no torch operations, and nothing on a GPU. It receives requests through an
unnamed pair of sockets, and ends when no client is left. For each forked process, it reports the process ID and later
the exit code through a separate socket.

A child has its own environment variables. Variables that only matter while libraries load (such as
``OMP_NUM_THREADS``) must be equal to the server's; a child that needs others is not forked.
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
"""Other systems have no fork, or loaded frameworks do not survive it."""
AT_START = (
    *("OMP_", "GOMP_", "KMP_", "OPENBLAS_", "GOTO_", "MKL_", "NUMEXPR_", "ATEN_", "TORCH", "PYTORCH_"),
    *("LD_", "MALLOC_", "GLIBC_", "PYTHON", "LC_", "LANG", "TZ"),
)
"""Prefixes of variables that are read while the interpreter and its libraries load."""
MOST_BYTES = 128 << 10
"""Maximum bytes of a request, which is one packet."""
_END_S = 1.0
NUMBER = 8
"""Bytes of a process ID, and of an exit code."""


@dataclass(frozen=True)
class ForkRequest:
    """Describes the process to fork.

    Attributes:
        module: module whose function ``main`` is called.
        arguments: command-line arguments.
        environment: all environment variables.
        folder: working directory.
        paths: module search path.
        shared: open files that it inherits under the same numbers.
        preload: other modules that the server loads, because ``module`` loads them late.
    """

    module: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    paths: Sequence[str]
    shared: Sequence[int] = ()
    preload: Sequence[str] = ()


class Forked:
    """A forked process, with an interface like :class:`subprocess.Popen`, without streams."""

    def __init__(self, status: socket.socket) -> None:
        """``status``: the socket that delivers its process ID, and its exit code when it has ended."""
        self._status = status
        self._heard = b""
        self._over = False
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """Its process ID; waits until the server has forked it. -1: forking failed."""
        while not (self._over or len(self._heard) >= NUMBER):
            self._hear(None)
        return int.from_bytes(self._heard[:NUMBER], "little", signed=True) if len(self._heard) >= NUMBER else -1

    @property
    def returncode(self) -> int | None:
        """Its last known exit code; None while it runs."""
        if not self._over:
            return None
        code = self._heard[NUMBER : 2 * NUMBER]
        # a killed server reports nothing; most likely the process was killed too
        return int.from_bytes(code, "little", signed=True) if len(code) == NUMBER else -int(signal.SIGKILL)

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        self._hear(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its exit code. Raises subprocess.TimeoutExpired after ``timeout`` seconds."""
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
        """Read the server's next bytes, if they arrive in time; call from any thread."""
        try:
            ready = select.poll()
            ready.register(self._status, select.POLLIN)
        except ValueError:  # another thread has read its end
            return
        if not ready.poll(None if timeout is None else 1000.0 * timeout):
            return
        with self._lock:
            if self._over:
                return
            try:
                said = self._status.recv(2 * NUMBER, socket.MSG_DONTWAIT)
            except BlockingIOError:  # another thread has read it
                return
            except OSError:
                said = b""
            self._heard += said
            if not said or len(self._heard) == 2 * NUMBER:
                self._over = True
                self._status.close()


class ForkServer:
    """A fork server and the connection to it."""

    def __init__(self, asking: socket.socket, environment: Mapping[str, str]) -> None:
        """``environment``: the server's environment variables."""
        self._asking = asking
        self._fixed = _at_start(environment)
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def started(cls, environment: Mapping[str, str], paths: Sequence[str]) -> ForkServer:
        """Start a server. Raises OSError."""
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
        """Whether this server can fork a child with these variables."""
        return _at_start(environment) == self._fixed

    def fork(self, request: ForkRequest, streams: Sequence[int]) -> Forked | None:
        """Fork a process with these files as standard input, output and error; None if that is not possible.

        Raises OSError if the server has ended.
        """
        asked = vars(request) | {
            "folder": str(request.folder),
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
        """Disconnect: the server ends when its last client has; forked processes continue."""
        self._asking.close()
        if self._process is not None:
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:  # a forked process is still connected
                self._process.kill()
                self._process.wait()


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(AT_START) and name != "PYTHONPATH"}


_server: ForkServer | None = None
"""This process's server, or the one that forked this process."""
_lock = threading.Lock()


def fork(request: ForkRequest, errors: IO[bytes]) -> tuple[Forked, IO[bytes], IO[bytes]] | None:
    """Fork a process with the server, which is started if necessary.

    Returns the process and our ends of its standard input and output; None: start it in another way.
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


def _forked(request: ForkRequest, streams: Sequence[int]) -> Forked | None:
    global _server
    with _lock:
        for _ in range(2):  # replace a killed server
            try:
                if _server is None:
                    _server = ForkServer.started(request.environment, request.paths)
                return _server.fork(request, streams) if _server.suits(request.environment) else None
            except OSError:
                close()
    return None


def close() -> None:
    """Disconnect from this process's server; the next fork starts a new one."""
    global _server
    if _server is not None:
        _server.close()
    _server = None


def inherit(asking: socket.socket) -> None:
    """In a forked process: use the same server."""
    global _server
    _server = ForkServer(asking, os.environ)


atexit.register(close)
