"""The contract of an engine's server, which two fulfil: our own on loopback, grpcio's wherever others may connect."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tau_trainer.errors import EngineDisconnectedError

MAX_MESSAGE: Final = 2**28
"""Bytes of the largest message that is taken: a step of 3,000 agents with a camera of 84 x 84 in colour. gRPC's own
4 MiB are too few, and without a limit anybody who reaches the port could fill the memory."""
TAKEN: Final = "another engine plays here; every engine needs a port of its own"
"""What a second engine is told."""
NO_ENGINE: Final = "this port waits for an ML-Agents engine, and an engine introduces itself first"
"""What somebody else is told who calls before the engine does."""
_TOLD: Final = 3
"""Calls of strangers that are told of each host, so that one who calls every second fills no log."""


@dataclass(slots=True, eq=False)
class Request:
    """A call of the engine."""

    message: bytes
    answer: Callable[[bytes], None]
    """Does nothing once the engine has broken the call off."""
    key: object = None
    """By which the server knows it."""
    open: bool = True
    """Whether the engine still waits for the answer."""


class Server(ABC):
    """Receives an engine's calls and answers each when told to.

    The first connection with a complete call that finds no :attr:`objection` is the engine's, and nobody else is heard
    or waited for: others are refused.
    Use: ``port = await start()``, then ``data = await receive()`` and ``reply(...)`` in turn, ``await stop()``.
    """

    def __init__(self) -> None:
        self.port = 0
        self._waiter: asyncio.Future[bytes] | None = None
        self._unread: deque[Request] = deque()
        self._read: deque[Request] = deque()
        self._broken: str | None = None
        self.objection: Callable[[bytes], str | None] = lambda message: None
        """Why somebody whose first message is this is no engine; None: it is one."""
        self.on_stranger: Callable[[str, str], None] = lambda peer, why: None
        """Told of who calls before the engine does and is refused: address and port, and why."""
        self._strangers: Counter[str] = Counter()
        """Calls of others before the engine's, by host."""

    @abstractmethod
    async def start(self, port: int = 0) -> int:
        """Listen; port 0 lets the system choose. Returns the port. Raises PortInUseError."""

    @abstractmethod
    async def stop(self, grace: float = 0.5) -> None:
        """Stop listening; what is still open ends after ``grace`` seconds."""

    def receive(self) -> asyncio.Future[bytes]:
        """A future of the engine's next message. It can be cancelled or given an exception from outside.

        It raises EngineDisconnectedError once the engine's connection is gone and all its messages are read.
        """
        waiter: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiter = waiter
        if self._unread:
            self._hand_over()
        elif self._broken is not None:
            waiter.set_exception(EngineDisconnectedError(self._broken))
        return waiter

    @property
    def owes_reply(self) -> bool:
        """Whether the engine stands still, waiting for us."""
        return any(request.open for request in (*self._read, *self._unread))

    def reply(self, data: bytes) -> None:
        """Answer the oldest call that was read, or else the oldest that was not; without one this does nothing."""
        if self._read or self._unread:
            request = (self._read or self._unread).popleft()
            if request.open:
                request.open = False
                request.answer(data)

    def _deliver(self, request: Request) -> None:
        """Hand the engine's message to whoever waits for it, or keep it until somebody asks."""
        self._unread.append(request)
        self._hand_over()

    def _hand_over(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            request = self._unread.popleft()
            self._read.append(request)
            self._waiter.set_result(request.message)

    def _turned_away(self, peer: str, why: str) -> None:
        """Somebody who is no engine has called, and the engine has not yet."""
        host = peer.rpartition(":")[0]
        self._strangers[host] += 1
        if self._strangers[host] <= _TOLD:
            last = "; no more is told of this host" if self._strangers[host] == _TOLD else ""
            self.on_stranger(peer, why + last)

    def _withdraw(self, key: object) -> None:
        """The engine has broken off a call: nobody need read it, and an answer to it goes nowhere."""
        for request in (*self._read, *self._unread):
            request.open = request.open and request.key != key
        self._unread = deque(request for request in self._unread if request.open)

    def _break(self, how: str) -> None:
        """The engine's connection is gone; ``how``: the end of a sentence about it."""
        self._broken = how
        for request in (*self._read, *self._unread):
            request.open = False
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(EngineDisconnectedError(how))
