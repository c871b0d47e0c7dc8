"""The server's end of unary gRPC over HTTP/2, without I/O: bytes in, calls out; answers in, bytes out.

What a gRPC client may send (pings, priorities, continuations, flow control, settings) is understood.
The client's end is :mod:`tau_trainer.headless.http2`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from tau_trainer.bridge.frames import (
    ACK,
    DATA,
    DEFAULT_FRAME,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    FRAME_HEAD,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    LARGEST_WINDOW,
    MAX_FRAME_SIZE,
    PING,
    PREFACE,
    RESPONSE,
    RST_STREAM,
    SETTINGS,
    TRAILERS,
    WINDOW_UPDATE,
    ProtocolError,
    check_size,
    first_frames,
    frame,
    frame_limit,
    read_settings,
    read_window_update,
    unwrap,
    window_update,
    wrap,
)

_OUR_FRAME: Final = 2**20
_REFILL: Final = 2**29
"""Bytes received after which the connection's window is opened again."""


@dataclass(slots=True)
class Call:
    """A call that has ended on the client's part: its message, or None if there is none or it was broken off."""

    stream: int
    message: bytes | None


@dataclass(slots=True)
class _Answer:
    """What of an answer the client's windows do not allow yet (RFC 9113, 5.2)."""

    stream: int
    data: memoryview


class Connection:
    """The server's end. Feed it with :meth:`receive`; write out what :meth:`take` gives after every call."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._out = bytearray(first_frames({INITIAL_WINDOW_SIZE: LARGEST_WINDOW, MAX_FRAME_SIZE: _OUR_FRAME}))
        self._prefaced = False
        self._bodies: dict[int, bytearray] = {}
        self._window = DEFAULT_WINDOW
        self._initial_window = DEFAULT_WINDOW
        self._stream_windows: dict[int, int] = {}
        self._largest_frame = DEFAULT_FRAME
        self._unread = 0
        self._queue: deque[_Answer] = deque()

    def take(self) -> bytes:
        """Bytes to send now."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def respond(self, stream: int, message: bytes) -> None:
        """Answer a call with status 0."""
        self._out += frame(HEADERS, END_HEADERS, stream, RESPONSE)
        self._queue.append(_Answer(stream, memoryview(wrap(message))))
        self._flush()

    def _flush(self) -> None:
        """Send what both windows allow, the stream's and the connection's (RFC 9113, 5.2.1), in order of the calls."""
        while self._queue:
            answer = self._queue[0]
            stream = answer.stream
            while len(answer.data):
                window = min(self._window, self._stream_windows.get(stream, self._initial_window))
                size = min(window, self._largest_frame, len(answer.data))
                if size <= 0:
                    return
                self._out += frame(DATA, 0, stream, bytes(answer.data[:size]))
                answer.data = answer.data[size:]
                self._window -= size
                if stream in self._stream_windows:
                    self._stream_windows[stream] -= size
            self._out += frame(HEADERS, END_HEADERS | END_STREAM, stream, TRAILERS)
            self._queue.popleft()
            self._stream_windows.pop(stream, None)

    def receive(self, data: bytes) -> list[Call]:
        """Calls that are complete with ``data``. Raises ProtocolError."""
        buffer = self._buffer
        buffer += data
        if not self._prefaced and not self._preface():
            return []
        done: list[Call] = []
        position = 0
        while len(buffer) - position >= FRAME_HEAD.size:
            word, flags, stream = FRAME_HEAD.unpack_from(buffer, position)
            length = word >> 8
            if length > _OUR_FRAME:  # RFC 9113, 4.2: our MAX_FRAME_SIZE binds the client
                raise ProtocolError(f"a frame of {length} bytes is larger than allowed")
            start = position + FRAME_HEAD.size
            if start + length > len(buffer):
                break
            position = start + length
            call = self._frame(word & 0xFF, flags, stream & LARGEST_WINDOW, bytes(buffer[start:position]))
            if call is not None:
                done.append(call)
        del buffer[:position]
        return done

    def _preface(self) -> bool:
        """Take the client's first bytes off the buffer; whether they are all there. Raises ProtocolError."""
        if not PREFACE.startswith(self._buffer[: len(PREFACE)]):
            raise ProtocolError("the other side does not speak HTTP/2")
        self._prefaced = len(self._buffer) >= len(PREFACE)
        if self._prefaced:
            del self._buffer[: len(PREFACE)]
        return self._prefaced

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> Call | None:
        if kind in (DATA, HEADERS):
            if stream % 2 == 0:  # RFC 9113, 5.1.1
                raise ProtocolError(f"a call on stream {stream}; only odd ones hold calls")
            if kind == DATA:
                return self._data(flags, stream, payload)
            self._open(stream)
            return self._end(stream) if flags & END_STREAM else None
        check_size(kind, payload)
        if kind == WINDOW_UPDATE:
            self._grow(stream, read_window_update(payload))
        elif kind == SETTINGS and not flags & ACK:
            self._settings(payload)
        elif kind == PING and not flags & ACK:
            self._out += frame(PING, ACK, 0, payload)
        elif kind == RST_STREAM:
            return self._break_off(stream)
        return None  # RFC 9113, 4.1: kinds that nobody knows are passed over, and so are those that ask for nothing

    def _break_off(self, stream: int) -> Call | None:
        """The client gives up a call, whose answer it may have been waiting for."""
        self._bodies.pop(stream, None)
        self._queue = deque(answer for answer in self._queue if answer.stream != stream)
        self._flush()  # its data may have stood in the way of others
        return Call(stream, None) if self._stream_windows.pop(stream, None) is not None else None

    def _open(self, stream: int) -> None:
        if stream not in self._bodies:
            self._bodies[stream] = bytearray()
            self._stream_windows[stream] = self._initial_window

    def _data(self, flags: int, stream: int, payload: bytes) -> Call | None:
        self._unread += len(payload)
        if self._unread > _REFILL:
            self._out += window_update(self._unread)
            self._unread = 0
        body = self._bodies.get(stream)
        if body is not None:
            body += payload
        return self._end(stream) if flags & END_STREAM else None

    def _end(self, stream: int) -> Call | None:
        """The client has said all of this stream."""
        body = self._bodies.pop(stream, None)
        return None if body is None else Call(stream, unwrap(body))

    def _settings(self, payload: bytes) -> None:
        for name, value in read_settings(payload):
            if name == INITIAL_WINDOW_SIZE:
                for stream in self._stream_windows:  # RFC 9113, 6.9.2: open ones too, which may become negative
                    self._stream_windows[stream] += value - self._initial_window
                self._initial_window = value
            elif name == MAX_FRAME_SIZE:
                self._largest_frame = min(frame_limit(value), _OUR_FRAME)
        self._out += frame(SETTINGS, ACK, 0)
        self._flush()

    def _grow(self, stream: int, size: int) -> None:
        if stream == 0:
            self._window += size
        elif stream in self._stream_windows:
            self._stream_windows[stream] += size
        self._flush()
