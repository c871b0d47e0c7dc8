"""Several processes that learn as one: data parallel, each from a part of every minibatch (``--devices N``).

All get the same requests in the same order, and each has all the experience. So if one dies, any other one has
everything that it had.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from tau_trainer.algorithms.ranks import LOOPBACK, device_of, meeting_place
from tau_trainer.errors import LearnerError, TauError
from tau_trainer.remote.process import Message, Place
from tau_trainer.training.learning.process import NO_TAKES, LearnerProcess, Takes

_FOR_ALL = ("make", "update", "load")
"""Requests that change state; only the first rank answers the others."""
_PATIENCE_S = 5.0
"""Seconds to wait for the end of a process after the others noticed its silence."""


@dataclass(frozen=True)
class Ranked:
    """The number of processes that learn together, and where they run.

    Attributes:
        count: number of processes.
        device: of each process; with several GPUs, each has its own.
        logs: folder of their logs.
        threads: number of threads that each uses inside one large operation.
        place: where all but the first run; None: here, on devices of their own.
        host: this machine's address, from their point of view.
    """

    count: int
    device: str
    logs: Path
    threads: int = 1
    place: Place | None = None
    host: str = LOOPBACK

    def devices(self) -> list[str]:
        """One for each rank. Raises SettingsError if there are not enough GPUs."""
        asked = torch.device(self.device)
        if self.place is not None:
            return [self.device, *[asked.type] * (self.count - 1)]
        return [str(device_of(rank, self.count, asked)) for rank in range(self.count)]


class LearnerGroup:
    """Processes for any number of algorithms, one request at a time. Implements :class:`.process.Learning`."""

    abreast = 1

    def __init__(self, ranked: Ranked, warn: Callable[[str], object]) -> None:
        """Start them. ``warn``: called with a sentence if one is replaced. Raises LearnerError, SettingsError."""
        self._ranked, self._warn = ranked, warn
        self._devices = ranked.devices()
        self._lock = threading.Lock()
        self._made: dict[str, Message] = {}
        """By learner: the request that made its algorithms."""
        self._begin()

    def _begin(self) -> None:
        ranked = self._ranked
        self._store = meeting_place(ranked.host, ranked.count)
        self._processes: list[LearnerProcess] = []
        for rank, device in enumerate(self._devices):
            joins = {"rank": rank, "count": ranked.count, "device": device}
            joins |= {"host": ranked.host, "port": self._store.port}
            place, log = ranked.place if rank else None, ranked.logs / f"Learner-{rank}.log"
            self._processes.append(LearnerProcess(log, threads=ranked.threads, place=place, joins=joins))

    def ask(self, request: Message, takes: Takes = NO_TAKES) -> Message:
        """Send a request to all, and wait for the first rank's answer; see :meth:`.LearnerProcess.ask`.

        If a process dies, it is replaced once per request with the state of the others, and the request is sent again.
        """
        with self._lock:
            try:
                answer = self._ask(request, takes)
            except LearnerError as error:
                if (death := self._death()) is None:
                    raise
                self._replace(death, error)
                answer = self._ask(request, takes)
            if request.kind == "make":
                self._made[request.data["learner"]] = request
            return answer

    def _ask(self, request: Message, takes: Takes = NO_TAKES) -> Message:
        kind, data, arrays = request
        if kind not in _FOR_ALL:
            return self._processes[0].ask(request)
        for rank, process in enumerate(self._processes):
            device = {"device": self._devices[rank]} if kind == "make" else {}
            silent = {"publish": False, "batches": False} if rank else {}  # only the first reports
            process.say(Message(kind, {**data, **device, **silent}, arrays))
        answers, errors = list[Message](), list[TauError]()
        for rank, process in enumerate(self._processes):
            try:
                answers.append(process.answer(NO_TAKES if rank else takes))
            except TauError as error:  # still receive the others' answers
                errors.append(error)
        if errors:
            raise errors[0]
        return answers[0]

    def _death(self) -> str | None:
        """How a process died, if one has, or does within a moment; otherwise None."""
        until = time.monotonic() + _PATIENCE_S
        while True:
            deaths = [process.death for process in self._processes]
            found = next((death for death in deaths if death is not None), None)
            if found is not None or time.monotonic() > until:
                return found
            time.sleep(0.05)

    def _replace(self, death: str, error: LearnerError) -> None:
        """Restart all processes with the state of a remaining one. Raises ``error`` if none remains."""
        left = next((process for process in self._processes if process.death is None), None)
        if left is None:
            raise error
        known = {name: left.ask(Message("state", {"learner": name}, {})) for name in self._made}
        self.close()
        self._begin()
        for name, made in self._made.items():
            self._ask(made)
            _, state, arrays = known[name]
            self._ask(Message("load", {"learner": name, "facts": state["facts"], "fresh": False}, arrays))
        data = [state.data["facts"] for state in known.values()]
        lost = any("seen" in each and "replay" not in each for each in data)
        empty = "; the replay memory starts empty (save_replay_buffer: true keeps it)" if lost else ""
        self._warn(f"{death}; learning continues in a new one, with the state of the others{empty}")

    def close(self) -> None:
        """End them without waiting for a running update."""
        for process in self._processes:
            process.close()
