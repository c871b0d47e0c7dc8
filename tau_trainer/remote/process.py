"""The interface between this program and its other processes, on any machine.

:mod:`.here` implements it with pipes and shared memory, for processes on this machine. Code outside of this folder sees
no files, forks or pointers. So :mod:`tau_trainer.cluster` can implement it with messages only: facts that JSON can
represent, and arrays.

| | launching end | the process |
| --- | --- | --- |
| launch | :meth:`Place.launch` of a :class:`Target` | ``work(parent)``; :attr:`Parent.arguments` |
| say, hear | :meth:`Process.say`, :meth:`Process.hear` | the same methods of :class:`Parent` |
| newest weights | :meth:`Place.newest`: a :class:`Publisher` | :meth:`Parent.newest`: the :class:`Newest` |
| status | :attr:`Place.status` | :attr:`Parent.status` |
| failure | the process's own TauError | :meth:`Parent.fail` |
| death | the target's ``failure``, with :meth:`Process.how` | :class:`GoneError` |
"""

from __future__ import annotations

import contextlib
import importlib
import queue
import sys
import tempfile
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tau_trainer import errors
from tau_trainer.columns import Arrays
from tau_trainer.errors import TauError
from tau_trainer.shown import shown
from tau_trainer.specs import Json

STATUS = 8
"""Status numbers of a process: one cache line, so that no two processes write to the same one."""
Layout = Sequence[tuple[str, str, Sequence[int]]]
"""Name, type and shape of each array, in storage order; JSON can represent it."""
NO_DATA: Json = {}
NO_ARRAYS: Arrays = {}


class GoneError(Exception):
    """The process that launched this one has ended, or needs it no longer."""


class Message(NamedTuple):
    """A message from one end to the other. Nothing is pickled."""

    kind: str
    """Kind of message; ``error`` and ``ended`` are reserved."""
    data: dict[str, Any]
    """JSON."""
    arrays: dict[str, NDArray[Any]]


Take = Callable[[Message], None]


@dataclass(frozen=True)
class Target:
    """Describes the process to launch.

    Attributes:
        module: has ``work(parent)``; when that returns, the process ends without waiting for its threads.
        arguments: JSON, for :attr:`Parent.arguments`. The value of ``address`` is always replaced by the address of the
            machine that it runs on.
        name: its name in messages: ``actor 1``.
        failure: raised if it ends, cannot be started, or fails with another error than a TauError.
        log: file for its output; None: only the last line is reported, when it ends.
        slot: its row of :attr:`Place.status`.
        lends: arrays that it receives are valid only until it has answered, so they need not be copied.
        several: more processes like it will follow.
        preload: modules that it loads late.
        folders: arguments that name a folder to write to; a machine without such a folder uses another one.
    """

    module: str
    arguments: Json
    name: str
    failure: type[TauError]
    log: Path | None = None
    slot: int | None = None
    lends: bool = False
    several: bool = False
    preload: Sequence[str] = ()
    folders: Sequence[str] = ()

    def open_log(self) -> IO[bytes]:
        """Open its log to append to it, in a new folder if necessary; a temporary file if it has no log."""
        if self.log is None:
            return tempfile.TemporaryFile("a+b")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        return self.log.open("a+b")


class Process(ABC):
    """The launching end of a process. You can use it from any thread."""

    def __init__(self, target: Target, take: Take | None) -> None:
        self.target = target
        self._inbox = queue.SimpleQueue[Message]()
        self._take = take or self._inbox.put

    @property
    def node(self) -> str:
        """The machine on which it runs; empty: this one."""
        return ""

    @property
    def called(self) -> str:
        """Its name and machine for messages: ``actor 1 on n2``."""
        return f"{self.target.name} on {self.node}" if self.node else self.target.name

    @property
    @abstractmethod
    def pid(self) -> int:
        """Its process ID."""

    @property
    @abstractmethod
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs; negative: minus the number of the signal that ended it."""

    @abstractmethod
    def say(self, kind: str, data: Json = NO_DATA, arrays: Arrays = NO_ARRAYS) -> None:
        """Send a message. To find out that the process has ended, call :meth:`hear`."""

    def hear(self, limit_s: float | None = None) -> Message:
        """Its next message, if :meth:`Place.launch` got no ``take``. It includes the fact ``seconds_on_the_way``.

        Raises:
            TimeoutError: no message arrived in time.
            TauError: it failed with that error. ``target.failure``: it has ended, or failed with another error.
        """
        try:
            message = self._inbox.get(timeout=limit_s)
        except queue.Empty:
            raise TimeoutError from None
        if message.kind == "ended":
            self._inbox.put(message)  # for the next call
        return self.checked(message)

    def checked(self, message: Message) -> Message:
        """``message``; if it reports that the process has failed or ended, raises that instead, see :meth:`hear`."""
        kind, data, _ = message
        if kind == "ended":
            raise self.target.failure(f"{self.called} ended {data['how']}")
        if kind == "error":
            found = getattr(errors, str(data["type"]), None)
            if isinstance(found, type) and issubclass(found, TauError):
                raise found(f"{self.called}: {data['text']}" if self.node else data["text"])
            raise self.target.failure(f"{self.called} failed: {data['type']}: {data['text']}")
        return message

    @abstractmethod
    def how(self) -> str:
        """How it ended: its exit code or signal, its log and the log's last line."""

    @abstractmethod
    def stop(self) -> None:
        """Tell it that no more messages follow, so that it ends soon."""

    @abstractmethod
    def end(self, patience_s: float = 5.0) -> None:
        """Call :meth:`stop` and wait for its end; kill it if that takes too long."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once, even if it is suspended; waits for its end for a limited time."""


