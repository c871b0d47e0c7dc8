"""Unary gRPC over cleartext HTTP/2 (RFC 9113), without I/O: bytes in, messages out, and back.

The protocol needs one unary method, no streaming, no compression and no metadata (ML-Agents' protocol, section 1), so
a fraction of HTTP/2 suffices, and an exchange costs tens of microseconds instead of half a millisecond. Header blocks
are never decoded: there is one path, and the outcome of a call is known from its frames. What a general client may
send (pings, priorities, continuations, padding, flow control, settings) is understood.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

_DATA, _HEADERS, _PRIORITY, _RST, _SETTINGS, _PUSH, _PING, _GOAWAY, _WINDOW, _CONTINUATION = range(10)
_END_STREAM, _ACK, _END_HEADERS, _PADDED = 0x1, 0x1, 0x4, 0x8
_INITIAL_WINDOW, _MAX_FRAME, _ENABLE_PUSH = 4, 5, 2
_DEFAULT_WINDOW: Final = 65_535
_LARGEST_WINDOW: Final = 2**31 - 1
_DEFAULT_FRAME: Final = 16_384
_OUR_FRAME: Final = 2**20
_REFILL: Final = 2**29
_HEADER_BYTES: Final = 9
_PREFIX_BYTES: Final = 5


_LENGTHS: Final = {_WINDOW: 4, _PING: 8, _RST: 4}
"""Frames of one size."""


class ProtocolError(Exception):
    """The other side sent something that is not HTTP/2, or a gRPC feature that is not used here."""


def literal(name: bytes, value: bytes) -> bytes:
    """An HPACK field without indexing and without Huffman coding (RFC 7541, 6.2.2); both under 127 bytes."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame: 24-bit length, type, flags, stream id, payload."""
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


_RESPONSE: Final = b"\x88" + literal(b"content-type", b"application/grpc")  # 0x88: `:status: 200` of the static table
_TRAILERS: Final = literal(b"grpc-status", b"0")


def request_headers(path: str, authority: str) -> bytes:
    """The header block of a unary call."""
    return b"".join(
        [
            b"\x83\x86",  # `:method: POST`, `:scheme: http` of the static table
            literal(b":path", path.encode()),
            literal(b":authority", authority.encode()),
            literal(b"te", b"trailers"),
            literal(b"content-type", b"application/grpc"),
        ]
    )


@dataclass(slots=True)
class Call:
    """A call that has ended on the other side's part: its message, or None if it was refused or broken off."""

    stream: int
    message: bytes | None


@dataclass(slots=True)
class _Sending:
    """Data of one stream that the other side's windows do not let through yet."""

    stream: int
    data: memoryview
    tail: bytes
    """Frames that follow the data."""
    ends: bool
    """Whether the last data frame ends the stream."""


