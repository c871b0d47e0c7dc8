"""The server of one Godot game: messages with a length before them (Godot's ``put_string``), on loopback.

The trainer speaks first. From then on, the game sends one message for each of the trainer's.
"""

from __future__ import annotations

import asyncio
from typing import Final

from typing_extensions import override

from tau_trainer.bridge.dialect import Dialect
from tau_trainer.bridge.godot.dialect import GREETING
from tau_trainer.bridge.http2 import MAX_MESSAGE
from tau_trainer.bridge.server import ANYBODY, Admission, EngineServer, Link

_LENGTH: Final = 4
"""Bytes of a message's length: unsigned, little-endian."""
_FIRST_MESSAGE: Final = 2**22
"""Maximum bytes of a message from an unknown caller. An introduction has a few hundred for each agent."""


def framed(message: bytes) -> bytes:
    """A message as Godot's ``get_string`` reads it."""
    return len(message).to_bytes(_LENGTH, "little") + message


class GodotServer(EngineServer):
    """See :class:`~tau_trainer.bridge.server.Server`."""

    def __init__(self, dialect: Dialect, admission: Admission = ANYBODY) -> None:
        super().__init__(admission)
        self.dialect = dialect

    @override
    def _link(self) -> Link:
        return _Link(self)


class _Link(Link):
    """One connection."""

    def __init__(self, server: EngineServer) -> None:
        super().__init__(server)
        self._limit = _FIRST_MESSAGE
        self._received = bytearray()
        self._due = 1
        """Number of messages that the other side may still send."""
        self._wrong: str | None = None
        """Why nothing more is read."""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._transport.write(b"".join(map(framed, GREETING)))

    @property
    @override
    def dialect(self) -> Dialect:
        return self._server.dialect

    @override
    def data_received(self, data: bytes) -> None:
        self._received += data
        while self._wrong is None and len(self._received) >= _LENGTH:
            size = int.from_bytes(self._received[:_LENGTH], "little")
            if size > self._limit:
                self._reject(f"its message would have {size:,} bytes, and {self._limit:,} is the limit")
            elif not self._due:
                self._reject("it sent a message before the trainer had answered the last one")
            elif len(self._received) < _LENGTH + size:
                return
            else:
                message = bytes(self._received[_LENGTH : _LENGTH + size])
                del self._received[: _LENGTH + size]
                self._due -= 1
                self._server.called(self, 0, message)

    def _reject(self, why: str) -> None:
        self._wrong = why
        self._server.declined(self, why)
        self._transport.close()

    @override
    def trust(self) -> None:
        self._limit = MAX_MESSAGE

    @override
    def respond(self, stream: int, data: bytes) -> None:
        self._due += 1
        self._transport.write(framed(data))

    @override
    def refuse(self, stream: int, why: str, status: bytes) -> None:
        self._wrong = why
        self._transport.close()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._server.closed(self, "closed the connection" if self._wrong is None else f"was cut off: {self._wrong}")
