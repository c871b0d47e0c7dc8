"""The pieces that both ends of HTTP/2 are made of."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.bridge.frames import (
    GOAWAY,
    INITIAL_WINDOW_SIZE,
    LARGEST_WINDOW,
    PING,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    ProtocolError,
    check_size,
    first_frames,
    frame,
    frame_limit,
    literal,
    read_goaway,
    read_settings,
    read_window_update,
    request_headers,
    unwrap,
    window_update,
    wrap,
)


def test_a_frame_has_a_length_of_three_bytes() -> None:
    assert frame(PING, 1, 5, b"12345678") == b"\x00\x00\x08\x06\x01\x00\x00\x00\x0512345678"
    assert frame(SETTINGS, 0, 0, bytes(70_000))[:3] == (70_000).to_bytes(3, "big")


def test_the_first_frames_are_settings_and_the_widest_window() -> None:
    settings = frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, 7))
    assert first_frames({INITIAL_WINDOW_SIZE: 7}) == settings + window_update(2**31 - 1 - 65_535)
    assert list(read_settings(struct.pack(">HIHI", 4, 7, 5, 8))) == [(4, 7), (5, 8)]
    assert read_window_update(window_update(1234)[9:]) == 1234
    assert read_window_update(b"\xff" * 4) == LARGEST_WINDOW
    assert read_goaway(b"\xff" * 4 + b"\x00\x00\x00\x02and why") == (LARGEST_WINDOW, 2)
    assert [frame_limit(value) for value in (0, 16_384, 20_000)] == [16_384, 16_384, 20_000]


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (WINDOW_UPDATE, (4,), (0, 3, 5)),
        (PING, (8,), (7, 9)),
        (RST_STREAM, (4,), (3,)),
        (SETTINGS, (0, 6, 12), (5, 7)),
        (GOAWAY, (8, 30), (0, 7)),
        (0xBE, (0, 3), ()),
    ],
)
def test_sizes_of_frames(kind: int, right: tuple[int, ...], wrong: tuple[int, ...]) -> None:
    for size in right:
        check_size(kind, bytes(size))
    for size in wrong:
        with pytest.raises(ProtocolError, match=f"kind {kind} has {size} bytes"):
            check_size(kind, bytes(size))


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