class Connection:
    """One end of a connection. Feed it with :meth:`receive`; write out what :meth:`take` gives after every call."""

    def __init__(self, *, client: bool) -> None:
        self._client = client
        self._buffer = bytearray()
        self._out = bytearray()
        self._prefaced = client
        self._bodies: dict[int, bytearray] = {}
        self._window = _DEFAULT_WINDOW
        self._initial_window = _DEFAULT_WINDOW
        self._stream_windows: dict[int, int] = {}
        self._largest_frame = _DEFAULT_FRAME
        self._unread = 0
        self._queue: deque[_Sending] = deque()
        self._next_stream = 1
        self.closing = False
        """The other side takes no more calls (GOAWAY)."""
        settings = struct.pack(">HIHIHI", _INITIAL_WINDOW, _LARGEST_WINDOW, _MAX_FRAME, _OUR_FRAME, _ENABLE_PUSH, 0)
        if not client:
            settings = settings[:12]  # ENABLE_PUSH is a client's setting
        self._out += (PREFACE if client else b"") + frame(_SETTINGS, 0, 0, settings)
        self._out += frame(_WINDOW, 0, 0, struct.pack(">I", _LARGEST_WINDOW - _DEFAULT_WINDOW))

    def take(self) -> bytes:
        """Bytes to send now."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def request(self, headers: bytes, message: bytes) -> int:
        """Begin a call; its stream id. Client only."""
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        self._bodies[stream] = bytearray()
        self._stream_windows[stream] = self._initial_window
        self._out += frame(_HEADERS, _END_HEADERS, stream, headers)
        self._send(stream, message, b"", ends=True)
        return stream

    def respond(self, stream: int, message: bytes) -> None:
        """Answer a call with status 0. Server only."""
        self._out += frame(_HEADERS, _END_HEADERS, stream, _RESPONSE)
        self._send(stream, message, frame(_HEADERS, _END_HEADERS | _END_STREAM, stream, _TRAILERS), ends=False)

    def _send(self, stream: int, message: bytes, tail: bytes, *, ends: bool) -> None:
        data = struct.pack(">BI", 0, len(message)) + message
        self._queue.append(_Sending(stream, memoryview(data), tail, ends))
        self._flush()

    def _flush(self) -> None:
        """Send what the windows let through, first come first served."""
        while self._queue:
            sending = self._queue[0]
            while len(sending.data):
                window = min(self._window, self._stream_windows.get(sending.stream, self._initial_window))
                size = min(window, self._largest_frame, len(sending.data))
                if size <= 0:
                    return
                last = sending.ends and size == len(sending.data)
                self._out += frame(_DATA, _END_STREAM if last else 0, sending.stream, bytes(sending.data[:size]))
                sending.data = sending.data[size:]
                self._window -= size
                if sending.stream in self._stream_windows:
                    self._stream_windows[sending.stream] -= size
            self._out += sending.tail
            self._queue.popleft()
            if not self._client:
                self._stream_windows.pop(sending.stream, None)

    def receive(self, data: bytes) -> list[Call]:
        """Calls (server) or answers (client) that are complete with ``data``. Raises ProtocolError."""
        buffer = self._buffer
        buffer += data
        if not self._prefaced:
            if not PREFACE.startswith(buffer[: len(PREFACE)]):
                raise ProtocolError("the other side does not speak HTTP/2")
            if len(buffer) < len(PREFACE):
                return []
            del buffer[: len(PREFACE)]
            self._prefaced = True
        done: list[Call] = []
        position = 0
        while len(buffer) - position >= _HEADER_BYTES:
            head, flags, stream = struct.unpack_from(">IBI", buffer, position)
            length, kind = head >> 8, head & 0xFF
            if length > _OUR_FRAME:
                raise ProtocolError(f"a frame of {length} bytes is larger than allowed")
            end = position + _HEADER_BYTES + length
            if end > len(buffer):
                break
            payload = bytes(buffer[position + _HEADER_BYTES : end])
            position = end
            call = self._frame(kind, flags, stream & _LARGEST_WINDOW, payload)
            if call is not None:
                done.append(call)
        del buffer[:position]
        return done

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> Call | None:
        if kind in (_DATA, _HEADERS):
            if stream % 2 == 0:
                raise ProtocolError(f"a call on stream {stream}; only odd ones hold calls")
            if kind == _DATA:
                return self._data(flags, stream, payload)
            self._open(stream)
            return self._end(stream) if flags & _END_STREAM else None
        if len(payload) != _LENGTHS.get(kind, len(payload)):
            raise ProtocolError(f"a frame of kind {kind} has {len(payload)} bytes")
        if kind == _WINDOW:
            self._grow(stream, struct.unpack(">I", payload)[0] & _LARGEST_WINDOW)
        elif kind == _SETTINGS and not flags & _ACK:
            self._settings(payload)
        elif kind == _PING and not flags & _ACK:
            self._out += frame(_PING, _ACK, 0, payload)
        elif kind == _RST:
            return self._break_off(stream)
        elif kind == _GOAWAY:
            self.closing = True
        return None

    def _break_off(self, stream: int) -> Call | None:
        """The other side gives up a call, whose answer it may have been waiting for."""
        self._bodies.pop(stream, None)
        self._queue = deque(sending for sending in self._queue if sending.stream != stream)
        self._flush()  # its data may have stood in the way of others
        return Call(stream, None) if self._stream_windows.pop(stream, None) is not None else None

    def _open(self, stream: int) -> None:
        if stream not in self._bodies and not self._client:
            self._bodies[stream] = bytearray()
            self._stream_windows[stream] = self._initial_window

    def _data(self, flags: int, stream: int, payload: bytes) -> Call | None:
        self._unread += len(payload)
        if self._unread > _REFILL:
            self._out += frame(_WINDOW, 0, 0, struct.pack(">I", self._unread))
            self._unread = 0
        if flags & _PADDED:
            if not payload or payload[0] >= len(payload):
                raise ProtocolError("a frame is padded beyond its length")
            payload = payload[1 : len(payload) - payload[0]]
        body = self._bodies.get(stream)
        if body is not None:
            body += payload
        return self._end(stream) if flags & _END_STREAM else None

    def _end(self, stream: int) -> Call | None:
        """The other side has said all of this stream."""
        body = self._bodies.pop(stream, None)
        if self._client:
            self._stream_windows.pop(stream, None)
        if body is None:
            return None
        if len(body) < _PREFIX_BYTES:
            return Call(stream, None)
        compressed, length = struct.unpack_from(">BI", body)
        if compressed or length != len(body) - _PREFIX_BYTES:
            raise ProtocolError("a message is compressed, or a call holds more than one")
        return Call(stream, bytes(body[_PREFIX_BYTES:]))

    def _settings(self, payload: bytes) -> None:
        if len(payload) % 6:
            raise ProtocolError(f"settings of {len(payload)} bytes")
        for name, value in struct.iter_unpack(">HI", payload):
            if name == _INITIAL_WINDOW:
                for stream in self._stream_windows:
                    self._stream_windows[stream] += value - self._initial_window
                self._initial_window = value
            elif name == _MAX_FRAME:
                self._largest_frame = min(max(value, _DEFAULT_FRAME), _OUR_FRAME)  # smaller ones are not allowed
        self._out += frame(_SETTINGS, _ACK, 0)
        self._flush()

    def _grow(self, stream: int, size: int) -> None:
        if stream == 0:
            self._window += size
        elif stream in self._stream_windows:
            self._stream_windows[stream] += size
        self._flush()
