"""The trainer as an actor sees it, and numbers on their way there."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tau_trainer.columns import Arrays
from tau_trainer.metrics import Event, MetricsHub
from tau_trainer.remote.process import NO_ARRAYS, GoneError, Message, Parent, Take
from tau_trainer.specs import Aggregation

News = Callable[[Mapping[str, Any]], None]
_LAST_S = 5.0
"""How long an environment may take to end once the trainer is gone."""


class TrainerLink:
    """What goes to the trainer and what comes back; it is heard in a thread, so that its end is noticed at once.

    Attributes:
        hub: its numbers go along with every push.
        parent: whoever launched this process.
    """

    def __init__(self, parent: Parent) -> None:
        self.hub = DistantHub(parent)
        self.parent = parent
        self._answers = queue.SimpleQueue[dict[str, Any] | None]()
        self._accepted = queue.SimpleQueue[dict[str, Any] | None]()
        self._unaccepted = 0
        self._news: News = lambda facts: None

    def listen(self, hear: Take, news: News, gone: Callable[[], None]) -> None:
        """Hear it from now on; call in the event loop, which ``hear`` and ``gone`` are called in.

        Args:
            hear: gets what it says by itself.
            news: gets what it says with the acceptance of a push, in :meth:`wait`.
            gone: nobody is left to play for.
        """
        self._news = news
        loop = asyncio.get_running_loop()

        def take(message: Message) -> None:
            if message.kind == "accepted":
                self._accepted.put(message.facts)
            elif message.kind == "answer":
                self._answers.put(message.facts)
            else:
                with contextlib.suppress(RuntimeError):  # the loop is over
                    loop.call_soon_threadsafe(hear, message)

        def end() -> None:
            self._answers.put(None)
            self._accepted.put(None)
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(gone)
            time.sleep(_LAST_S)
            self.parent.leave(1)

        self.parent.listen(take, end)

    def tell(self, kind: str, facts: Mapping[str, Any], arrays: Arrays = NO_ARRAYS) -> None:
        """Say something. Raises GoneError."""
        self.parent.say(kind, facts, arrays)

    def ask(self, kind: str, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Say something and wait for the answer. Raises GoneError."""
        self.tell(kind, facts)
        answer = self._answers.get()
        if answer is None:
            raise GoneError
        return answer

    def push(self, facts: Mapping[str, Any], arrays: Arrays) -> None:
        """Hand over transitions, once those before are accepted: here who is ahead waits. Raises GoneError."""
        self.wait()
        self.tell("push", {**facts, **self.hub.take()}, arrays)
        self._unaccepted += 1

    def wait(self) -> None:
        """Wait until everything that was pushed is accepted, and take over what is said with it. Raises GoneError."""
        while self._unaccepted:
            news = self._accepted.get()
            if news is None:
                raise GoneError
            self._unaccepted -= 1
            if news:
                self._news(news)


class DistantHub(MetricsHub):
    """Keeps every number until it goes to the trainer's hub; events go there at once."""

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
        """Keep it."""
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
        """Keep it."""
        if np.size(returns):
            totals, decisions, shared = (np.asarray(values).tolist() for values in (returns, lengths, groups))
            self._episodes.append((behavior, totals, decisions, shared))

    def event(self, kind: str, **fields: Any) -> Event:
        """Hand it on; the pair's states are the trainer's to tell."""
        if kind != "pair":
            self._parent.say("event", {"kind": kind, "fields": fields})
        return Event(kind, self.elapsed, fields)

    def take(self) -> dict[str, Any]:
        """What has gathered."""
        taken = {"records": self._records, "episodes": self._episodes}
        self._records, self._episodes = [], []
        return taken
