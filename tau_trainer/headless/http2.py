"""The smallest HTTP/2 client that can make gRPC's unary calls, one at a time, to a server on this machine.

An exchange through grpcio's Python client costs some 200 microseconds of processor time, most of an engine's share of a
step; the same bytes through a plain socket cost about 50. What is here is what the wire needs (RFC 9113,
and gRPC's ``PROTOCOL-HTTP2``): cleartext with prior knowledge, one stream at a time, flow control in both directions.
Response headers are not decoded: a reply has a message, or the call has failed.
"""

from __future__ import annotations

import socket
import struct
import sys
from typing import Final

from tau_trainer.bridge.frames import (
    ACK,
    CANCEL,
    DATA,
    DEFAULT_FRAME,
    DEFAULT_WINDOW,
    ENABLE_PUSH,
    END_HEADERS,
    END_STREAM,
    FRAME_HEAD,
    GOAWAY,
    HEADER_TABLE_SIZE,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    LARGEST_WINDOW,
    MAX_FRAME_SIZE,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    ProtocolError,
    check_size,
    first_frames,
    frame,
    frame_limit,
    read_goaway,
    read_settings,
    read_window_update,
    request_headers,
    unwrap,
    window_update,
    wrap,
)

_OUR_SETTINGS: Final = {
    HEADER_TABLE_SIZE: 0,
    ENABLE_PUSH: 0,
    INITIAL_WINDOW_SIZE: LARGEST_WINDOW,
    MAX_FRAME_SIZE: 2**24 - 1,
}
_TOP_UP: Final = 2**30
"""Bytes received after which the connection's window is opened again."""
_LAST_STREAM: Final = 2**31 - 3
_RECEIVE: Final = 2**18
_POLL_SECONDS: Final = 0.5 if sys.platform == "win32" else None
"""Windows delivers Ctrl-C between waits for a socket only, so that waits must be short there."""


class CallError(Exception):
    """The call failed: the connection is lost, or the server refused."""


