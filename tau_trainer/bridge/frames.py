"""What both ends of a unary gRPC call over cleartext HTTP/2 (RFC 9113) write and read.

The protocol needs one unary method, no streaming, no compression and no metadata (ML-Agents' protocol, section 1), so
a fraction of HTTP/2 suffices, and an exchange costs tens of microseconds instead of half a millisecond. Header blocks
are never decoded: there is one path, and the outcome of a call is known from its frames.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""A client's first bytes (RFC 9113, 3.4)."""

DATA, HEADERS, _, RST_STREAM, SETTINGS, _, PING, GOAWAY, WINDOW_UPDATE = range(9)
"""Kinds of frames (RFC 9113, 6); the others are passed over."""
END_STREAM, ACK, END_HEADERS = 0x1, 0x1, 0x4
"""Flags (RFC 9113, 6). Not PADDED: no gRPC library pads, and padded data is refused for its length."""
HEADER_TABLE_SIZE, ENABLE_PUSH, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 0x1, 0x2, 0x4, 0x5
"""Settings (RFC 9113, 6.5.2)."""
CANCEL: Final = 0x8
"""The error code of a call that is given up."""

DEFAULT_WINDOW: Final = 65_535
LARGEST_WINDOW: Final = 2**31 - 1
"""Also the mask of stream ids and window sizes: their top bit is reserved."""
DEFAULT_FRAME: Final = 16_384
"""Bytes of payload that every end must take in one frame."""
_LARGEST_SENT: Final = 2**20

_FRAME_HEAD: Final = struct.Struct(">IBI")
"""24 bits length and 8 bits kind as one word, flags, stream (RFC 9113, 4.1)."""
_MESSAGE_HEAD: Final = struct.Struct(">BI")
"""Compressed or not, length: what stands before a gRPC message (PROTOCOL-HTTP2)."""
_GOAWAY: Final = struct.Struct(">II")
_SIZES: Final = {WINDOW_UPDATE: 4, PING: 8, RST_STREAM: 4}
"""Frames of one size."""
_REFILL: Final = 2**29
"""Bytes received after which the connection's window is opened again."""


class ProtocolError(Exception):
    """The other side sent something that is not HTTP/2, or a gRPC feature that is not used here."""


def frame(kind: int, flags: int, stream: int, payload: bytes | bytearray | memoryview = b"") -> bytes:
    """One frame: 24-bit length, kind, flags, stream id, payload."""
    return _FRAME_HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def wrap(message: bytes) -> bytes:
    """A message as gRPC sends it (PROTOCOL-HTTP2, Length-Prefixed-Message): not compressed, its length, itself."""
    return _MESSAGE_HEAD.pack(0, len(message)) + message


def unwrap(body: bytes | bytearray) -> bytes | None:
    """The one message of a call's body; None without any. Raises ProtocolError if it is compressed, or not alone."""
    if len(body) < _MESSAGE_HEAD.size:
        return None
    compressed, length = _MESSAGE_HEAD.unpack_from(body)
    if compressed or length != len(body) - _MESSAGE_HEAD.size:
        raise ProtocolError("a message is compressed, or a call holds more than one")
    return bytes(body[_MESSAGE_HEAD.size :])


def literal(name: bytes, value: bytes) -> bytes:
    """An HPACK field without indexing and without Huffman coding (RFC 7541, 6.2.2); both under 127 bytes."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


RESPONSE: Final = b"\x88" + literal(b"content-type", b"application/grpc")  # 0x88: `:status: 200` of the static table
"""Header block before an answer."""
TRAILERS: Final = literal(b"grpc-status", b"0")
"""Header block after an answer."""


def request_headers(path: str, authority: str) -> bytes:
    """The header block of a unary call."""
    return b"".join(
        [
            b"\x83\x86",  # `:method: POST`, `:scheme: http` of the static table (RFC 7541, 6.1 and A)
            literal(b":path", path.encode()),
            literal(b":authority", authority.encode()),
            literal(b"te", b"trailers"),
            literal(b"content-type", b"application/grpc"),
        ]
    )


@dataclass(slots=True)
class _Message:
    """What of a message the other end's windows do not allow yet (RFC 9113, 5.2)."""

    stream: int
    data: memoryview


