"""The Ray actor on a node. It starts a process as on a single machine, and passes messages in both directions.

Calls and replies contain JSON text, arrays, and bytes; Ray itself pickles the objects around them.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer import __version__, errors
from tau_trainer.columns import Arrays
from tau_trainer.errors import TauError
from tau_trainer.remote.here import Here
from tau_trainer.remote.process import STATUS, Message, Process, Target
from tau_trainer.remote.weights import WeightMemory

LIBRARIES = ("OMP_", "GOMP_", "KMP_", "OPENBLAS_", "MKL_", "NUMEXPR_")
"""Prefixes of variables for the number of threads: nodes get those of the launching machine."""
HEART_S = 0.5
"""Seconds after which a call for messages returns without any, to update the status."""
_MOST_LOGGED = 1 << 18
"""Bytes of a log in one reply."""
Reply = tuple[list[tuple[str, str, dict[str, NDArray[Any]]]], NDArray[np.int64], bytes, float]
"""Messages (kind, facts as JSON, arrays), status int64 [STATUS], new output, seconds of the call on this node."""


class Host:
    """One process on this node. A Ray actor, whose calls come from a :class:`~tau_trainer.cluster.place.RayPlace`."""

    def __init__(self) -> None:
        self._inbox = queue.SimpleQueue[Message]()
        self._newest: list[WeightMemory] = []
        self._writing = threading.Lock()
        self._process: Process | None = None
        self._place: Here | None = None
        self._home = Path(tempfile.mkdtemp(prefix="tau-train-"))
        self._read = 0
        """Bytes of the log that were sent."""

    def begin(self, order: str) -> str:
        """Start the process of ``order`` (:func:`ordered`). Returns JSON: ``refused`` with a sentence, or ``pid``."""
        import ray

        asked, where = json.loads(order), {"node": ray.get_runtime_context().get_node_id()}
        if (problem := different(asked["version"])) is not None:
            self.rest()
            return json.dumps(where | {"refused": problem})
        become_like(asked)
        given, arguments = asked["target"], asked["arguments"]
        for name in given.pop("folders"):
            if not Path(arguments[name]).is_dir():
                arguments[name] = str(self._home)
        if "address" in arguments:
            arguments["address"] = ray.util.get_node_ip_address()
        self._place = Here(1, asked["weights"])
        target = Target(
            arguments=arguments,
            failure=getattr(errors, given.pop("failure")),
            log=self._log if given.pop("log") else None,
            slot=0,
            **given,
        )
        try:
            self._process = self._place.launch(target, self._inbox.put)
        except TauError as error:
            self.rest()
            return json.dumps(where | {"refused": str(error)})
        return json.dumps(where | {"pid": self._process.pid, "log": str(self._log)})

    @property
    def _log(self) -> Path:
        return self._home / "process.log"

    def collect(self, opts: Sequence[int]) -> Reply:
        """New messages of the process, at once or after :data:`HEART_S`; ``opts``: current value of each publisher."""
        began = time.perf_counter()
        with self._writing:
            for newest, taken in zip(self._newest, opts, strict=False):
                newest.tell(max(taken, newest.opts))  # newer weights can arrive before this call
        messages = list[tuple[str, str, dict[str, NDArray[Any]]]]()
        try:
            message = self._inbox.get(timeout=HEART_S)
            while True:
                if message.kind == "ended":
                    assert self._process is not None
                    message.data["code"] = self._process.exit_code
                messages.append((message.kind, json.dumps(message.data), dict(message.arrays)))
                message = self._inbox.get_nowait()
        except queue.Empty:
            pass
        status = np.zeros(STATUS, np.int64) if self._place is None else self._place.status[0].copy()
        return messages, status, self._printed(), time.perf_counter() - began

    def _printed(self) -> bytes:
        """New output."""
        try:
            with self._log.open("rb") as file:
                file.seek(self._read)
                printed = file.read(_MOST_LOGGED)
        except OSError:
            return b""
        self._read += len(printed)
        return printed

    def rest(self) -> bytes:
        """The rest of the output, after it has ended; deletes its folder if it succeeded."""
        printed = b"".join(iter(self._printed, b""))
        self._log.unlink(missing_ok=True)
        if self._process is None or self._process.exit_code == 0 or not os.listdir(self._home):
            shutil.rmtree(self._home, ignore_errors=True)
        return printed

    def say(self, kind: str, data: str, arrays: Arrays) -> None:
        """Send a message to the process."""
        assert self._process is not None
        self._process.say(kind, json.loads(data), arrays)

    def show(self, data: str, references: list[Any]) -> None:
        """Receive weights; ``data``: ``number`` of the publisher, layout, version, opts; ``references``: arrays."""
        import ray

        assert self._place is not None
        shown = json.loads(data)
        arrays: Arrays = ray.get(references[0])
        with self._writing:
            if shown["number"] == len(self._newest):
                self._newest.append(self._place.newest(shown["layout"]))
            self._newest[shown["number"]].write(arrays, shown["version"], shown["opts"])

    def stop(self) -> None:
        """Tell the process that no more messages follow."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()


def ordered(target: Target, weights: int) -> str:
    """The order for :meth:`Host.begin`, as JSON: run ``target`` as on this machine."""
    given = {name: getattr(target, name) for name in ("module", "name", "lends", "preload", "folders")}
    return json.dumps(
        {
            "target": {**given, "failure": target.failure.__name__, "log": target.log is not None},
            "arguments": dict(target.arguments),
            "weights": weights,
            "version": __version__,
            **surroundings(),
        }
    )


def surroundings() -> dict[str, Any]:
    """Modules, folder and threads of this process, for :func:`become_like` on a node."""
    return {
        "folder": str(Path.cwd()),
        "paths": [path for path in sys.path if path],
        "variables": {name: value for name, value in os.environ.items() if name.startswith(LIBRARIES)},
    }


def become_like(asked: Mapping[str, Any]) -> None:
    """Use the launching machine's modules, folder and threads, as far as they exist here."""
    for name in list(os.environ):
        if name.startswith(LIBRARIES):
            del os.environ[name]
    os.environ.update(asked["variables"])
    sys.path.extend(path for path in asked["paths"] if path not in sys.path and Path(path).exists())
    if Path(asked["folder"]).is_dir():
        os.chdir(asked["folder"])


def different(version: str) -> str | None:
    """A sentence if this node's version differs from ``version``; else None."""
    if version == __version__:
        return None
    return f"has tau_trainer {__version__}, but the run has {version}; install tau-trainer=={version} there"


def look(version: str, program: str | None) -> str:
    """Check this node; Ray runs it there. Returns the problem as a sentence without the node's name, or "".

    ``program``: a build that must exist there.
    """
    if (problem := different(version)) is not None:
        return problem
    if program is not None:
        from tau_trainer.bridge.launcher import resolve_executable

        try:
            resolve_executable(program)
        except TauError as error:
            return f"cannot play: {error}"
    return ""
