"""The trainer from an actor's point of view, and the hub that sends numbers to it."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tau_trainer.columns import Arrays
from tau_trainer.metrics import Event, MetricsHub
from tau_trainer.remote.process import NO_ARRAYS, GoneError, Message, Parent, Take
from tau_trainer.specs import Aggregation, Json

News = Callable[[Json], None]
_LAST_S = 5.0
"""Seconds for an environment to end after the trainer has disconnected."""


class TrainerLink:
    """Messages to and from the trainer. A thread receives them, so that a lost trainer is noticed at once.

    Attributes:
        hub: its numbers are sent along with every push.
        parent: the process that launched this one.
    """

    def __init__(self, parent: Parent) -> None:
        self.hub = DistantHub(parent)
        self.parent = parent
        self._answers = queue.SimpleQueue[dict[str, Any] | None]()
        self._accepted = queue.SimpleQueue[dict[str, Any] | None]()
        self._unaccepted = 0
        self._news: News = lambda data: None

    def listen(self, hear: Take, news: News, gone: Callable[[], None]) -> None:
        """Receive messages from now on. Call in the event loop, which also calls ``hear`` and ``gone``.

        Args:
            hear: gets messages that are no answers.
            news: gets the facts that come with the acceptance of a push, in :meth:`wait`.
            gone: called when the trainer has disconnected.
        """
        self._news = news
        loop = asyncio.get_running_loop()

        def take(message: Message) -> None:
            if message.kind == "accepted":
                self._accepted.put(message.data)
            elif message.kind == "answer":
                self._answers.put(message.data)
            else:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(hear, message)

        def end() -> None:
            self._answers.put(None)
            self._accepted.put(None)
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(gone)
            time.sleep(_LAST_S)
            self.parent.leave(1)

        self.parent.listen(take, end)

    def tell(self, kind: str, data: Json, arrays: Arrays = NO_ARRAYS) -> None:
        """Send a message. Raises GoneError if the trainer has disconnected."""
        self.parent.say(kind, data, arrays)

    def ask(self, kind: str, data: Json) -> dict[str, Any]:
        """Send a message and wait for the answer. Raises GoneError if the trainer has disconnected."""
        self.tell(kind, data)
        answer = self._answers.get()
        if answer is None:
            raise GoneError
        return answer

    def push(self, data: Json, arrays: Arrays) -> None:
        """Push transitions once all earlier ones are accepted, which makes an actor wait that is ahead.

        Raises GoneError.
        """
        self.wait()
        self.tell("push", {**data, **self.hub.take()}, arrays)
        self._unaccepted += 1

    def wait(self) -> None:
        """Wait until every push is accepted, and apply the news that come with the acceptance. Raises GoneError."""
        while self._unaccepted:
            news = self._accepted.get()
            if news is None:
                raise GoneError
            self._unaccepted -= 1
            if news:
                self._news(news)


class DistantHub(MetricsHub):
    """Keeps every number until it is sent to the trainer's hub; events are sent at once."""

    def __init__(self, parent: Parent) -> None:
        super().__init__()
        self._parent = parent
        self._records: list[tuple[str, str, int, str | None, list[float]]] = []
        self._episodes: list[tuple[str, list[float], list[float], list[float]]] = []

    def add(
        self,
        behavior: str,
        key: str,
        value: float | ArrayLike,
        aggregation: Aggregation = Aggregation.AVERAGE,
        *,
        pair: int | str | None = None,
    ) -> None:
        """Keep the value."""
        values = np.asarray(value, np.float64).reshape(-1).tolist()
        self._records.append((behavior, key, int(aggregation), None if pair is None else str(pair), values))

    def episode(
        self,
        behavior: str,
        pair: int | str | None,
        returns: ArrayLike,
        lengths: ArrayLike,
        groups: ArrayLike = (),
    ) -> None:
        """Keep the episodes."""
        if np.size(returns):
            totals, decisions, shared = (np.asarray(values).tolist() for values in (returns, lengths, groups))
            self._episodes.append((behavior, totals, decisions, shared))

    def event(self, kind: str, **fields: Any) -> Event:
        """Send the event to the trainer, except states of the pair, which the trainer reports itself."""
        if kind != "pair":
            self._parent.say("event", {"kind": kind, "fields": fields})
        return Event(kind, self.elapsed, fields)

    def take(self) -> dict[str, Any]:
        """Return the kept numbers, and forget them."""
        taken = {"records": self._records, "episodes": self._episodes}
        self._records, self._episodes = [], []
        return taken
