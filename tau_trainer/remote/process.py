"""A process of ours elsewhere: what its two ends promise each other, wherever it runs.

:mod:`.here` fulfils this with pipes and memory that processes of this machine share. Nothing outside of this folder
sees a file, a fork or a pointer, so elsewhere (:mod:`tau_trainer.cluster`) messages alone fulfil it: facts that JSON
can hold, and arrays.

| | whoever launches | the process |
| --- | --- | --- |
| launch | :meth:`Place.launch` of a :class:`Target` | ``work(parent)``; :attr:`Parent.arguments` |
| say, hear | :meth:`Process.say`, :meth:`Process.hear` | the same of :class:`Parent` |
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
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tau_trainer import errors
from tau_trainer.columns import Arrays
from tau_trainer.errors import TauError
from tau_trainer.shown import shown

STATUS = 8
"""Numbers that a process shows: a cache line, so that no two write to the same."""
Layout = Sequence[tuple[str, str, Sequence[int]]]
"""Name, type and shape of each array, in the order in which they are kept; JSON can hold it."""
NO_FACTS: Mapping[str, Any] = {}
NO_ARRAYS: Arrays = {}


class GoneError(Exception):
    """Whoever launched this process is gone, or wants no more of it."""


class Message(NamedTuple):
    """What one end says to the other. Nothing is pickled."""

    kind: str
    """``error`` and ``ended`` are the contract's own."""
    facts: dict[str, Any]
    """JSON."""
    arrays: dict[str, NDArray[Any]]


Take = Callable[[Message], None]


@dataclass(frozen=True)
class Target:
    """What is launched.

    Attributes:
        module: has ``work(parent)``; where that returns the process ends, and no thread of its own is waited for.
        arguments: JSON; :attr:`Parent.arguments`. ``address`` among them: that of the machine that it runs on, as
            others reach it, whatever was given.
        name: who it is, in a sentence: ``actor 1``.
        failure: raised where it ends, cannot be started, or fails by what is no TauError.
        log: gets what it prints; None: only the last line is told, where it ends.
        seat: its row of :attr:`Place.status`.
        lends: arrays that it hears are valid until it has answered; they need not be copied.
        several: there will be more like it.
        preload: modules that it loads late.
        folders: arguments that name a folder to write to; a machine without such a folder gives one of its own.
    """

    module: str
    arguments: Mapping[str, Any]
    name: str
    failure: type[TauError]
    log: Path | None = None
    seat: int | None = None
    lends: bool = False
    several: bool = False
    preload: Sequence[str] = ()
    folders: Sequence[str] = ()


class Process(ABC):
    """The launching end of a process. It may be used from any thread."""

    def __init__(self, target: Target, take: Take | None) -> None:
        self.target = target
        self._inbox = queue.SimpleQueue[Message]()
        self._take = take or self._inbox.put

    @property
    def node(self) -> str:
        """The machine that it runs on; empty: this one."""
        return ""

    @property
    def called(self) -> str:
        """Who it is, and where, in a sentence: ``actor 1 on n2``."""
        return f"{self.target.name} on {self.node}" if self.node else self.target.name

    @property
    @abstractmethod
    def pid(self) -> int:
        """Its number."""

    @property
    @abstractmethod
    def exit_code(self) -> int | None:
        """None: it runs. Negative: minus the number of the signal that ended it."""

    @abstractmethod
    def say(self, kind: str, facts: Mapping[str, Any] = NO_FACTS, arrays: Arrays = NO_ARRAYS) -> None:
        """Say something. That a process has ended is found by hearing."""

    def hear(self, limit_s: float | None = None) -> Message:
        """What it says next, where :meth:`Place.launch` got no ``take``. A fact ``seconds_on_the_way`` comes with it.

        Raises:
            TimeoutError: nothing in time.
            TauError: it failed by that. ``target.failure``: it has ended, or failed by something else.
        """
        try:
            message = self._inbox.get(timeout=limit_s)
        except queue.Empty:
            raise TimeoutError from None
        if message.kind == "ended":
            self._inbox.put(message)  # for whoever asks again
        return self.checked(message)

    def checked(self, message: Message) -> Message:
        """``message``, unless it says that the process has failed or ended: that is raised, see :meth:`hear`."""
        kind, facts, _ = message
        if kind == "ended":
            raise self.target.failure(f"{self.called} ended {facts['how']}")
        if kind == "error":
            found = getattr(errors, str(facts["type"]), None)
            if isinstance(found, type) and issubclass(found, TauError):
                raise found(f"{self.called}: {facts['text']}" if self.node else facts["text"])
            raise self.target.failure(f"{self.called} failed: {facts['type']}: {facts['text']}")
        return message

    @abstractmethod
    def how(self) -> str:
        """How it ended, with its exit code or signal, its log and the last line of that."""

    @abstractmethod
    def stop(self) -> None:
        """Let it know that nothing more will be said: it ends soon."""

    @abstractmethod
    def end(self, patience_s: float = 5.0) -> None:
        """The same, and wait for its end; it is killed where that takes too long."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once, also where it was stopped; its end is waited for, though not for ever."""


