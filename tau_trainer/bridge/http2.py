"""The server's end of unary gRPC over HTTP/2, without I/O: bytes in, calls out; answers in, bytes out.

The client's end is :mod:`tau_trainer.headless.http2`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from tau_trainer.bridge.frames import (
    END_HEADERS,
    END_STREAM,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    LARGEST_WINDOW,
    MAX_FRAME_SIZE,
    PREFACE,
    RESPONSE,
    TRAILERS,
    Endpoint,
    ProtocolError,
    frame,
    unwrap,
)

_SETTINGS: Final = {INITIAL_WINDOW_SIZE: LARGEST_WINDOW, MAX_FRAME_SIZE: 2**20}


@dataclass(slots=True)
class Call:
    """A call that has ended on the client's part: its message, or None if there is none or it was broken off."""

    stream: int
    message: bytes | None


class Connection(Endpoint):
    """The server's end. Feed it with :meth:`receive`; write out what :meth:`take` gives after every call."""

    def __init__(self) -> None:
        super().__init__(_SETTINGS)
        self._prefaced = False
        self._bodies: dict[int, bytearray] = {}
        self._calls: list[Call] = []

    def respond(self, stream: int, message: bytes) -> None:
        """Answer a call with status 0; nothing for one that was broken off."""
        if stream in self._windows:
            self._out += frame(HEADERS, END_HEADERS, stream, RESPONSE)
            self._send_message(stream, message)

    def receive(self, data: bytes) -> list[Call]:
        """Calls that are complete with ``data``. Raises ProtocolError."""
        self._buffer += data
        if not self._prefaced:
            if not PREFACE.startswith(self._buffer[: len(PREFACE)]):
                raise ProtocolError("the other side does not speak HTTP/2")
            if len(self._buffer) < len(PREFACE):
                return []
            del self._buffer[: len(PREFACE)]
            self._prefaced = True
        self._read_frames()
        calls, self._calls = self._calls, []
        return calls

    def _on_headers(self, stream: int, *, ended: bool) -> None:
        if stream not in self._bodies:
            self._bodies[stream] = bytearray()
            self._windows[stream] = self._initial_window
        self._on_data(stream, b"", ended=ended)

    def _on_data(self, stream: int, payload: bytes | bytearray, *, ended: bool) -> None:
        body = self._bodies.get(stream)
        if body is not None:
            body += payload
            if ended:
                self._calls.append(Call(stream, unwrap(self._bodies.pop(stream))))

    def _on_break(self, stream: int) -> None:
        """The client gives up a call, whose answer it may have been waiting for."""
        self._bodies.pop(stream, None)
        self._queue = deque(waiting for waiting in self._queue if waiting.stream != stream)
        if self._windows.pop(stream, None) is not None:
            self._calls.append(Call(stream, None))
        self._flush()  # its data may have stood in the way of others

    def _on_sent(self, stream: int) -> None:
        self._out += frame(HEADERS, END_HEADERS | END_STREAM, stream, TRAILERS)
        del self._windows[stream]
