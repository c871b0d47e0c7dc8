"""The server's end of unary gRPC over HTTP/2, without I/O: bytes in, calls out; answers in, bytes out.

The client's end is :mod:`tau_trainer.headless.http2`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from hpack import Decoder, HPACKError

from tau_trainer.bridge.frames import (
    COMPRESSION_ERROR,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    NO_ERROR,
    PREFACE,
    REFUSED_STREAM,
    RESPONSE,
    RST_STREAM,
    SETTINGS,
    STREAM_CLOSED,
    TRAILERS,
    Endpoint,
    ProtocolError,
    Stream,
    frame,
    literal,
    unwrap,
)
from tau_trainer.bridge.protocol import METHOD, METHODS

MAX_MESSAGE: Final = 2**28
"""Maximum bytes of a message: a step of 3,000 agents with a color camera of 84 x 84. gRPC's default of 4 MiB is too
small, and without a limit anyone who can reach the port could fill the memory."""
_MOST_CALLS: Final = 4
"""Maximum simultaneous calls. An engine makes one, and can cancel it to say goodbye with another."""
_SETTINGS: Final = {MAX_CONCURRENT_STREAMS: _MOST_CALLS, MAX_FRAME_SIZE: 2**20}
NO_METHOD: Final = f"the only method is {METHOD}"
"""Why a call of another method is refused."""
_HEAD: Final = 4
"""Bytes of the first frame that contain its kind."""
INVALID_ARGUMENT = b"3"
_RESOURCE_EXHAUSTED = b"8"
_UNIMPLEMENTED = b"12"
UNAVAILABLE = b"14"
"""gRPC's status codes."""


@dataclass(slots=True)
class Call:
    """A call whose message is complete, or None if the client cancelled it."""

    stream: int
    message: bytes | None


