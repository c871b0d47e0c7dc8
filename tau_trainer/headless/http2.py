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

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0x0, 0x1, 0x3, 0x4, 0x6, 0x7, 0x8
_END_STREAM, _ACK, _END_HEADERS, _PADDED = 0x1, 0x1, 0x4, 0x8
_HEADER_TABLE_SIZE, _ENABLE_PUSH, _INITIAL_WINDOW_SIZE, _MAX_FRAME_SIZE = 0x1, 0x2, 0x4, 0x5
_FRAME_HEADER: Final = struct.Struct(">IBI")
"""24 bits length and 8 bits type as one word, flags, stream (RFC 9113, 4.1)."""
_CANCEL: Final = 0x8

_DEFAULT_WINDOW: Final = 65_535
_LARGEST_WINDOW: Final = 2**31 - 1
_LARGEST_FRAME: Final = 2**24 - 1
_OUR_SETTINGS: Final = (
    (_HEADER_TABLE_SIZE, 0),
    (_ENABLE_PUSH, 0),
    (_INITIAL_WINDOW_SIZE, _LARGEST_WINDOW),
    (_MAX_FRAME_SIZE, _LARGEST_FRAME),
)
_TOP_UP: Final = 2**30
"""Bytes received after which the connection's window is opened again."""
_LAST_STREAM: Final = 2**31 - 3
_RECEIVE: Final = 2**18
_POLL_SECONDS: Final = 0.5 if sys.platform == "win32" else None
"""Windows delivers Ctrl-C between waits for a socket only, so that waits must be short there."""


class CallError(Exception):
    """The call failed: the connection is lost, or the server refused."""


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame as bytes."""
    return _FRAME_HEADER.pack(len(payload) << 8 | kind, flags, stream) + payload


def _string(text: str) -> bytes:
    """An HPACK string without Huffman coding (RFC 7541, 5.2), up to 126 bytes."""
    return bytes([len(text)]) + text.encode("ascii")


def _request_headers(authority: str, path: str) -> bytes:
    """The header block of a gRPC call: static table entries and literals that are never indexed (RFC 7541, 6.2.2)."""
    return b"".join(
        [
            b"\x83\x86",  # :method POST, :scheme http
            b"\x04" + _string(path),
            b"\x01" + _string(authority),
            b"\x0f\x10" + _string("application/grpc"),  # content-type is entry 31 = 15 + 16
            b"\x00" + _string("te") + _string("trailers"),
        ]
    )


class Http2Connection:
    """One connection to ``host:port`` for calls of one method."""

    def __init__(self, host: str, port: int, path: str) -> None:
        """Connect. Raises OSError if nobody listens."""
        self._socket = socket.create_connection((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.set_timeout(None)
        self._headers = _request_headers(f"{host}:{port}", path)
        self._buffer = bytearray()
        self._stream = -1
        self._window = self._stream_window = self._first_window = _DEFAULT_WINDOW
        self._frame_limit = 16_384
        self._received = 0
        self._closing = False
        self._reply = bytearray()
        self._done = True
        payload = b"".join(struct.pack(">HI", *setting) for setting in _OUR_SETTINGS)
        open_window = struct.pack(">I", _LARGEST_WINDOW - _DEFAULT_WINDOW)
        self._send(_PREFACE + _frame(_SETTINGS, 0, 0, payload) + _frame(_WINDOW_UPDATE, 0, 0, open_window))

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
        head = _frame(_HEADERS, _END_HEADERS, self._stream, self._headers)
        body = b"\x00" + struct.pack(">I", len(message)) + message  # not compressed
        if len(body) <= min(self._window, self._stream_window, self._frame_limit):
            self._window -= len(body)
            self._send(head + _frame(_DATA, _END_STREAM, self._stream, body))
        else:
            self._send(head)
            self._send_in_pieces(body)
        while not self._done:
            self._read_frame()
        return self._message()

    def cancel(self) -> None:
        """Give up a call that was interrupted."""
        if not self._done and self._stream > 0:
            self._send(_frame(_RST_STREAM, 0, self._stream, struct.pack(">I", _CANCEL)))

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
        if len(self._reply) < 5:
            raise CallError("the server refused the call")
        compressed, length = struct.unpack_from(">BI", self._reply)
        if compressed or length != len(self._reply) - 5:
            raise CallError("the server sent a reply that cannot be read")
        return bytes(self._reply[5:])

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
            self._send(_frame(_DATA, _END_STREAM if position == len(body) else 0, self._stream, piece))

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
        self._fill(_FRAME_HEADER.size)
        word, flags, stream = _FRAME_HEADER.unpack_from(self._buffer)
        end = _FRAME_HEADER.size + (word >> 8)
        self._fill(end)
        payload = bytes(self._buffer[_FRAME_HEADER.size : end])
        del self._buffer[:end]
        try:
            self._on_frame(word & 0xFF, flags, stream, payload)
        except (struct.error, IndexError) as error:
            raise CallError("the server sent a frame that cannot be read") from error

    def _on_frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _DATA:
            self._on_data(flags, stream, payload)
        elif kind == _HEADERS:
            self._done |= stream == self._stream and bool(flags & _END_STREAM)
        elif kind == _WINDOW_UPDATE:
            self._on_window(stream, struct.unpack(">I", payload)[0])
        elif kind == _SETTINGS and not flags & _ACK:
            self._on_settings(payload)
        elif kind == _PING and not flags & _ACK:
            self._send(_frame(_PING, _ACK, 0, payload))
        elif kind == _RST_STREAM and stream == self._stream:
            raise CallError("the server cancelled the call")
        elif kind == _GOAWAY:
            self._on_goaway(payload)

    def _on_data(self, flags: int, stream: int, payload: bytes) -> None:
        self._received += len(payload)
        if self._received >= _TOP_UP:
            self._send(_frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", self._received)))
            self._received = 0
        if stream != self._stream:
            return
        if flags & _PADDED:
            payload = payload[1 : len(payload) - payload[0]]
        self._reply += payload
        self._done |= bool(flags & _END_STREAM)

    def _on_window(self, stream: int, more: int) -> None:
        if stream == 0:
            self._window += more
        elif stream == self._stream:
            self._stream_window += more

    def _on_settings(self, payload: bytes) -> None:
        for name, value in struct.iter_unpack(">HI", payload):
            if name == _INITIAL_WINDOW_SIZE:  # also changes windows in use, which may become negative
                self._stream_window += value - self._first_window
                self._first_window = value
            elif name == _MAX_FRAME_SIZE:
                self._frame_limit = value
        self._send(_frame(_SETTINGS, _ACK, 0))

    def _on_goaway(self, payload: bytes) -> None:
        """The server takes no new calls; the one on its way may still be answered."""
        last, code = struct.unpack_from(">II", payload)
        self._closing = True
        if code or last < self._stream:
            raise CallError("the server ends the connection")
