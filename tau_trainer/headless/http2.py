"""A minimal HTTP/2 client that makes gRPC's unary calls, one at a time, to a server on this machine.

An exchange through grpcio's Python client costs about 200 microseconds of processor time, most of an engine's share of
a step; the same bytes through a plain socket cost about 50. The client implements only the parts that the protocol
needs (RFC 9113, and gRPC's ``PROTOCOL-HTTP2``): cleartext with prior knowledge, one stream at a time, flow control in
both directions. Response headers are not decoded: if a reply has no message, the call has failed.
"""

from __future__ import annotations

import socket
import struct
import sys
from typing import Final

from tau_trainer.bridge.frames import (
    CANCEL,
    ENABLE_PUSH,
    END_HEADERS,
    END_STREAM,
    HEADER_TABLE_SIZE,
    HEADERS,
    MAX_FRAME_SIZE,
    PREFACE,
    RST_STREAM,
    Endpoint,
    ProtocolError,
    Stream,
    frame,
    request_headers,
    unwrap,
)

_SETTINGS: Final = {HEADER_TABLE_SIZE: 0, ENABLE_PUSH: 0, MAX_FRAME_SIZE: 2**24 - 1}
_LAST_STREAM: Final = 2**31 - 3
_RECEIVE: Final = 2**18
_POLL_SECONDS: Final = 0.5 if sys.platform == "win32" else None
"""Windows delivers Ctrl-C only between waits for a socket, so waits must be short there."""


class CallError(ConnectionError):
    """The call failed: the connection is lost, or the server refused the call."""


class Http2Connection(Endpoint):
    """One connection to ``host:port`` for calls of one method."""

    _last_flags = END_STREAM

    def __init__(self, host: str, port: int, path: str) -> None:
        """Connect. Raises OSError if no server listens."""
        super().__init__(_SETTINGS)
        self._socket = socket.create_connection((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.set_timeout(None)
        self._headers = request_headers(path, f"{host}:{port}")
        self._stream = -1
        self._closing = False
        self._reply = bytearray()
        self._done = True
        self._failure = ""
        self._out[:0] = PREFACE
        self._send()

    @property
    def usable(self) -> bool:
        """True if the connection accepts another call; if not, open a new connection."""
        return not self._closing and self._stream < _LAST_STREAM

    def call(self, message: bytes) -> bytes:
        """Send ``message`` and wait for the reply. Raises CallError."""
        self._stream += 2
        self._last = self._stream
        self._streams = {self._stream: Stream(self._initial_window)}
        self._queue.clear()  # data of an interrupted call
        self._reply.clear()
        self._done, self._failure = False, ""
        self._out += frame(HEADERS, END_HEADERS, self._stream, self._headers)
        self._send_message(self._stream, message)
        self._send()
        while not self._done:
            self._turn()
        try:
            reply = unwrap(self._reply)
        except ProtocolError as error:
            raise CallError("the server sent a reply that cannot be read") from error
        if reply is None:
            raise CallError("the server refused the call")
        return reply

    def cancel(self) -> None:
        """Cancel an interrupted call."""
        if not self._done and self._stream > 0:
            self._out += frame(RST_STREAM, 0, self._stream, struct.pack(">I", CANCEL))
            self._send()

    def set_timeout(self, seconds: float | None) -> None:
        """Set the longest wait for an answer of the socket, in seconds; None: no limit."""
        self._patient = seconds is None
        self._socket.settimeout(_POLL_SECONDS if seconds is None else seconds)

    def wait_until_gone(self) -> None:
        """Wait until the server closes the connection; answer pings meanwhile."""
        while True:
            try:
                self._turn()
            except CallError:
                return

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _send(self) -> None:
        try:
            while data := self.take():
                if self._patient and _POLL_SECONDS is not None:
                    self._socket.settimeout(None)  # a partly sent message cannot be sent again
                    self._socket.sendall(data)
                    self._socket.settimeout(_POLL_SECONDS)
                else:
                    self._socket.sendall(data)
                if not self._queue:
                    break
        except OSError as error:
            raise CallError(error.strerror or str(error)) from error

    def _turn(self) -> None:
        """Wait for data of the server, process its frames, and send the answers to them. Raises CallError."""
        try:
            data = self._socket.recv(_RECEIVE)
        except TimeoutError as error:
            if self._patient:
                return
            raise CallError("timed out") from error
        except OSError as error:
            raise CallError(error.strerror or str(error)) from error
        if not data:
            raise CallError("connection closed")
        self._buffer += data
        try:
            self._read_frames()
        except ProtocolError as error:
            raise CallError("the server sent a frame that cannot be read") from error
        if self._out or self._queue:
            self._send()
        if self._failure and not self._done:
            raise CallError(self._failure)

    def _on_headers(self, stream: int, block: bytes, *, ended: bool) -> None:
        self._done |= ended and stream == self._stream

    def _on_data(self, stream: int, payload: bytes | bytearray, *, ended: bool) -> None:
        if stream == self._stream:
            self._reply += payload
            self._done |= ended

    def _on_break(self, stream: int) -> None:
        if stream == self._stream:
            self._failure = "the server cancelled the call"

    def _on_goaway(self, last: int, code: int) -> None:
        """The server accepts no new calls, but may still answer the current one."""
        self._closing = True
        if code or last < self._stream:
            self._failure = "the server is closing the connection"