class Connection(Endpoint):
    """The server's end. Pass received bytes to :meth:`receive`; send the bytes of :meth:`take` after every call."""

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        """``limit``: maximum bytes of the messages of all unanswered calls; you can change it later."""
        super().__init__(_SETTINGS)
        self.limit = limit
        self.prefaced = False
        """Whether the other side has sent the HTTP/2 preface."""
        self.error: ProtocolError | None = None
        """The error in the received data. Nothing is read after it; close the connection when all is sent.
        """
        self.declined: str | None = None
        """Why the last call that was not an engine's was refused."""
        self.method = ""
        """The path of the last call that was an engine's."""
        self._paths = _Paths()
        self._held = 0
        self._calls: list[Call] = []

    def respond(self, stream: int, message: bytes) -> None:
        """Answer a call with status 0; does nothing if the call was cancelled."""
        if stream in self._streams:
            self._out += frame(HEADERS, END_HEADERS, stream, RESPONSE)
            self._send_message(stream, message)

    def refuse(self, stream: int, why: str, status: bytes = UNAVAILABLE) -> None:
        """Answer a call with only a status and accept no others; ``why``: ASCII, under 127 bytes."""
        self._end(stream, status, why)
        self._leave(NO_ERROR)

    def receive(self, data: bytes) -> list[Call]:
        """Calls that are complete with ``data``. After an error, :attr:`error` is set; calls before it are returned."""
        if self.error is None:
            self._buffer += data
            try:
                if self.prefaced or self._read_preface():
                    self._read_frames()
            except ProtocolError as error:
                self.error = error
                self._buffer.clear()
                self._leave(error.code)
        calls, self._calls = self._calls, []
        return calls

    def _read_preface(self) -> bool:
        """Whether the preface and the first frame's kind have arrived (RFC 9113, 3.4)."""
        size = len(PREFACE)
        if not PREFACE.startswith(self._buffer[:size]):
            raise ProtocolError("the other side does not speak HTTP/2")
        if len(self._buffer) < size + _HEAD:
            return False
        if self._buffer[size + _HEAD - 1] != SETTINGS:
            raise ProtocolError("the first frame holds no settings")
        del self._buffer[:size]
        self.prefaced = True
        return True

    def _on_headers(self, stream: int, block: bytes, *, ended: bool) -> None:
        paths = self._paths  # always read, because later blocks depend on it
        path = paths.path if block == paths.block else paths.read(block)
        known = self._streams.get(stream)
        if known is not None and known.body is not None and ended:  # trailing fields, which are not needed
            self._on_data(stream, b"", ended=True)
            return
        if stream <= self._last or stream % 2 == 0:  # RFC 9113, 5.1.1
            raise ProtocolError(f"a call on stream {stream} after {self._last}; they are odd and ascend")
        self._last = stream
        if len(self._streams) >= _MOST_CALLS:
            self._out += frame(RST_STREAM, 0, stream, struct.pack(">I", REFUSED_STREAM))
            return
        self._streams[stream] = Stream(self._initial_window, body=bytearray())
        method = "" if path is None else path.decode("latin-1")
        if method not in METHODS:
            self._decline(stream, _UNIMPLEMENTED, NO_METHOD)
            return
        self.method = method
        if ended:
            self._on_data(stream, b"", ended=True)

    def _on_data(self, stream: int, payload: bytes | bytearray, *, ended: bool) -> None:
        known = self._streams[stream]
        if known.body is None:
            raise ProtocolError(f"data on stream {stream} after its end", STREAM_CLOSED)
        known.body += payload
        known.size += len(payload)
        self._held += len(payload)
        if self._held > self.limit:
            self._decline(stream, _RESOURCE_EXHAUSTED, f"a message of more than {self.limit} bytes")
        elif ended:
            message = unwrap(known.body)
            if message is None:
                self._decline(stream, _UNIMPLEMENTED, "a call holds one message")
            else:
                known.body = None
                self._calls.append(Call(stream, message))

    def _on_break(self, stream: int) -> None:
        """The client cancels a call, possibly while it waits for the answer."""
        if self._forget(stream):
            self._calls.append(Call(stream, None))

    def _on_sent(self, stream: int) -> None:
        self._out += frame(HEADERS, END_HEADERS | END_STREAM, stream, TRAILERS)
        self._held -= self._streams.pop(stream).size

    def _forget(self, stream: int) -> bool:
        """Remove a call; returns whether it was open."""
        known = self._streams.get(stream)
        self._held -= known.size if known is not None else 0
        return self._drop(stream)

    def _decline(self, stream: int, status: bytes, why: str) -> None:
        """Refuse a call that is not an engine's."""
        self.declined = why
        self._end(stream, status, why)

    def _end(self, stream: int, status: bytes, why: str) -> None:
        """Answer a call with only a status (PROTOCOL-HTTP2, Trailers-Only)."""
        known = self._streams.get(stream)
        if known is not None:
            fields = literal(b"grpc-status", status) + literal(b"grpc-message", why.encode())
            self._out += frame(HEADERS, END_HEADERS | END_STREAM, stream, RESPONSE + fields)
            if known.body is not None:  # RFC 9113, 8.1: the rest of the message is not needed
                self._out += frame(RST_STREAM, 0, stream, struct.pack(">I", NO_ERROR))
            self._forget(stream)

    def _leave(self, code: int) -> None:
        """Tell the client that no more calls are accepted, and why (RFC 9113, 6.8)."""
        self._out += frame(GOAWAY, 0, 0, struct.pack(">II", self._last, code))


class _Paths:
    """Reads the path out of header blocks (RFC 7541).

    The meaning of a block depends on all blocks before it. But if a block does not change the decoder's table, an
    identical next block has the same meaning and needs no decoding. This applies to all calls of a gRPC library except
    the first few.
    """

    def __init__(self) -> None:
        self._decoder = Decoder()
        self.block: bytes | None = None
        """The last block, if an identical one has the same meaning."""
        self.path: bytes | None = None
        """The path in that block."""

    def read(self, block: bytes) -> bytes | None:
        """The path in ``block``, if any. Raises ProtocolError."""
        before = self._table()
        try:
            fields = {bytes(name): bytes(value) for name, value in self._decoder.decode(block, raw=True)}
        except HPACKError as error:
            raise ProtocolError("a header block that cannot be read", COMPRESSION_ERROR) from error
        self.path = fields.get(b":path")
        self.block = block if self._table() == before else None
        return self.path

    def _table(self) -> tuple[object, ...]:
        table = self._decoder.header_table
        return table.maxsize, *table.dynamic_entries
