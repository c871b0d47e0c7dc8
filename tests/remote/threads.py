"""Processes that are threads, in tests: facts and arrays travel as copies, and nothing else is shared.

So would they on another machine.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from tau_trainer.columns import Arrays
from tau_trainer.remote.process import (
    NO_ARRAYS,
    NO_DATA,
    STATUS,
    GoneError,
    Layout,
    Message,
    Parent,
    PolicyWeights,
    Process,
    Take,
    Target,
)


def _carried(kind: str, data: Mapping[str, Any], arrays: Arrays) -> Message:
    return Message(kind, json.loads(json.dumps(data)), {name: np.array(values) for name, values in arrays.items()})


class Threads:
    """Fulfils Place."""

    def __init__(self, slots: int = 0, weights: int = 0) -> None:
        self.status = np.zeros((slots, STATUS), np.int64)
        self.newest_of: list[Broadcast] = []
        self.launched: list[Thread] = []

    def launch(self, target: Target, take: Take | None = None) -> Process:
        """Start it."""
        self.launched.append(Thread(self, target, take))
        return self.launched[-1]

    def newest(self, layout: Layout) -> Broadcast:
        """Make weights known."""
        self.newest_of.append(Broadcast(len(self.newest_of)))
        return self.newest_of[-1]

    def close(self) -> None:
        """Nothing is shared."""


class Broadcast:
    """Fulfils Publisher and Newest."""

    def __init__(self, number: int) -> None:
        self.reference = {"number": number}
        self.written = self.opts = 0
        self._weights = PolicyWeights(0, 0, {})

    def write(self, weights: Arrays, version: int, opts: int) -> None:
        """Make these the newest."""
        self._weights = PolicyWeights(version, opts, _carried("", {}, weights).arrays)
        self.opts = max(self.opts, opts)
        self.written += 1

    def tell(self, opts: int) -> None:
        """So many gradient steps were taken."""
        self.opts = opts

    def read(self) -> PolicyWeights:
        """The newest."""
        return self._weights


class Thread(Process):
    """One of them."""

    def __init__(self, place: Threads, target: Target, take: Take | None) -> None:
        super().__init__(target, take)
        self.heard = queue.SimpleQueue[Message | None]()
        self.ended = threading.Event()
        self._code: int | None = None
        parent = _Parent(self, place)
        threading.Thread(target=parent.be, args=(target.module,), name=target.name, daemon=True).start()

    @property
    def pid(self) -> int:
        """Of nobody."""
        return 0

    @property
    def exit_code(self) -> int | None:
        """None: it runs."""
        return self._code

    def over(self, code: int) -> None:
        """It has ended."""
        if self._code is None:
            self._code = code
            self.take(Message("ended", {"how": self.how()}, {}))
            self.ended.set()

    def take(self, message: Message) -> None:
        """It says something."""
        message.data["seconds_on_the_way"] = 0.0
        self._take(message)

    def say(self, kind: str, data: Mapping[str, Any] = NO_DATA, arrays: Arrays = NO_ARRAYS) -> None:
        """Say something."""
        self.heard.put(_carried(kind, data, arrays))

    def how(self) -> str:
        """How it ended."""
        return f"with exit code {self._code}"

    def stop(self) -> None:
        """Nothing more will be said."""
        self.heard.put(None)

    def end(self, patience_s: float = 5.0) -> None:
        """The same, and wait."""
        self.stop()
        self.ended.wait(patience_s)

    def kill(self) -> None:
        """The same: a thread cannot be killed."""
        self.stop()


class _Parent(Parent):
    def __init__(self, process: Thread, place: Threads) -> None:
        self.arguments = json.loads(json.dumps(process.target.arguments))
        slot = process.target.slot
        self.status = np.zeros(STATUS, np.int64) if slot is None else place.status[slot]
        self._process, self._place = process, place

    def say(self, kind: str, data: Mapping[str, Any] = NO_DATA, arrays: Arrays = NO_ARRAYS) -> None:
        """Say something."""
        self._process.take(_carried(kind, data, arrays))

    def hear(self) -> Message:
        """What is said next."""
        message = self._process.heard.get()
        if message is None:
            raise GoneError
        return message

    def newest(self, reference: Mapping[str, Any]) -> Broadcast:
        """The weights that are broadcast."""
        return self._place.newest_of[int(reference["number"])]

    def leave(self, code: int = 0) -> None:
        """Be over; a thread that waits goes on waiting."""
        self._process.over(code)