class Weights(NamedTuple):
    """Weights of a policy."""

    version: int
    """Of the policy."""
    opts: int
    """Gradient steps behind it."""
    arrays: dict[str, NDArray[Any]]
    """Copies."""


class Newest(Protocol):
    """The newest weights, for whoever acts with them; nobody ever waits for anybody."""

    @property
    def written(self) -> int:
        """How often weights were written: more than at the last look means that there are newer ones."""

    @property
    def opts(self) -> int:
        """Gradient steps so far, of weights that nobody has seen too."""

    def read(self) -> Weights:
        """The newest. Raises RuntimeError where nothing was written yet."""


class Publisher(Protocol):
    """The newest weights, for the one who learns."""

    @property
    def reference(self) -> dict[str, Any]:
        """JSON: what :meth:`Parent.newest` needs."""

    def write(self, weights: Arrays, version: int, opts: int) -> None:
        """Make these the newest."""

    def tell(self, opts: int) -> None:
        """So many gradient steps were taken."""


class Place(Protocol):
    """Where processes run, and what those that it launches share."""

    status: NDArray[np.int64]
    """[seats, STATUS]: what each process shows of itself, now; zeros when it is launched."""

    def launch(self, target: Target, take: Take | None = None) -> Process:
        """Start a process.

        Args:
            target: what.
            take: called with every message, in another thread; the last is ``ended``, and says ``how``. None: they
                wait for :meth:`Process.hear`.

        Raises:
            TauError: the target's ``failure``: it cannot be started.
        """

    def newest(self, layout: Layout) -> Publisher:
        """Make weights known to the processes, those that run already too. Raises LearnerError without room."""

    def close(self) -> None:
        """Let go of what they share, once they have ended."""


Places = Callable[[int, int], Place]
"""Makes a place with so many seats, where so many weights can become known."""


class Machines(Protocol):
    """Other machines than this one."""

    @property
    def address(self) -> str:
        """This machine's, as they reach it."""

    def place(self, seats: int, weights: int) -> Place:
        """A place on them; see :data:`Places`."""


class Parent(ABC):
    """What a process knows of the one that launched it.

    Attributes:
        arguments: the target's.
        status: int64 [STATUS] that the other end sees at once.
    """

    arguments: dict[str, Any]
    status: NDArray[np.int64]

    @abstractmethod
    def say(self, kind: str, facts: Mapping[str, Any] = NO_FACTS, arrays: Arrays = NO_ARRAYS) -> None:
        """Say something; from any thread. Raises GoneError."""

    @abstractmethod
    def hear(self) -> Message:
        """What is said next. Raises GoneError."""

    @abstractmethod
    def newest(self, reference: Mapping[str, Any]) -> Newest:
        """The weights that a :class:`Publisher` writes."""

    @abstractmethod
    def leave(self, code: int = 0) -> None:
        """End this process at once."""

    def listen(self, take: Take = lambda message: None, gone: Callable[[], None] | None = None) -> None:
        """From now on hear in a thread, so that it is noticed at once when nobody wants any more: then ``gone``.

        None: the process ends.
        """

        def hear() -> None:
            with contextlib.suppress(GoneError):
                while True:
                    take(self.hear())
            (gone or self.leave)()

        threading.Thread(target=hear, name="parent", daemon=True).start()

    def fail(self, error: Exception) -> None:
        """Say by what it has failed; its log gets the details."""
        if isinstance(error, TauError):
            sys.stderr.write(f"{shown(str(error))}\n")
        else:
            sys.stderr.write(shown("".join(traceback.format_exception(error)), lines=True))
        sys.stderr.flush()
        with contextlib.suppress(GoneError):
            self.say("error", {"type": type(error).__name__, "text": str(error)})

    def be(self, module: str) -> None:
        """Do the work of ``module``, and end: with exit code 1 where it fails, which is said."""
        code = 0
        try:
            importlib.import_module(module).work(self)
        except GoneError:
            pass
        except Exception as error:
            self.fail(error)
            code = 1
        self.leave(code)  # a thread of somebody else's, such as an environment's, may never end