class Endpoint:
    """What both ends of a connection do alike, without I/O.

    What a gRPC library may send (pings, priorities, continuations, flow control, settings) is understood.
    """

    _last_flags = 0
    """Flags of a message's last frame."""

    def __init__(self, settings: dict[int, int]) -> None:
        """``settings`` are told to the other end (RFC 9113, 3.4), and the widest window for the connection."""
        self._largest_frame = settings[MAX_FRAME_SIZE]
        payload = b"".join(struct.pack(">HI", name, value) for name, value in settings.items())
        self._out = bytearray(frame(SETTINGS, 0, 0, payload))
        self._refill(LARGEST_WINDOW - DEFAULT_WINDOW)
        self._buffer = bytearray()
        self._received = 0
        self._queue: deque[_Message] = deque()
        self._window = self._initial_window = DEFAULT_WINDOW
        self._windows: dict[int, int] = {}
        """Windows of the streams that are open."""
        self._frame_limit = DEFAULT_FRAME

    def take(self) -> bytes:
        """Bytes to send now."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def _read_frames(self) -> None:
        """Do what the frames in the buffer say that are complete. Raises ProtocolError."""
        buffer = self._buffer
        while len(buffer) >= _FRAME_HEAD.size:
            word, flags, stream = _FRAME_HEAD.unpack_from(buffer)
            end = _FRAME_HEAD.size + (word >> 8)
            if word >> 8 > self._largest_frame:  # RFC 9113, 4.2: our MAX_FRAME_SIZE binds the other end
                raise ProtocolError(f"a frame of {word >> 8} bytes is larger than allowed")
            if len(buffer) < end:
                return
            payload = buffer[_FRAME_HEAD.size : end]
            del buffer[:end]
            self._on_frame(word & 0xFF, flags, stream & LARGEST_WINDOW, payload)

    def _on_frame(self, kind: int, flags: int, stream: int, payload: bytearray) -> None:
        if kind in (DATA, HEADERS) and stream % 2 == 0:  # RFC 9113, 5.1.1
            raise ProtocolError(f"a call on stream {stream}; only odd ones hold calls")
        if kind == DATA:
            self._received += len(payload)
            if self._received > _REFILL:
                self._refill(self._received)
                self._received = 0
            self._on_data(stream, payload, ended=bool(flags & END_STREAM))
        elif kind == HEADERS:
            self._on_headers(stream, ended=bool(flags & END_STREAM))
        else:
            self._on_control(kind, flags, stream, payload)

    def _on_control(self, kind: int, flags: int, stream: int, payload: bytearray) -> None:
        """RFC 9113, 4.1: kinds that nobody knows are passed over, and so are those that ask for nothing."""
        size = len(payload)
        if size != _SIZES.get(kind, size) or (kind == SETTINGS and size % 6) or (kind == GOAWAY and size < 8):
            raise ProtocolError(f"a frame of kind {kind} has {size} bytes")
        if kind == WINDOW_UPDATE:
            self._grow(stream, int.from_bytes(payload, "big") & LARGEST_WINDOW)
        elif kind == SETTINGS and not flags & ACK:
            self._on_settings(payload)
        elif kind == PING and not flags & ACK:
            self._out += frame(PING, ACK, 0, payload)
        elif kind == RST_STREAM:
            self._on_break(stream)
        elif kind == GOAWAY:
            last, code = _GOAWAY.unpack_from(payload)
            self._on_goaway(last & LARGEST_WINDOW, code)

    def _on_headers(self, stream: int, *, ended: bool) -> None:
        """A call or an answer begins, or is over."""

    def _on_data(self, stream: int, payload: bytes | bytearray, *, ended: bool) -> None:
        """A piece of a message."""

    def _on_break(self, stream: int) -> None:
        """The other end gives up a call."""

    def _on_goaway(self, last: int, code: int) -> None:
        """The other end answers no calls after stream ``last`` (RFC 9113, 6.8)."""

    def _on_sent(self, stream: int) -> None:
        """A message has left whole."""

    def _on_settings(self, payload: bytearray) -> None:
        for name, value in struct.iter_unpack(">HI", payload):
            if name == INITIAL_WINDOW_SIZE:
                for stream in self._windows:  # RFC 9113, 6.9.2: open ones too, which may become negative
                    self._windows[stream] += value - self._initial_window
                self._initial_window = value
            elif name == MAX_FRAME_SIZE:  # a value below the least that is legal (6.5.2) is passed over
                self._frame_limit = min(max(value, DEFAULT_FRAME), _LARGEST_SENT)
        self._out += frame(SETTINGS, ACK, 0)
        self._flush()

    def _grow(self, stream: int, size: int) -> None:
        """A window of the other end opens by ``size`` bytes: stream 0 is the connection (RFC 9113, 6.9)."""
        if stream == 0:
            self._window += size
        elif stream in self._windows:
            self._windows[stream] += size
        self._flush()

    def _refill(self, size: int) -> None:
        """Open our own window of the connection."""
        self._out += frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", size))

    def _send_message(self, stream: int, message: bytes) -> None:
        self._queue.append(_Message(stream, memoryview(wrap(message))))
        self._flush()

    def _flush(self) -> None:
        """Send what both windows allow, the stream's and the connection's (RFC 9113, 5.2.1), in order of the calls."""
        while self._queue:
            waiting = self._queue[0]
            stream, data = waiting.stream, waiting.data
            while data:
                size = min(self._window, self._windows[stream], self._frame_limit, len(data))
                if size <= 0:
                    return
                self._out += frame(DATA, self._last_flags if size == len(data) else 0, stream, data[:size])
                data = waiting.data = data[size:]
                self._window -= size
                self._windows[stream] -= size
            self._queue.popleft()
            self._on_sent(stream)
