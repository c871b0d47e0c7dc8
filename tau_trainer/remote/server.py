"""``python -m tau_trainer.remote.server FILE``: forks processes whose modules are already loaded (:mod:`.forking`).

FILE is the number of an open socket. A request is one packet: JSON, with the files of the new process. Modules loaded
here must not start threads or use a GPU; if one does, processes are started as new programs instead. The client
handles signals.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any

from tau_trainer.remote import forking

_MOST_FILES = 64
_ABOVE = 512
"""Files are moved above this number before each gets its final number."""
_LEFT = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")


class _Server:
    """Forks processes until no client is left."""

    def __init__(self, asked: socket.socket) -> None:
        self._asked = asked
        self._statuses: dict[int, int] = {}
        """By process: the file to which its end is reported."""
        self._woken, self._waking = os.pipe()

    def serve(self) -> _Process | None:
        """Serve requests. Returns in every forked process, and None in the server at its end."""
        for name in _LEFT:
            signal.signal(getattr(signal, name), signal.SIG_IGN)
        os.set_blocking(self._waking, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waking, warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._asked, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is not self._asked:
                        os.read(self._woken, 4096)
                        self._tell_ends()
                        continue
                    packet, files, _, _ = socket.recv_fds(self._asked, forking.MOST_BYTES, _MOST_FILES)
                    if not packet:
                        return None
                    asking, status, *others = files
                    process = _Process(json.loads(packet), asking, status, others)
                    process.load()
                    number = os.fork()
                    if not number:
                        self._leave()
                        return process
                    self._statuses[number] = process.status
                    self._tell(process.status, number)
                    for file in (process.asking, *process.files):
                        os.close(file)

    def _tell_ends(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                number, status = os.waitpid(-1, os.WNOHANG)
                if not number:
                    return
                file = self._statuses.pop(number)
                self._tell(file, os.waitstatus_to_exitcode(status))
                os.close(file)

    @staticmethod
    def _tell(file: int, number: int) -> None:
        with contextlib.suppress(OSError):  # no one reads it any more
            os.write(file, number.to_bytes(forking.NUMBER, "little", signed=True))

    def _leave(self) -> None:
        """In a forked process: release the server's resources."""
        signal.set_wakeup_fd(-1)
        self._asked.close()
        for file in (self._woken, self._waking, *self._statuses.values()):
            os.close(file)


class _Process:
    """A requested process: in the server before the fork, then in the process itself."""

    def __init__(self, asked: dict[str, Any], asking: int, status: int, files: Sequence[int]) -> None:
        self.asking, self.status, self.files = asking, status, files
        self._request = asked
        self._forks = True

    def load(self) -> None:
        """In the server: load its modules. Errors in them are ignored here; the process will see them itself."""
        for module in (self._request["module"], *self._request["preload"]):
            if module not in sys.modules:
                with contextlib.suppress(Exception):
                    importlib.import_module(module)
                gc.collect()
                gc.freeze()  # garbage collection would write to shared pages
        self._forks = _clean()

    def become(self) -> None:
        """Take over folder, files, variables and signals."""
        asked = self._request
        os.close(self.status)
        high = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for file in (self.asking, *self.files)]
        for file in (self.asking, *self.files):
            os.close(file)
        for file, number in zip(high[1:], asked["files"], strict=True):
            os.dup2(file, number)
            os.close(file)
        forking.inherit(socket.socket(fileno=high[0]))
        os.chdir(asked["folder"])
        os.environ.clear()
        os.environ.update(asked["environment"])
        sys.path[:] = asked["paths"]
        for name in (*_LEFT, "SIGCHLD"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, asked["blocked"])

    def run(self) -> Any:
        """Do its work; returns the result of its ``main``."""
        module, arguments = self._request["module"], self._request["arguments"]
        if not self._forks:
            variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            os.execve(sys.executable, [sys.executable, "-P", "-m", module, *arguments], variables)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed()  # as if freshly loaded
        work = importlib.import_module(module)
        sys.argv = [str(work.__file__), *arguments]
        return work.main()


def _clean() -> bool:
    """Whether this process has one thread and nothing on a GPU."""
    torch = sys.modules.get("torch")
    return len(os.listdir("/proc/self/task")) == 1 and not (torch and torch.cuda.is_initialized())


def main() -> None:
    """Serve requests; in a forked process, run the requested module."""
    server = _Server(socket.socket(fileno=int(sys.argv[1])))
    process = server.serve()
    if process is None:
        os._exit(0)  # no cleanup is needed, and the client waits
    process.become()
    sys.exit(process.run())


if __name__ == "__main__":
    main()
