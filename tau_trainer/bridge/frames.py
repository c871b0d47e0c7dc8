"""What both ends of a unary gRPC call over cleartext HTTP/2 (RFC 9113) write and read.

The protocol needs one unary method, no streaming, no compression and no metadata (ML-Agents' protocol, section 1), so
a fraction of HTTP/2 suffices, and an exchange costs tens of microseconds instead of half a millisecond. Header blocks
are never decoded: there is one path, and the outcome of a call is known from its frames.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""A client's first bytes (RFC 9113, 3.4)."""

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
"""Kinds of frames (RFC 9113, 6)."""
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

FRAME_HEAD: Final = struct.Struct(">IBI")
"""24 bits length and 8 bits kind as one word, flags, stream (RFC 9113, 4.1)."""
_MESSAGE_HEAD: Final = struct.Struct(">BI")
"""Compressed or not, length: what stands before a gRPC message (PROTOCOL-HTTP2)."""
_GOAWAY: Final = struct.Struct(">II")
_SIZES: Final = {WINDOW_UPDATE: 4, PING: 8, RST_STREAM: 4}
"""Frames of one size."""


class ProtocolError(Exception):
    """The other side sent something that is not HTTP/2, or a gRPC feature that is not used here."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame: 24-bit length, kind, flags, stream id, payload."""
    return FRAME_HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def check_size(kind: int, payload: bytes) -> None:
    """Raise ProtocolError if frames of this kind cannot have such a payload."""
    size = len(payload)
    if size != _SIZES.get(kind, size) or (kind == SETTINGS and size % 6) or (kind == GOAWAY and size < _GOAWAY.size):
        raise ProtocolError(f"a frame of kind {kind} has {size} bytes")


def first_frames(settings: dict[int, int]) -> bytes:
    """The first frames of either end (RFC 9113, 3.4): its settings, and the widest window for the connection."""
    payload = b"".join(struct.pack(">HI", name, value) for name, value in settings.items())
    return frame(SETTINGS, 0, 0, payload) + window_update(LARGEST_WINDOW - DEFAULT_WINDOW)


def read_settings(payload: bytes) -> Iterator[tuple[int, int]]:
    """Names and values of a SETTINGS frame whose size is right."""
    return struct.iter_unpack(">HI", payload)


def frame_limit(value: int) -> int:
    """What a received MAX_FRAME_SIZE allows; a value below the least that is legal (6.5.2) is passed over."""
    return max(value, DEFAULT_FRAME)


def window_update(size: int) -> bytes:
    """Open the connection's window by ``size`` bytes: stream 0 is the connection (RFC 9113, 6.9)."""
    return frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", size))


def read_window_update(payload: bytes) -> int:
    """Bytes by which a WINDOW_UPDATE of the right size opens a window."""
    return int.from_bytes(payload, "big") & LARGEST_WINDOW


def read_goaway(payload: bytes) -> tuple[int, int]:
    """The last stream that will be answered, and the error code, of a GOAWAY of the right size (RFC 9113, 6.8)."""
    last, code = _GOAWAY.unpack_from(payload)
    return last & LARGEST_WINDOW, code


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