class Http2Connection:
    """One connection to ``host:port`` for calls of one method."""

    def __init__(self, host: str, port: int, path: str) -> None:
        """Connect. Raises OSError if nobody listens."""
        self._socket = socket.create_connection((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.set_timeout(None)
        self._headers = request_headers(path, f"{host}:{port}")
        self._buffer = bytearray()
        self._stream = -1
        self._window = self._stream_window = self._first_window = DEFAULT_WINDOW
        self._frame_limit = DEFAULT_FRAME
        self._received = 0
        self._closing = False
        self._reply = bytearray()
        self._done = True
        self._send(PREFACE + first_frames(_OUR_SETTINGS))

    @property
    def usable(self) -> bool:
        """Whether another call can be made; if not, a new connection is needed."""
        return not self._closing and self._stream < _LAST_STREAM

    def call(self, message: bytes) -> bytes:
        """Send ``message`` and wait for the reply. Raises CallError."""
        self._stream += 2
        self._stream_window = self._first_window
        self._reply.clear()
        self._done = False
        head = frame(HEADERS, END_HEADERS, self._stream, self._headers)
        body = wrap(message)
        if len(body) <= min(self._window, self._stream_window, self._frame_limit):
            self._window -= len(body)
            self._send(head + frame(DATA, END_STREAM, self._stream, body))
        else:
            self._send(head)
            self._send_in_pieces(body)
        while not self._done:
            self._read_frame()
        return self._message()

    def cancel(self) -> None:
        """Give up a call that was interrupted."""
        if not self._done and self._stream > 0:
            self._send(frame(RST_STREAM, 0, self._stream, struct.pack(">I", CANCEL)))

    def set_timeout(self, seconds: float | None) -> None:
        """Longest wait for one answer of the socket; None: for ever."""
        self._patient = seconds is None
        self._socket.settimeout(_POLL_SECONDS if seconds is None else seconds)

    def wait_until_gone(self) -> None:
        """Do nothing, but answer pings, until the server closes the connection."""
        while True:
            try:
                self._read_frame()
            except CallError:
                return

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _message(self) -> bytes:
        """The one message of a finished call. Raises CallError if there is none, or not just one."""
        try:
            message = unwrap(self._reply)
        except ProtocolError as error:
            raise CallError("the server sent a reply that cannot be read") from error
        if message is None:
            raise CallError("the server refused the call")
        return message

    def _send(self, data: bytes) -> None:
        try:
            if self._patient and _POLL_SECONDS is not None:
                self._socket.settimeout(None)  # what is half sent cannot be sent again
                self._socket.sendall(data)
                self._socket.settimeout(_POLL_SECONDS)
            else:
                self._socket.sendall(data)
        except OSError as error:
            raise CallError(error.strerror or str(error)) from error

    def _send_in_pieces(self, body: bytes) -> None:
        """Send a body as the server's windows allow (RFC 9113, 5.2)."""
        position = 0
        while position < len(body) and not self._done:
            room = min(self._window, self._stream_window, self._frame_limit)
            if room <= 0:
                self._read_frame()
                continue
            piece = body[position : position + room]
            position += len(piece)
            self._window -= len(piece)
            self._stream_window -= len(piece)
            self._send(frame(DATA, END_STREAM if position == len(body) else 0, self._stream, piece))

    def _fill(self, count: int) -> None:
        """Wait until the buffer holds ``count`` bytes. Raises CallError."""
        while len(self._buffer) < count:
            try:
                data = self._socket.recv(_RECEIVE)
            except TimeoutError as error:
                if self._patient:
                    continue
                raise CallError("timed out") from error
            except OSError as error:
                raise CallError(error.strerror or str(error)) from error
            if not data:
                raise CallError("connection closed")
            self._buffer += data

    def _read_frame(self) -> None:
        """Read one frame and do what it says. Raises CallError.

        A frame leaves the buffer when all of it is there, so that an interrupt in between loses nothing.
        """
        self._fill(FRAME_HEAD.size)
        word, flags, stream = FRAME_HEAD.unpack_from(self._buffer)
        end = FRAME_HEAD.size + (word >> 8)
        self._fill(end)
        payload = bytes(self._buffer[FRAME_HEAD.size : end])
        del self._buffer[:end]
        try:
            self._on_frame(word & 0xFF, flags, stream & LARGEST_WINDOW, payload)
        except ProtocolError as error:
            raise CallError("the server sent a frame that cannot be read") from error

    def _on_frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == DATA:
            self._on_data(flags, stream, payload)
        elif kind == HEADERS:
            self._done |= stream == self._stream and bool(flags & END_STREAM)
        else:
            check_size(kind, payload)
            self._on_control(kind, flags, stream, payload)

    def _on_control(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        """Frames about the connection, whose size is right."""
        if kind == WINDOW_UPDATE:
            self._on_window(stream, read_window_update(payload))
        elif kind == SETTINGS and not flags & ACK:
            self._on_settings(payload)
        elif kind == PING and not flags & ACK:
            self._send(frame(PING, ACK, 0, payload))
        elif kind == RST_STREAM and stream == self._stream:
            raise CallError("the server cancelled the call")
        elif kind == GOAWAY:
            self._on_goaway(payload)

    def _on_data(self, flags: int, stream: int, payload: bytes) -> None:
        self._received += len(payload)
        if self._received >= _TOP_UP:
            self._send(window_update(self._received))
            self._received = 0
        if stream == self._stream:
            self._reply += payload
            self._done |= bool(flags & END_STREAM)

    def _on_window(self, stream: int, more: int) -> None:
        if stream == 0:
            self._window += more
        elif stream == self._stream:
            self._stream_window += more

    def _on_settings(self, payload: bytes) -> None:
        for name, value in read_settings(payload):
            if name == INITIAL_WINDOW_SIZE:  # also changes windows in use, which may become negative
                self._stream_window += value - self._first_window
                self._first_window = value
            elif name == MAX_FRAME_SIZE:
                self._frame_limit = frame_limit(value)
        self._send(frame(SETTINGS, ACK, 0))

    def _on_goaway(self, payload: bytes) -> None:
        """The server takes no new calls; the one on its way may still be answered."""
        last, code = read_goaway(payload)
        self._closing = True
        if code or last < self._stream:
            raise CallError("the server ends the connection")
