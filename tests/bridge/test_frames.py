"""The pieces that both ends of HTTP/2 are made of."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.bridge.frames import (
    GOAWAY,
    LARGEST_WINDOW,
    MAX_FRAME_SIZE,
    PING,
    SETTINGS,
    Endpoint,
    ProtocolError,
    Stream,
    frame,
    literal,
    request_headers,
    unwrap,
    wrap,
)


def test_a_frame_has_a_length_of_three_bytes() -> None:
    assert frame(PING, 1, 5, b"12345678") == b"\x00\x00\x08\x06\x01\x00\x00\x00\x0512345678"
    assert frame(SETTINGS, 0, 0, bytes(70_000))[:3] == (70_000).to_bytes(3, "big")


class Silent(Endpoint):
    """An end that remembers where it was told that no more calls are answered."""

    def __init__(self) -> None:
        super().__init__({MAX_FRAME_SIZE: 2**24 - 1})
        self.last: tuple[int, int] | None = None

    def hear(self, data: bytes) -> bytes:
        self.take()
        self._buffer += data
        self._read_frames()
        return self.take()

    def say(self, message: bytes) -> bytes:
        self._streams[1] = Stream(self._initial_window)
        self._send_message(1, message)
        return self.take()

    def _on_goaway(self, last: int, code: int) -> None:
        self.last = last, code


def test_the_top_bit_of_numbers_is_passed_over() -> None:
    end = Silent()
    assert end.hear(frame(GOAWAY, 0, 0, b"\xff" * 4 + b"\x00\x00\x00\x02and why")) == b""
    assert end.last == (LARGEST_WINDOW, 2)


@pytest.mark.parametrize(("told", "kept"), [(16_384, 16_384), (20_000, 20_000), (2**24 - 1, 30_005)])
def test_frames_keep_to_the_limit_that_is_told(told: int, kept: int) -> None:
    end = Silent()
    end.hear(frame(SETTINGS, 0, 0, struct.pack(">HI", MAX_FRAME_SIZE, told)))
    assert end.say(bytes(30_000))[:3] == kept.to_bytes(3, "big")


@given(st.binary(max_size=40), st.integers(0, 255))
def test_a_padded_message_is_refused_for_its_length(message: bytes, padding: int) -> None:
    with pytest.raises(ProtocolError):
        unwrap(bytes([padding]) + wrap(message) + bytes(padding))


@given(st.binary(max_size=40))
def test_messages_are_wrapped_and_unwrapped(message: bytes) -> None:
    assert unwrap(wrap(message)) == message
    assert unwrap(bytearray(wrap(message))) == message
    for body in (b"\x01" + wrap(message)[1:], wrap(message) + b"x"):
        with pytest.raises(ProtocolError, match="compressed, or a call holds more than one"):
            unwrap(body)
    assert unwrap(wrap(message)[:4]) is None


def test_header_blocks_name_their_fields() -> None:
    assert literal(b"te", b"trailers") == b"\x00\x02te\x08trailers"
    block = request_headers("/a.B/C", "localhost:5005")
    assert block.startswith(b"\x83\x86" + literal(b":path", b"/a.B/C") + literal(b":authority", b"localhost:5005"))
