"""The contract of an engine's server, which two fulfil: our own on loopback, grpcio's wherever others may connect."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod


class Server(ABC):
    """Receives an engine's calls one at a time and answers each when told to.

    Use: ``port = await start()``, then ``data = await receive()`` and ``reply(...)`` in turn, ``await stop()``.
    """

    def __init__(self) -> None:
        self.port = 0
        self._waiter: asyncio.Future[bytes] | None = None
        self._arrived: bytes | None = None

    @abstractmethod
    async def start(self, port: int = 0) -> int:
        """Listen; port 0 lets the system choose. Returns the port. Raises PortInUseError."""

    def receive(self) -> asyncio.Future[bytes]:
        """A future of the engine's next message. It can be cancelled or given an exception from outside."""
        waiter: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if self._arrived is not None:
            waiter.set_result(self._arrived)
            self._arrived = None
        else:
            self._waiter = waiter
        return waiter

    def _deliver(self, data: bytes) -> None:
        """Hand the engine's message to whoever waits for it, or keep it until somebody asks."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(data)
        else:
            self._arrived = data

    @property
    @abstractmethod
    def owes_reply(self) -> bool:
        """Whether the engine stands still, waiting for us."""

    @abstractmethod
    def reply(self, data: bytes) -> None:
        """Answer the call that is pending; without one this does nothing (the engine is gone)."""

    @abstractmethod
    async def stop(self, grace: float = 0.5) -> None:
        """Stop listening; what is still open ends after ``grace`` seconds."""
