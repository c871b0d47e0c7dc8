"""Frames of unary gRPC calls over unencrypted HTTP/2 (RFC 9113), for both ends.

ML-Agents' protocol (section 1) needs one unary method, without streaming, compression or metadata. A small part of
HTTP/2 is enough, and an exchange costs tens of microseconds instead of half a millisecond.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""A client's first bytes (RFC 9113, 3.4)."""

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
"""Kinds of frames (RFC 9113, 6); others are ignored."""
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITIZED = 0x1, 0x1, 0x4, 0x8, 0x20
"""Flags (RFC 9113, 6)."""
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 0x1, 0x2, 0x3, 0x4, 0x5
"""Settings (RFC 9113, 6.5.2)."""
NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED, FRAME_SIZE_ERROR = 0x0, 0x1, 0x3, 0x5, 0x6
REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 0x7, 0x8, 0x9, 0xB
"""Error codes (RFC 9113, 7)."""

WINDOW: Final = 2**22
"""Bytes that the other end may send on one stream, and on all together, before we have read them."""
DEFAULT_WINDOW: Final = 65_535
LARGEST_WINDOW: Final = 2**31 - 1
"""Also the mask for stream IDs and window sizes: their top bit is reserved."""
DEFAULT_FRAME: Final = 16_384
"""Bytes of payload that every end must accept in one frame; also the largest header block here."""
_LARGEST_FRAME: Final = 2**24 - 1
_LARGEST_SENT: Final = 2**20
"""Maximum bytes of one frame, and of waiting frames, before more of a message is split into frames."""

_FRAME_HEAD: Final = struct.Struct(">IBI")
"""24 bits length and 8 bits kind as one word, flags, stream (RFC 9113, 4.1)."""
_MESSAGE_HEAD: Final = struct.Struct(">BI")
"""Compression flag and length: the bytes before a gRPC message (PROTOCOL-HTTP2)."""
_TWO_WORDS: Final = struct.Struct(">II")
_SIZES: Final = {PRIORITY: 5, WINDOW_UPDATE: 4, PING: 8, RST_STREAM: 4}
"""Kinds of frames with a fixed size in bytes."""
_OF_STREAMS: Final = (PRIORITY, RST_STREAM)
_OF_CONNECTIONS: Final = (SETTINGS, PING, GOAWAY)


class ProtocolError(Exception):
    """The other side sent something that is not HTTP/2, or a gRPC feature that is not used here."""

    def __init__(self, message: str, code: int = PROTOCOL_ERROR) -> None:
        """``code``: the error code to send to the other side."""
        super().__init__(message)
        self.code = code


def frame(kind: int, flags: int, stream: int, payload: bytes | bytearray | memoryview = b"") -> bytes:
    """One frame: 24-bit length, kind, flags, stream id, payload."""
    return _FRAME_HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def wrap(message: bytes) -> bytes:
    """A message in gRPC's form (PROTOCOL-HTTP2, Length-Prefixed-Message): not compressed, length, message."""
    return _MESSAGE_HEAD.pack(0, len(message)) + message


def unwrap(body: bytes | bytearray) -> bytes | None:
    """The only message of a call's body; None if empty. Raises ProtocolError if compressed or not the only one."""
    if len(body) < _MESSAGE_HEAD.size:
        return None
    compressed, length = _MESSAGE_HEAD.unpack_from(body)
    if compressed or length != len(body) - _MESSAGE_HEAD.size:
        raise ProtocolError("a message is compressed, or a call holds more than one")
    return bytes(memoryview(body)[_MESSAGE_HEAD.size :])  # one copy, not two


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
class Stream:
    """A call that has not ended."""

    window: int
    """Bytes that we may send (RFC 9113, 5.2); below zero if the other end has reduced it since."""
    credit: int = WINDOW
    """Bytes that the other end may send."""
    body: bytearray | None = None
    """Received bytes; None before it may send, and after its end."""
    size: int = 0
    """Number of received bytes."""


@dataclass(slots=True)
class _Message:
    """The part of a message that the other end's windows do not allow yet (RFC 9113, 5.2)."""

    stream: int
    data: memoryview


@dataclass(slots=True)
class _Block:
    """A header block that is not complete (RFC 9113, 6.10)."""

    stream: int
    ended: bool
    data: bytearray


