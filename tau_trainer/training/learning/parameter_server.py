"""A parameter server: processes that learn separately, each from rollouts of its own, and their common state.

A learner fetches the newest state, makes a whole update from one piece of work, and returns the change of its
parameters, which is added to the newest ones, even if others have changed these meanwhile. (A replica of DistBelief's
Downpour SGD, Dean et al. 2012, pushes the sum of its gradients since its last fetch, and so does a worker of Ho et al.
2013, whose updates are additive and whose staleness is bounded. TensorFlow's ``ParameterServerStrategy`` sends the
gradient of every minibatch: for networks of this size a message would cost more than the minibatch.)

The server holds the state, including the optimizer's, so nothing is lost if a learner dies.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import Arrays
from tau_trainer.errors import LearnerError
from tau_trainer.metrics import keys
from tau_trainer.remote.process import Message
from tau_trainer.training.learning.figures import Lag
from tau_trainer.training.learning.group import Ranked
from tau_trainer.training.learning.process import NO_TAKES, LearnerProcess, Takes

T = TypeVar("T")
_LEARNED = "model."
"""Prefix of the names of parameters in a state."""


class _State(NamedTuple):
    """State of an algorithm after ``version`` updates."""

    version: int
    arrays: Arrays
    data: Mapping[str, Any]


@dataclass(slots=True)
class _Served:
    """One algorithm."""

    made: Message
    """The request that made it."""
    newest: _State
    begun: list[int] = field(default_factory=list)
    """Versions from which the current updates started."""

    def add(self, before: _State, after: _State) -> int:
        """Add the changes of an update that led from ``before`` to ``after``; returns how many came between."""
        newest = self.newest
        version, arrays = newest.version + 1, added(newest.arrays, before.arrays, after.arrays)
        self.newest = _State(version, arrays, {**after.data, "version": version})
        return newest.version - before.version


@dataclass(slots=True)
class _Worker:
    """A process that learns, and the algorithms that it has made."""

    rank: int
    process: LearnerProcess
    made: set[str] = field(default_factory=set)


class ParameterServer:
    """Any number of algorithms, several requests at a time. Implements :class:`.process.Learning`.

    Attributes:
        abreast: number of updates that may run at a time.
        staleness: of all updates so far: how many others came between the weights that one started from and those it
            changed.
    """

    def __init__(self, ranked: Ranked, bound: int, warn: Callable[[str], object]) -> None:
        """Start the processes.

        Args:
            ranked: their number and place.
            bound: largest staleness of any update; an update that would exceed it waits.
            warn: called with a sentence if a process is replaced.

        Raises:
            LearnerError, SettingsError: they cannot be started.
        """
        self.staleness = Lag()
        self._ranked, self._bound, self._warn = ranked, bound, warn
        self.abreast, self._devices = ranked.count, ranked.devices()
        self._served: dict[str, _Served] = {}
        self._turn = threading.Condition()
        self._workers = [_Worker(rank, self._started(rank)) for rank in range(ranked.count)]
        self._free = queue.SimpleQueue[_Worker]()
        for worker in self._workers:
            self._free.put(worker)

    def _started(self, rank: int) -> LearnerProcess:
        ranked = self._ranked
        place, log = ranked.place if rank else None, ranked.logs / f"Learner-{rank}.log"
        return LearnerProcess(log, threads=ranked.threads, place=place, joins={"rank": rank, "count": ranked.count})

    def ask(self, request: Message, takes: Takes = NO_TAKES) -> Message:
        """Handle a request; callable from several threads. See :meth:`.LearnerProcess.ask`."""
        kind, name = request.kind, request.data["learner"]
        if kind == "make":
            self._served[name] = _Served(request, _State(0, {}, {}))
            self._served[name].newest = self._with_one(lambda worker: self._state(worker, name))
            return Message("made", {}, {})
        served = self._served[name]
        if kind == "update":
            return self._update(served, request, takes)
        if kind == "load":
            answer, served.newest = self._with_one(
                lambda worker: (self._asked(worker, request), self._state(worker, name))
            )
            return answer
        newest = served.newest
        return Message("state", {"facts": dict(newest.data)}, dict(newest.arrays))

    def _update(self, served: _Served, request: Message, takes: Takes) -> Message:
        name, quiet = request.data["learner"], {**request.data, "publish": False}  # only the common policy acts

        def learn(worker: _Worker) -> Message:
            with self._under_way(served) as before:
                fetched = Message(
                    "load", {"learner": name, "facts": dict(before.data), "fresh": False}, dict(before.arrays)
                )
                self._asked(worker, fetched)
                answer = self._asked(worker, Message(request.kind, quiet, request.arrays), takes)
                after = self._state(worker, name)
                with self._turn:
                    behind = served.add(before, after)
                    version, arrays = served.newest.version, served.newest.arrays
                    self.staleness.add(np.array([behind], np.int32))
            weights = {each: arrays[each if each in arrays else _LEARNED + each] for each in answer.arrays}
            stats = {**answer.data["stats"], keys.STALENESS: float(behind)}
            return Message(answer.kind, {"stats": stats, "version": version}, weights)

        return self._with_one(learn)

    @contextmanager
    def _under_way(self, served: _Served) -> Iterator[_State]:
        """The state that an update starts from, as soon as it cannot make a running update staler than the bound."""
        with self._turn:
            # All others may come before the one that started first.
            self._turn.wait_for(
                lambda: all(served.newest.version - begun + len(served.begun) <= self._bound for begun in served.begun)
            )
            before = served.newest
            served.begun.append(before.version)
        try:
            yield before
        finally:
            with self._turn:
                served.begun.remove(before.version)
                self._turn.notify_all()

    def _with_one(self, do: Callable[[_Worker], T]) -> T:
        """Run ``do`` with a free process. If the process dies, it is replaced, and ``do`` runs once more."""
        worker = self._free.get()
        try:
            return do(worker)
        except LearnerError:
            if (death := worker.process.death) is None:
                raise
            worker.process.close()
            worker.process, worker.made = self._started(worker.rank), set()
            self._warn(f"{death}; learning continues in a new one, from the newest weights")
            return do(worker)
        finally:
            self._free.put(worker)

    def _asked(self, worker: _Worker, request: Message, takes: Takes = NO_TAKES) -> Message:
        """The answer of a process, which first makes the algorithm if it has not yet."""
        name = request.data["learner"]
        if name not in worker.made:
            kind, data, arrays = self._served[name].made
            worker.process.ask(Message(kind, {**data, "device": self._devices[worker.rank]}, arrays))
            worker.made.add(name)
        return worker.process.ask(request, takes)

    def _state(self, worker: _Worker, name: str) -> _State:
        _, data, arrays = self._asked(worker, Message("state", {"learner": name}, {}))
        return _State(int(data["facts"]["version"]), arrays, data["facts"])

    def words(self) -> str:
        """The staleness of updates, in words."""
        stale = self.staleness
        return (
            f"parameter server: {stale.count:,} updates by {self.abreast} processes, staleness {stale.mean:.2f} "
            f"updates, at most {stale.most} (max_staleness {self._bound})"
        )

    def close(self) -> None:
        """End the processes without waiting for a running update."""
        for worker in self._workers:
            worker.process.close()


def added(newest: Arrays, before: Arrays, after: Arrays) -> dict[str, NDArray[Any]]:
    """The state ``newest`` with the changes of an update that led from ``before`` to ``after``.

    Changes of parameters and the rows that a normaliser has seen are added. Everything else (moments of the optimizer,
    random numbers) is taken from ``after``, the latest update: sums of moments would not be moments.
    """
    known: dict[str, NDArray[Any]] = dict(after)
    for name, values in after.items():
        if name.startswith(_LEARNED):
            known[name] = newest[name] + (values - before[name])
        elif name.endswith("squares"):
            known |= _rows_added(name.removesuffix("squares"), newest, before, after)
    return {name: np.asarray(values) for name, values in known.items()}  # sums of single numbers are no arrays


def _rows_added(place: str, newest: Arrays, before: Arrays, after: Arrays) -> dict[str, NDArray[Any]]:
    """Statistics of a normaliser plus the rows between two others: Chan et al. 1983, equation 1.5, and its inverse."""
    names = [place + key for key in ("count", "mean", "squares")]
    (count, mean, squares), earlier, later = ([state[name] for name in names] for state in (newest, before, after))
    rows = later[0] - earlier[0]
    if rows == 0:
        return dict(zip(names, (count, mean, squares), strict=True))
    new_mean = (later[0] * later[1] - earlier[0] * earlier[1]) / rows
    new_squares = later[2] - earlier[2] - (new_mean - earlier[1]) ** 2 * (earlier[0] * rows / later[0])
    total, delta = count + rows, new_mean - mean
    whole = squares + np.maximum(new_squares, 0.0) + delta**2 * (count * rows / total)
    return dict(zip(names, (total, mean + delta * (rows / total), whole), strict=True))
