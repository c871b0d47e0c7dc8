"""The server's end of HTTP/2 without a network: hand-made frames, any chunking, small windows."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tau_trainer.bridge.frames import PREFACE, ProtocolError, frame, literal, request_headers
from tau_trainer.bridge.http2 import Call, Connection
from tau_trainer.bridge.protocol import METHOD

DATA, HEADERS, PRIORITY, RST, SETTINGS, _PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM = ACK = 0x1
END_HEADERS, PADDED = 0x4, 0x8
INITIAL_WINDOW, MAX_FRAME = 4, 5
Frame = tuple[int, int, int, bytes]

BLOCK = request_headers(METHOD, "localhost:5005")
HELLO = PREFACE + frame(SETTINGS, 0, 0)


def message(data: bytes) -> bytes:
    """gRPC's framing of one message."""
    return struct.pack(">BI", 0, len(data)) + data


def call(stream: int, data: bytes) -> bytes:
    return frame(HEADERS, END_HEADERS, stream, BLOCK) + frame(DATA, END_STREAM, stream, message(data))


def frames(data: bytes) -> list[Frame]:
    """The frames of a server's output."""
    found = []
    position = 0
    while position < len(data):
        head, flags, stream = struct.unpack_from(">IBI", data, position)
        end = position + 9 + (head >> 8)
        found.append((head & 0xFF, flags, stream, data[position + 9 : end]))
        position = end
    assert position == len(data)
    return found


def server(hello: bytes = HELLO) -> Connection:
    """A server that has been greeted, with its own greeting taken."""
    connection = Connection()
    assert connection.receive(hello) == []
    connection.take()
    return connection


def test_a_server_greets_with_wide_windows() -> None:
    kinds = frames(Connection().take())
    assert [(kind, stream) for kind, _, stream, _ in kinds] == [(SETTINGS, 0), (WINDOW, 0)]
    settings = dict(struct.iter_unpack(">HI", kinds[0][3]))
    assert settings == {INITIAL_WINDOW: 2**31 - 1, MAX_FRAME: 2**20}
    assert struct.unpack(">I", kinds[1][3])[0] == 2**31 - 1 - 65_535


def test_one_call_and_its_answer() -> None:
    connection = server()
    assert connection.receive(call(1, b"ask")) == [Call(1, b"ask")]
    connection.respond(1, b"answer")
    head, body, tail = frames(connection.take())
    assert head == (HEADERS, END_HEADERS, 1, b"\x88" + literal(b"content-type", b"application/grpc"))
    assert body == (DATA, 0, 1, message(b"answer"))
    assert tail == (HEADERS, END_HEADERS | END_STREAM, 1, literal(b"grpc-status", b"0"))


@st.composite
def conversations(draw: st.DrawFn) -> tuple[bytes, list[Call]]:
    """Everything that a client may send in between, and what it comes to."""
    stream, data, calls = 1, bytearray(HELLO), []
    for _ in range(draw(st.integers(1, 4))):
        for _ in range(draw(st.integers(0, 3))):
            data += draw(
                st.sampled_from(
                    [
                        frame(PING, 0, 0, b"12345678"),
                        frame(PING, ACK, 0, b"12345678"),
                        frame(SETTINGS, ACK, 0),
                        frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW, 100_000)),
                        frame(WINDOW, 0, 0, struct.pack(">I", 1000)),
                        frame(PRIORITY, 0, stream, bytes(5)),
                        frame(0xBE, 0xFF, 3, b"of an extension"),
                    ]
                )
            )
        body = draw(st.binary(max_size=60))
        split = draw(st.integers(0, len(BLOCK)))
        whole = draw(st.booleans())
        data += frame(HEADERS, END_HEADERS * whole, stream, BLOCK if whole else BLOCK[:split])
        if not whole:
            data += frame(CONTINUATION, END_HEADERS, stream, BLOCK[split:])
        framed = message(body)
        cuts = sorted({0, len(framed), *draw(st.lists(st.integers(0, len(framed)), max_size=3))})
        for first, last in itertools.pairwise(cuts):
            data += frame(DATA, END_STREAM * (last == len(framed)), stream, framed[first:last])
        calls.append(Call(stream, body))
        stream += 2
    return bytes(data), calls


@given(conversations(), st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_any_chunking_gives_the_same_calls(conversation: tuple[bytes, list[Call]], sizes: list[int]) -> None:
    data, wanted = conversation
    assert Connection().receive(data) == wanted
    connection, found, position, turn = Connection(), [], 0, 0
    while position < len(data):
        size = sizes[turn % len(sizes)]
        found += connection.receive(data[position : position + size])
        position, turn = position + size, turn + 1
    assert found == wanted


def test_pings_and_settings_are_acknowledged() -> None:
    connection = server()
    connection.receive(frame(PING, 0, 0, b"12345678") + frame(SETTINGS, 0, 0, struct.pack(">HI", MAX_FRAME, 20_000)))
    connection.receive(frame(PING, ACK, 0, b"12345678") + frame(SETTINGS, ACK, 0))
    assert frames(connection.take()) == [(PING, ACK, 0, b"12345678"), (SETTINGS, ACK, 0, b"")]


def test_answers_wait_for_the_clients_windows() -> None:
    """A window of 10 bytes a stream: three steps for 25 bytes, and the end only after the last."""
    connection = server(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW, 10)))
    connection.receive(call(1, b""))
    connection.respond(1, bytes(20))
    sent = frames(connection.take())
    assert [(kind, len(payload)) for kind, _, _, payload in sent[1:]] == [(DATA, 10)]
    connection.receive(frame(WINDOW, 0, 1, struct.pack(">I", 10)))
    assert [len(payload) for *_, payload in frames(connection.take())] == [10]
    connection.receive(frame(WINDOW, 0, 0, struct.pack(">I", 100)))
    assert connection.take() == b""
    connection.receive(frame(WINDOW, 0, 1, struct.pack(">I", 100)))
    rest = frames(connection.take())
    assert [(kind, flags) for kind, flags, _, _ in rest] == [(DATA, 0), (HEADERS, END_HEADERS | END_STREAM)]