class Endpoint:
    """Common parts of both ends of a connection, without I/O.

    It supports what a gRPC library may send: pings, priorities, continuations, padding, flow control, settings.
    """

    _last_flags = 0
    """Flags of a message's last frame."""

    def __init__(self, settings: dict[int, int]) -> None:
        """Sends ``settings`` (RFC 9113, 3.4) and the windows of streams and of the connection to the other end."""
        settings = settings | {INITIAL_WINDOW_SIZE: WINDOW}
        self._largest_frame = settings[MAX_FRAME_SIZE]
        payload = b"".join(struct.pack(">HI", name, value) for name, value in settings.items())
        self._out = bytearray(frame(SETTINGS, 0, 0, payload))
        self._credit = DEFAULT_WINDOW
        self._refill()
        self._buffer = bytearray()
        self._block: _Block | None = None
        self._queue: deque[_Message] = deque()
        self._window = self._initial_window = DEFAULT_WINDOW
        self._streams: dict[int, Stream] = {}
        self._last = 0
        """The highest stream so far."""
        self._frame_limit = DEFAULT_FRAME

    def take(self) -> bytes:
        """Bytes to send now. Large messages come in parts: call it again after sending, until it returns nothing."""
        self._flush()
        data = bytes(self._out)
        self._out.clear()
        return data

    def _read_frames(self) -> None:
        """Process the complete frames in the buffer. Raises ProtocolError."""
        buffer = self._buffer
        while len(buffer) >= _FRAME_HEAD.size:
            word, flags, stream = _FRAME_HEAD.unpack_from(buffer)
            end = _FRAME_HEAD.size + (word >> 8)
            if word >> 8 > self._largest_frame:  # RFC 9113, 4.2: our MAX_FRAME_SIZE binds the other end
                raise ProtocolError(f"a frame of {word >> 8} bytes is larger than allowed", FRAME_SIZE_ERROR)
            if len(buffer) < end:
                return
            payload = buffer[_FRAME_HEAD.size : end]
            del buffer[:end]
            self._on_frame(word & 0xFF, flags, stream & LARGEST_WINDOW, payload)

    def _on_frame(self, kind: int, flags: int, stream: int, payload: bytearray) -> None:
        if self._block is not None or kind == CONTINUATION:
            self._on_continuation(kind, flags, stream, payload)
        elif kind == DATA:
            self._on_payload(stream, payload, flags)
        elif kind == HEADERS:
            if flags & PADDED:
                _unpad(payload)
            if flags & PRIORITIZED:
                del payload[:5]
            if flags & END_HEADERS:
                self._on_headers(stream, bytes(payload), ended=bool(flags & END_STREAM))
            else:
                self._block = _Block(stream, bool(flags & END_STREAM), payload)
        else:
            self._on_control(kind, flags, stream, payload)

    def _on_continuation(self, kind: int, flags: int, stream: int, payload: bytearray) -> None:
        block = self._block
        if kind != CONTINUATION or block is None or block.stream != stream:  # RFC 9113, 6.10: nothing comes in between
            raise ProtocolError("a header block is not continued, or a continuation has none")
        block.data += payload
        if len(block.data) > DEFAULT_FRAME:
            raise ProtocolError(f"a header block of more than {DEFAULT_FRAME} bytes", ENHANCE_YOUR_CALM)
        if flags & END_HEADERS:
            self._block = None
            self._on_headers(stream, bytes(block.data), ended=block.ended)

    def _on_payload(self, stream: int, payload: bytearray, flags: int) -> None:
        """Flow control in our direction (RFC 9113, 5.2 and 6.9.1): padding and unwanted data count too."""
        size, known = len(payload), self._streams.get(stream)
        self._credit -= size
        if self._credit < 0 or (known is not None and known.credit < size):
            raise ProtocolError(f"more data on stream {stream} than its window allows", FLOW_CONTROL_ERROR)
        if self._credit < WINDOW // 2:
            self._refill()
        if flags & PADDED:
            _unpad(payload)
        if known is None:
            self._check_met(DATA, stream)
            return  # a cancelled call; data that was already sent still arrives
        known.credit -= size
        ended = bool(flags & END_STREAM)
        self._on_data(stream, payload, ended=ended)
        if known.credit < WINDOW // 2 and not ended and stream in self._streams:
            self._out += frame(WINDOW_UPDATE, 0, stream, (WINDOW - known.credit).to_bytes(4, "big"))
            known.credit = WINDOW

    def _on_control(self, kind: int, flags: int, stream: int, payload: bytearray) -> None:
        """Process a control frame. Unknown kinds are ignored (RFC 9113, 4.1), like those that need no action."""
        size = len(payload)
        if (kind in _OF_STREAMS and stream == 0) or (kind in _OF_CONNECTIONS and stream):
            raise ProtocolError(f"a frame of kind {kind} on stream {stream}")
        if size != _SIZES.get(kind, size) or (kind == GOAWAY and size < 8):
            raise ProtocolError(f"a frame of kind {kind} has {size} bytes", FRAME_SIZE_ERROR)
        if kind == WINDOW_UPDATE:
            self._grow(stream, int.from_bytes(payload, "big") & LARGEST_WINDOW)
        elif kind == SETTINGS:
            if size % 6 or (flags & ACK and size):
                raise ProtocolError(f"a frame of kind {kind} has {size} bytes", FRAME_SIZE_ERROR)
            if not flags & ACK:
                self._on_settings(payload)
        elif kind == PING and not flags & ACK:
            self._out += frame(PING, ACK, 0, payload)
        elif kind == RST_STREAM:
            self._check_met(kind, stream)
            self._on_break(stream)
        elif kind == GOAWAY:
            last, code = _TWO_WORDS.unpack_from(payload)
            self._on_goaway(last & LARGEST_WINDOW, code)
        elif kind == PUSH_PROMISE:  # a client never sends one, and our settings forbid it to servers (RFC 9113, 8.4)
            raise ProtocolError("a promise to push")

    def _check_met(self, kind: int, stream: int) -> None:
        if stream > self._last or stream % 2 == 0:  # RFC 9113, 5.1: idle
            raise ProtocolError(f"a frame of kind {kind} on stream {stream}, which has no call")

    def _on_headers(self, stream: int, block: bytes, *, ended: bool) -> None:
        """A call or an answer starts or ends."""

    def _on_data(self, stream: int, payload: bytes | bytearray, *, ended: bool) -> None:
        """A part of the message of an open call."""

    def _on_break(self, stream: int) -> None:
        """A call is cancelled, by the other end or because of its errors."""

    def _on_goaway(self, last: int, code: int) -> None:
        """The other end answers no calls after stream ``last`` (RFC 9113, 6.8)."""

    def _on_sent(self, stream: int) -> None:
        """A message was sent completely."""

    def _on_settings(self, payload: bytearray) -> None:
        for name, value in struct.iter_unpack(">HI", payload):
            if name == INITIAL_WINDOW_SIZE:
                for stream in self._streams.values():  # RFC 9113, 6.9.2: open streams too; can become negative
                    stream.window += value - self._initial_window
                if value > LARGEST_WINDOW or any(stream.window > LARGEST_WINDOW for stream in self._streams.values()):
                    raise ProtocolError("a window larger than allowed", FLOW_CONTROL_ERROR)
                self._initial_window = value
            elif name == MAX_FRAME_SIZE:
                if not DEFAULT_FRAME <= value <= _LARGEST_FRAME:
                    raise ProtocolError(f"frames of at most {value} bytes")
                self._frame_limit = min(value, _LARGEST_SENT)
            elif name == ENABLE_PUSH and value > 1:
                raise ProtocolError(f"a setting of {value}, but only 0 or 1 is allowed")
        self._out += frame(SETTINGS, ACK, 0)

    def _grow(self, stream: int, size: int) -> None:
        """Increase a window of the other end by ``size`` bytes: stream 0 is the connection (RFC 9113, 6.9)."""
        if stream == 0:
            self._window += size
            if size == 0 or self._window > LARGEST_WINDOW:
                code = FLOW_CONTROL_ERROR if size else PROTOCOL_ERROR
                raise ProtocolError(f"a window opens by {size} bytes to {self._window}", code)
            return
        self._check_met(WINDOW_UPDATE, stream)
        known = self._streams.get(stream)
        if known is not None:
            known.window += size
            if size == 0 or known.window > LARGEST_WINDOW:
                self._reset(stream, FLOW_CONTROL_ERROR if size else PROTOCOL_ERROR)

    def _reset(self, stream: int, code: int) -> None:
        """Cancel a call (RFC 9113, 5.4.2)."""
        self._out += frame(RST_STREAM, 0, stream, code.to_bytes(4, "big"))
        self._on_break(stream)

    def _refill(self) -> None:
        """Restore our window of the connection."""
        self._out += frame(WINDOW_UPDATE, 0, 0, (WINDOW - self._credit).to_bytes(4, "big"))
        self._credit = WINDOW

    def _send_message(self, stream: int, message: bytes) -> None:
        self._queue.append(_Message(stream, memoryview(wrap(message))))
        self._flush()

    def _drop(self, stream: int) -> bool:
        """Remove a call and the unsent part of its message; returns whether it existed."""
        if self._queue:
            self._queue = deque(waiting for waiting in self._queue if waiting.stream != stream)
        return self._streams.pop(stream, None) is not None

    def _flush(self) -> None:
        """Split as much data into frames as the windows of stream and connection allow, in order of the calls.

        RFC 9113, 5.2.1. Stops when :attr:`_out` is full until :meth:`take`, so that unsent data does not pile up.
        """
        while self._queue:
            waiting = self._queue[0]
            stream, data, known = waiting.stream, waiting.data, self._streams[waiting.stream]
            while data:
                size = min(self._window, known.window, self._frame_limit, len(data))
                if size <= 0 or len(self._out) >= _LARGEST_SENT:
                    return
                self._out += frame(DATA, self._last_flags if size == len(data) else 0, stream, data[:size])
                data = waiting.data = data[size:]
                self._window -= size
                known.window -= size
            self._queue.popleft()
            self._on_sent(stream)


def _unpad(payload: bytearray) -> None:
    """Remove padding (RFC 9113, 6.1). Raises ProtocolError if it is longer than the payload."""
    if not payload or payload[0] >= len(payload):
        raise ProtocolError("more padding than payload")
    end = len(payload) - payload[0]
    del payload[end:], payload[:1]