class PolicyWeights(NamedTuple):
    """Weights of a policy."""

    version: int
    """Version of the policy."""
    opts: int
    """Gradient steps up to this version."""
    arrays: dict[str, NDArray[Any]]
    """Copies."""


class Newest(Protocol):
    """The newest weights, for reading. Readers and the writer never wait for each other."""

    @property
    def written(self) -> int:
        """Number of writes so far: if it has grown, there are newer weights."""

    @property
    def opts(self) -> int:
        """Gradient steps so far, including those whose weights were not written yet."""

    def read(self) -> PolicyWeights:
        """The newest weights. Raises RuntimeError if nothing was written yet."""


class Publisher(Protocol):
    """The newest weights, for writing by the learner."""

    @property
    def reference(self) -> dict[str, Any]:
        """JSON for :meth:`Parent.newest`."""

    def write(self, weights: Arrays, version: int, opts: int) -> None:
        """Make these the newest weights."""

    def tell(self, opts: int) -> None:
        """Set the number of gradient steps taken."""


class Place(Protocol):
    """A place to run processes, with the data that they share."""

    status: NDArray[np.int64]
    """int64 [slots, STATUS]: the current status of each process; zeros when it is launched."""

    def launch(self, target: Target, take: Take | None = None) -> Process:
        """Start a process.

        Args:
            target: the process.
            take: called with every message, in another thread; the last one is ``ended`` with the fact ``how``. None:
                messages wait for :meth:`Process.hear`.

        Raises:
            TauError: the target's ``failure`` if it cannot be started.
        """

    def newest(self, layout: Layout) -> Publisher:
        """Register weights for all processes, also running ones. Raises LearnerError if memory is full."""

    def close(self) -> None:
        """Release shared data after the processes have ended."""


Places = Callable[[int, int], Place]
"""Makes a place from the number of slots and the maximum number of registered weights."""


class Machines(Protocol):
    """Other machines than this one."""

    @property
    def address(self) -> str:
        """This machine's address for them."""

    def place(self, slots: int, weights: int) -> Place:
        """A place on them; see :data:`Places`."""


class Parent(ABC):
    """The launching process, seen from the launched one.

    Attributes:
        arguments: the target's arguments.
        status: int64 [STATUS]; the other end sees changes at once.
    """

    arguments: dict[str, Any]
    status: NDArray[np.int64]

    @abstractmethod
    def say(self, kind: str, data: Json = NO_DATA, arrays: Arrays = NO_ARRAYS) -> None:
        """Send a message; call from any thread. Raises GoneError if the other end has ended."""

    @abstractmethod
    def hear(self) -> Message:
        """The next message. Raises GoneError if the other end has ended."""

    @abstractmethod
    def newest(self, reference: Json) -> Newest:
        """The weights that a :class:`Publisher` writes."""

    @abstractmethod
    def leave(self, code: int = 0) -> None:
        """End this process at once."""

    def listen(self, take: Take = lambda message: None, gone: Callable[[], None] | None = None) -> None:
        """Receive messages in a thread from now on, to notice at once when the other end has ended.

        Then ``gone`` is called; None: the process ends.
        """

        def hear() -> None:
            with contextlib.suppress(GoneError):
                while True:
                    take(self.hear())
            (gone or self.leave)()

        threading.Thread(target=hear, name="parent", daemon=True).start()

    def fail(self, error: Exception) -> None:
        """Report an error as the process's failure; the log gets the details."""
        if isinstance(error, TauError):
            sys.stderr.write(f"{shown(str(error))}\n")
        else:
            sys.stderr.write(shown("".join(traceback.format_exception(error)), lines=True))
        sys.stderr.flush()
        with contextlib.suppress(GoneError):
            self.say("error", {"type": type(error).__name__, "text": str(error)})

    def be(self, module: str) -> None:
        """Do the work of ``module`` and end; if it fails, report the error and end with exit code 1."""
        code = 0
        try:
            importlib.import_module(module).work(self)
        except GoneError:
            pass
        except Exception as error:
            self.fail(error)
            code = 1
        self.leave(code)  # another thread, such as an environment's, may never end