def test_the_connections_window_counts_for_all_calls() -> None:
    connection = server(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW, 2**20)))
    connection.receive(call(1, b""))
    connection.respond(1, bytes(70_000))
    sent = sum(len(payload) for kind, _, _, payload in frames(connection.take()) if kind == DATA)
    assert sent == 65_535
    connection.receive(frame(WINDOW, 0, 0, struct.pack(">I", 2**20)))
    assert sum(len(payload) for kind, _, _, payload in frames(connection.take()) if kind == DATA) == 70_005 - sent


def test_a_window_that_shrinks_below_zero_must_be_refilled_first() -> None:
    connection = server()
    connection.receive(call(1, b""))
    connection.receive(frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW, 0)))
    connection.take()
    connection.respond(1, b"answer")
    assert [kind for kind, *_ in frames(connection.take())] == [HEADERS]
    connection.receive(frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW, 65_535)))
    assert [kind for kind, *_ in frames(connection.take())] == [SETTINGS, DATA, HEADERS]


@pytest.mark.parametrize("setting", [16_384, 0])
def test_frames_are_no_larger_than_the_client_allows(setting: int) -> None:
    """16,384 is the least that it may allow."""
    connection = server(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", MAX_FRAME, setting)))
    connection.receive(call(1, b""))
    connection.respond(1, bytes(40_000))
    assert [len(payload) for kind, _, _, payload in frames(connection.take()) if kind == DATA] == [16_384, 16_384, 7237]


CANCEL = struct.pack(">I", 8)


def test_a_client_that_breaks_off_while_it_asks() -> None:
    connection = server()
    connection.receive(frame(HEADERS, END_HEADERS, 1, BLOCK) + frame(DATA, 0, 1, message(b"ask")[:3]))
    assert connection.receive(frame(RST, 0, 1, CANCEL)) == [Call(1, None)]
    assert connection.receive(call(3, b"again")) == [Call(3, b"again")]


@pytest.mark.parametrize("answered", [False, True])
def test_a_client_that_breaks_off_while_we_owe_the_answer_or_part_of_it(answered: bool) -> None:
    connection = server(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW, 4)))
    connection.receive(call(1, b"ask"))
    if answered:
        connection.respond(1, b"a long answer")
        connection.take()
    assert connection.receive(frame(RST, 0, 1, CANCEL)) == [Call(1, None)]
    assert connection.receive(frame(RST, 0, 1, CANCEL)) == []
    assert connection.receive(call(3, b"again")) == [Call(3, b"again")]
    connection.respond(3, b"xy")
    connection.receive(frame(WINDOW, 0, 3, struct.pack(">I", 100)))
    assert {stream for _, _, stream, _ in frames(connection.take())} == {3}


def test_a_cancelled_answer_makes_way_for_the_next() -> None:
    connection = server(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW, 10)))
    connection.receive(call(1, b"") + call(3, b""))
    connection.respond(1, bytes(50))
    connection.respond(3, b"abc")
    connection.take()
    connection.receive(frame(RST, 0, 1, CANCEL))
    assert [(kind, stream) for kind, _, stream, _ in frames(connection.take())] == [(DATA, 3), (HEADERS, 3)]


def test_a_call_without_a_message() -> None:
    connection = server()
    assert connection.receive(frame(HEADERS, END_HEADERS | END_STREAM, 1, BLOCK)) == [Call(1, None)]


def test_the_connections_window_is_refilled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tau_trainer.bridge.frames._REFILL", 1000)
    connection = server()
    connection.receive(call(1, bytes(2000)))
    assert frames(connection.take()) == [(WINDOW, 0, 0, struct.pack(">I", 2005))]


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n",
        b"\x16\x03\x01",  # TLS
        PREFACE[:-1] + b"?",
        HELLO + frame(HEADERS, END_HEADERS, 1, BLOCK) + frame(DATA, PADDED | END_STREAM, 1, b"\x00" + message(b"abc")),
        HELLO + frame(WINDOW, 0, 0, b"abc"),
        HELLO + frame(PING, 0, 0, b"1234567"),
        HELLO + frame(SETTINGS, 0, 0, b"abc"),
        HELLO + frame(RST, 0, 1, b""),
        HELLO + frame(GOAWAY, 0, 0, b"1234567"),
        HELLO + frame(HEADERS, END_HEADERS, 0, BLOCK),
        HELLO + frame(DATA, END_STREAM, 2, message(b"")),
        HELLO + struct.pack(">IBI", (2**20 + 1) << 8, 0, 1),
        HELLO + frame(HEADERS, END_HEADERS, 1, BLOCK) + frame(DATA, END_STREAM, 1, b"\x01" + message(b"abc")[1:]),
        HELLO + frame(HEADERS, END_HEADERS, 1, BLOCK) + frame(DATA, END_STREAM, 1, message(b"a") + message(b"b")),
    ],
)
def test_what_is_no_call_is_refused(garbage: bytes) -> None:
    with pytest.raises(ProtocolError):
        Connection().receive(garbage)


@given(st.binary(max_size=300))
@example(frame(WINDOW, 0, 0, b""))
def test_random_bytes_raise_protocol_error_only(data: bytes) -> None:
    connection = server()
    try:
        connection.receive(data)
        frames(connection.take())
    except ProtocolError:
        return
