"""The server's end of HTTP/2 without a network: hand-made frames, any chunking, small windows."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence

import pytest
from hpack import Decoder, Encoder
from hypothesis import example, given
from hypothesis import strategies as st

from tau_trainer.bridge.frames import PREFACE, frame, literal, request_headers
from tau_trainer.bridge.http2 import Call, Connection
from tau_trainer.bridge.protocol import METHOD

DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM = ACK = 0x1
END_HEADERS, PADDED, PRIORITIZED = 0x4, 0x8, 0x20
ENABLE_PUSH, MOST_STREAMS, INITIAL_WINDOW, MAX_FRAME = 2, 3, 4, 5
NO_ERROR, PROTOCOL, FLOW_CONTROL, CLOSED, FRAME_SIZE, REFUSED, COMPRESSION, CALM = 0, 1, 3, 5, 6, 7, 9, 11
WIDTH = 2**22
"""Our windows."""
Frame = tuple[int, int, int, bytes]

BLOCK = request_headers(METHOD, "localhost:5005")
HELLO = PREFACE + frame(SETTINGS, 0, 0)


def message(data: bytes) -> bytes:
    """gRPC's framing of one message."""
    return struct.pack(">BI", 0, len(data)) + data


def call(stream: int, data: bytes = b"", block: bytes = BLOCK) -> bytes:
    return frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, END_STREAM, stream, message(data))


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


def test_a_server_greets_with_bounds() -> None:
    """Four calls, and windows that bound what is under way."""
    kinds = frames(Connection().take())
    assert [(kind, stream) for kind, _, stream, _ in kinds] == [(SETTINGS, 0), (WINDOW, 0)]
    settings = dict(struct.iter_unpack(">HI", kinds[0][3]))
    assert settings == {MOST_STREAMS: 4, MAX_FRAME: 2**20, INITIAL_WINDOW: WIDTH}
    assert struct.unpack(">I", kinds[1][3])[0] == WIDTH - 65_535


def test_one_call_and_its_answer() -> None:
    connection = server()
    assert connection.receive(call(1, b"ask")) == [Call(1, b"ask")]
    connection.respond(1, b"answer")
    head, body, tail = frames(connection.take())
    assert head == (HEADERS, END_HEADERS, 1, b"\x88" + literal(b"content-type", b"application/grpc"))
    assert body == (DATA, 0, 1, message(b"answer"))
    assert tail == (HEADERS, END_HEADERS | END_STREAM, 1, literal(b"grpc-status", b"0"))


LIMIT = 2**16
"""Bytes of messages that may wait in these tests."""


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[bytes], list[Call]]:
    """Everything that a client may send, frame by frame, and what it comes to."""
    stream, parts, calls = 1, [PREFACE, frame(SETTINGS, 0, 0)], []
    encoder = Encoder()
    encoder.header_table_size = draw(st.sampled_from([0, 4096]))
    for _ in range(draw(st.integers(1, 4))):
        between = [
            frame(PING, 0, 0, b"12345678"),
            frame(PING, ACK, 0, b"12345678"),
            frame(SETTINGS, ACK, 0),
            frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW, 100_000)),
            frame(SETTINGS, 0, 0, struct.pack(">HI", 0xABC, 5)),
            frame(WINDOW, 0, 0, struct.pack(">I", 1000)),
            frame(PRIORITY, 0, stream, bytes(5)),
            frame(0xBE, 0xFF, 3, b"of an extension"),
        ]
        parts += draw(st.lists(st.sampled_from(between), max_size=3))
        block = BLOCK
        if draw(st.booleans()):
            fields = [(":method", "POST"), (":path", METHOD), ("user-agent", draw(st.sampled_from("ab")))]
            block = encoder.encode(fields, huffman=draw(st.booleans()))
        prefix, flags = draw(st.sampled_from([(b"", 0), (bytes(5), PRIORITIZED)]))
        split = draw(st.integers(0, len(block)))
        whole = draw(st.booleans())
        parts.append(frame(HEADERS, flags | END_HEADERS * whole, stream, prefix + (block if whole else block[:split])))
        if not whole:
            parts.append(frame(CONTINUATION, END_HEADERS, stream, block[split:]))
        body = draw(st.binary(max_size=60))
        framed = message(body)
        cuts = sorted({0, len(framed), *draw(st.lists(st.integers(0, len(framed)), max_size=3))})
        for first, last in itertools.pairwise(cuts):
            padding = draw(st.sampled_from([0, 0, 1, 9]))
            end, piece = END_STREAM * (last == len(framed)), framed[first:last]
            if padding:
                end, piece = end | PADDED, bytes([padding]) + piece + bytes(padding)
            parts.append(frame(DATA, end, stream, piece))
        calls.append(Call(stream, body))
        stream += 2
    return parts, calls


def fed(data: bytes, sizes: Sequence[int] = (2**30,)) -> tuple[list[Call], Connection]:
    """A server that gets ``data`` in pieces, and what it makes of them."""
    connection, found, position = Connection(LIMIT), list[Call](), 0
    for size in itertools.cycle(sizes):
        if position >= len(data):
            break
        found += connection.receive(data[position : position + size])
        position += size
    return found, connection


SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=8)


@given(conversations(), SIZES)
def test_any_chunking_gives_the_same_calls(conversation: tuple[list[bytes], list[Call]], sizes: list[int]) -> None:
    parts, wanted = conversation
    data = b"".join(parts)
    for found, connection in (fed(data), fed(data, sizes)):
        assert (found, connection.error) == (wanted, None)


def held(connection: Connection) -> int:
    """Bytes that a connection keeps."""
    bodies = sum(len(stream.body or b"") for stream in connection._streams.values())
    return bodies + len(connection._buffer) + len(connection._out)


def check(data: bytes, sizes: list[int]) -> tuple[list[Call], Connection]:
    """Nothing but a ProtocolError, which is told; little is kept; the same calls whatever the pieces."""
    found, connection = fed(data, sizes)
    again, other = fed(data)
    assert (found, str(connection.error)) == (again, str(other.error))
    assert held(connection) <= LIMIT + 2**20 + 20 * len(data)
    out = frames(connection.take())
    if connection.error is not None:
        assert out[-1][0] == GOAWAY
        assert struct.unpack(">I", out[-1][3][4:])[0] == connection.error.code != NO_ERROR
        assert connection.receive(HELLO + call(1, b"late")) == []
    for one in found:
        connection.respond(one.stream, b"answer")
    frames(connection.take())
    return found, connection


@given(st.binary(max_size=300), SIZES)
@example(frame(WINDOW, 0, 0, b""), [1])
@example(frame(HEADERS, END_HEADERS, 1, b"\x3f" + b"\xff" * 40), [7])
def test_arbitrary_bytes(data: bytes, sizes: list[int]) -> None:
    check(data, sizes)
    check(HELLO + data, sizes)


@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 255), st.integers(0, 9), st.binary(max_size=40))), SIZES)
def test_arbitrary_frames(sent: list[Frame], sizes: list[int]) -> None:
    check(HELLO + b"".join(frame(*one) for one in sent), sizes)


@given(conversations(), SIZES, st.data())
def test_mutated_conversations(
    conversation: tuple[list[bytes], list[Call]], sizes: list[int], data: st.DataObject
) -> None:
    """A frame left out, doubled or moved, a byte changed or cut off. What was complete before is heard."""
    parts, wanted = conversation
    parts = list(parts)
    place = data.draw(st.integers(0, len(parts) - 1))
    before = [one for one in wanted if one in fed(b"".join(parts[:place]))[0]]
    how = data.draw(st.sampled_from(["drop", "double", "move", "change", "cut"]))
    if how == "double":
        parts.insert(place, parts[place])
    elif how == "move":
        parts.insert(data.draw(st.integers(place, len(parts))), parts[place])
    elif how == "change":
        changed = bytearray(parts[place])
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
        parts[place] = bytes(changed)
    elif how == "cut":
        parts[place] = parts[place][: data.draw(st.integers(0, len(parts[place])))]
    else:
        del parts[place]
    found, _ = check(b"".join(parts), sizes)
    assert found[: len(before)] == before


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


def test_frames_are_no_larger_than_the_client_allows() -> None:
    """16,384 is the least that it may allow."""
    connection = server(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", MAX_FRAME, 16_384)))
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


def refused(connection: Connection, stream: int) -> bytes:
    """The gRPC status of a call that was answered with nothing else."""
    (_, flags, _, block), *rest = [one for one in frames(connection.take()) if one[2] == stream]
    assert flags == END_HEADERS | END_STREAM
    assert all(kind == RST and payload == struct.pack(">I", NO_ERROR) for kind, _, _, payload in rest)
    return dict(Decoder().decode(block, raw=True))[b"grpc-status"]


def test_a_call_without_a_message() -> None:
    connection = server()
    assert connection.receive(frame(HEADERS, END_HEADERS | END_STREAM, 1, BLOCK)) == []
    assert refused(connection, 1) == b"12"
    assert connection.receive(call(3, b"again")) == [Call(3, b"again")]


@pytest.mark.parametrize("path", ["/another.Service/Exchange", "", None])
def test_another_path_is_refused_and_costs_nothing_else(path: str | None) -> None:
    connection = server()
    block = request_headers(path, "x") if path is not None else b"\x83"
    assert connection.receive(call(1, b"hello", block) + call(3, b"again")) == [Call(3, b"again")]
    assert refused(connection, 1) == b"12"


def test_a_path_behind_the_table_of_headers() -> None:
    """What a block means depends on those before, also where it has the same bytes."""
    connection = server()
    indexed, short = Encoder(), b"\xbe"  # 0x80 | 62: the newest entry of the table
    first = indexed.encode([(":path", METHOD)])
    wrong = Encoder().encode([(":path", "/other")])
    streams = itertools.count(1, 2)

    def ask(block: bytes) -> bool:
        stream = next(streams)
        calls = connection.receive(call(stream, block=block))
        assert connection.error is None
        connection.respond(stream, b"")
        return calls == [Call(stream, b"")]

    told = [ask(block) for block in (BLOCK, BLOCK, first, short, BLOCK, wrong, short, BLOCK, b"\x20", BLOCK, BLOCK)]
    assert told == [True, True, True, True, True, False, False, True, False, True, True]


def test_a_block_that_adds_to_the_table_is_never_taken_for_known() -> None:
    """The same block twice adds twice, so what was before it is not where it would be else."""
    other, ours = (b"\x44" + bytes([len(path)]) + path for path in (b"/other", METHOD.encode()))
    connection, told = server(), []
    for turn, block in enumerate([other, ours, ours, b"\xbf"]):  # 0x80 | 63: the entry before the newest
        stream = 2 * turn + 1
        told.append(connection.receive(call(stream, block=block)) == [Call(stream, b"")])
        connection.respond(stream, b"")
    assert told == [False, True, True, True]


def test_a_block_that_changes_the_tables_size_is_never_taken_for_known() -> None:
    connection = server()
    shrink = b"\x20" + BLOCK
    grow = b"\x3f\xe1\x1f" + Encoder().encode([(":path", METHOD)])  # to 4096, and an entry
    parts = [shrink, shrink, grow, b"\xbe", shrink, grow, b"\xbe"]
    for turn, block in enumerate(parts):
        stream = 2 * turn + 1
        assert connection.receive(call(stream, block=block)) == [Call(stream, b"")], turn
        connection.respond(stream, b"")


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([METHOD, "/x"]), st.sampled_from([None, 0, 60, 4096])))
)
def test_paths_are_those_of_a_decoder_that_reads_every_block(asked: list[tuple[str, str, int | None]]) -> None:
    """Agents and paths that come and go, through tables of all sizes."""
    encoder, connection = Encoder(), server()
    for turn, (agent, path, size) in enumerate(asked):
        if size is not None:
            encoder.header_table_size = size
        block = encoder.encode([(":path", path), ("user-agent", agent)])
        stream = 2 * turn + 1
        assert connection.receive(call(stream, block=block)) == [Call(stream, b"")] * (path == METHOD)
        connection.respond(stream, b"")


def test_the_blocks_of_a_library_are_soon_known(monkeypatch: pytest.MonkeyPatch) -> None:
    connection, decoded = server(), list[bytes]()
    decode = Decoder.decode

    def watched(self: Decoder, block: bytes, raw: bool) -> object:
        decoded.append(block)
        return decode(self, block, raw)

    monkeypatch.setattr(Decoder, "decode", watched)
    encoder = Encoder()
    for stream in range(1, 21, 2):
        block = encoder.encode([(":method", "POST"), (":path", METHOD), ("te", "trailers")])
        assert connection.receive(call(stream, block=block)) == [Call(stream, b"")]
        connection.respond(stream, b"")
    assert len(decoded) == 2


def test_a_message_beyond_the_limit_is_refused_and_the_next_one_is_not() -> None:
    connection = Connection(1000)
    connection.receive(HELLO)
    connection.take()
    assert connection.receive(call(1, bytes(995))) == [Call(1, bytes(995))]
    assert connection.receive(call(3, b"")) == []  # the first is not answered
    assert refused(connection, 3) == b"8"
    connection.respond(1, b"")
    assert connection.receive(call(5, bytes(996))) == []
    connection.limit = 1001
    assert connection.receive(call(7, bytes(996))) == [Call(7, bytes(996))]


def test_a_fifth_call_is_refused_and_costs_nothing_else() -> None:
    connection = server()
    for stream in (1, 3, 5, 7):
        connection.receive(call(stream, b"ask"))
    connection.take()
    assert connection.receive(call(9, b"too many")) == []
    assert frames(connection.take()) == [(RST, 0, 9, struct.pack(">I", REFUSED))]
    connection.respond(1, b"")
    assert connection.receive(call(11, b"now")) == [Call(11, b"now")]


def test_windows_are_opened_again_and_bind() -> None:
    connection = server()
    connection.receive(frame(HEADERS, END_HEADERS, 1, BLOCK))
    piece = bytes(2**20)
    for _ in range(2):
        connection.receive(frame(DATA, 0, 1, piece))
    assert connection.take() == b""
    connection.receive(frame(DATA, 0, 1, b"x"))
    more = struct.pack(">I", 2**21 + 1)
    assert frames(connection.take()) == [(WINDOW, 0, 0, more), (WINDOW, 0, 1, more)]
    connection = server()
    connection.limit = 0  # refused at once: what is under way still counts for the connection
    connection.receive(frame(HEADERS, END_HEADERS, 1, BLOCK) + 3 * frame(DATA, 0, 1, piece))
    assert (WINDOW, 0, 0, struct.pack(">I", 3 * 2**20)) in frames(connection.take())


def test_more_than_the_window_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("frames.WINDOW", "frames.DEFAULT_WINDOW"):
        monkeypatch.setattr(f"tau_trainer.bridge.{name}", 1000)
    connection = server()
    monkeypatch.setattr("tau_trainer.bridge.frames.Endpoint._refill", lambda self: None)
    connection.receive(frame(HEADERS, END_HEADERS, 1, BLOCK) + frame(DATA, 0, 1, bytes(1000)))
    before = connection.error
    connection.receive(frame(DATA, 0, 1, b"x"))
    assert before is None
    assert connection.error is not None
    assert connection.error.code == FLOW_CONTROL


@pytest.mark.parametrize(("size", "code"), [(0, PROTOCOL), (2**31 - 65_535, FLOW_CONTROL)])
def test_a_streams_window_that_cannot_be_ends_that_call_alone(size: int, code: int) -> None:
    connection = server()
    connection.receive(call(1, b"ask"))
    told = connection.receive(frame(WINDOW, 0, 1, struct.pack(">I", size)) + call(3, b"next"))
    assert told == [Call(1, None), Call(3, b"next")]
    assert frames(connection.take()) == [(RST, 0, 1, struct.pack(">I", code))]
    connection.respond(1, b"nobody hears it")
    assert connection.take() == b""


def test_a_stranger_is_refused_and_told_to_go() -> None:
    connection = server()
    connection.receive(call(1, b"steal"))
    connection.refuse(1, "taken")
    head, away = frames(connection.take())
    assert dict(Decoder().decode(head[3], raw=True))[b"grpc-message"] == b"taken"
    assert away == (GOAWAY, 0, 0, struct.pack(">II", 1, NO_ERROR))


def test_after_a_mistake_the_calls_before_it_are_heard_and_answered() -> None:
    connection = server()
    mistake = call(1, b"one") + call(3, b"two") + frame(PING, 0, 1, bytes(8)) + call(5, b"three")
    assert connection.receive(mistake) == [Call(1, b"one"), Call(3, b"two")]
    assert frames(connection.take()) == [(GOAWAY, 0, 0, struct.pack(">II", 3, PROTOCOL))]
    connection.respond(1, b"answer")
    assert [kind for kind, *_ in frames(connection.take())] == [HEADERS, DATA, HEADERS]


ASK = frame(HEADERS, END_HEADERS, 1, BLOCK)


@pytest.mark.parametrize(
    ("code", "garbage"),
    [
        (PROTOCOL, b"GET / HTTP/1.1\r\n"),
        (PROTOCOL, b"\x16\x03\x01"),  # TLS
        (PROTOCOL, PREFACE[:-1] + b"?"),
        (PROTOCOL, PREFACE + frame(PING, 0, 0, bytes(8))),
        (PROTOCOL, HELLO + ASK + frame(DATA, PADDED | END_STREAM, 1, b"\x09" + message(b"abc"))),
        (PROTOCOL, HELLO + ASK + frame(DATA, PADDED | END_STREAM, 1, b"")),
        (FRAME_SIZE, HELLO + frame(WINDOW, 0, 0, b"abc")),
        (FRAME_SIZE, HELLO + frame(PING, 0, 0, b"1234567")),
        (FRAME_SIZE, HELLO + frame(SETTINGS, 0, 0, b"abc")),
        (FRAME_SIZE, HELLO + frame(SETTINGS, ACK, 0, bytes(6))),
        (FRAME_SIZE, HELLO + ASK + frame(RST, 0, 1, b"")),
        (FRAME_SIZE, HELLO + frame(PRIORITY, 0, 1, b"1234")),
        (FRAME_SIZE, HELLO + frame(GOAWAY, 0, 0, b"1234567")),
        (FRAME_SIZE, HELLO + struct.pack(">IBI", (2**20 + 1) << 8, 0, 1)),
        (PROTOCOL, HELLO + frame(HEADERS, END_HEADERS, 0, BLOCK)),
        (PROTOCOL, HELLO + frame(HEADERS, END_HEADERS, 2, BLOCK)),
        (PROTOCOL, HELLO + call(3, b"") + call(1, b"")),
        (PROTOCOL, HELLO + call(1, b"") + call(1, b"")),
        (PROTOCOL, HELLO + ASK + ASK),
        (PROTOCOL, HELLO + frame(DATA, END_STREAM, 1, message(b""))),
        (PROTOCOL, HELLO + frame(DATA, END_STREAM, 2, message(b""))),
        (CLOSED, HELLO + call(1, b"") + frame(DATA, END_STREAM, 1, b"more")),
        (PROTOCOL, HELLO + frame(RST, 0, 1, bytes(4))),
        (PROTOCOL, HELLO + frame(RST, 0, 0, bytes(4))),
        (PROTOCOL, HELLO + frame(WINDOW, 0, 1, struct.pack(">I", 1))),
        (PROTOCOL, HELLO + frame(WINDOW, 0, 0, bytes(4))),
        (FLOW_CONTROL, HELLO + frame(WINDOW, 0, 0, struct.pack(">I", 2**31 - 65_535))),
        (FLOW_CONTROL, HELLO + frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW, 2**31))),
        (
            FLOW_CONTROL,
            HELLO
            + ASK
            + frame(WINDOW, 0, 1, struct.pack(">I", 2**30))
            + frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW, 2**31 - 1)),
        ),
        (PROTOCOL, HELLO + frame(SETTINGS, 0, 0, struct.pack(">HI", MAX_FRAME, 16_383))),
        (PROTOCOL, HELLO + frame(SETTINGS, 0, 0, struct.pack(">HI", MAX_FRAME, 2**24))),
        (PROTOCOL, HELLO + frame(SETTINGS, 0, 0, struct.pack(">HI", ENABLE_PUSH, 2))),
        (PROTOCOL, HELLO + frame(SETTINGS, 0, 1)),
        (PROTOCOL, HELLO + frame(PING, 0, 1, bytes(8))),
        (PROTOCOL, HELLO + frame(GOAWAY, 0, 1, bytes(8))),
        (PROTOCOL, HELLO + frame(PUSH, END_HEADERS, 1, bytes(4))),
        (PROTOCOL, HELLO + frame(CONTINUATION, END_HEADERS, 1, BLOCK)),
        (PROTOCOL, HELLO + frame(HEADERS, 0, 1, BLOCK) + frame(PING, 0, 0, bytes(8))),
        (PROTOCOL, HELLO + frame(HEADERS, 0, 1, BLOCK) + frame(CONTINUATION, END_HEADERS, 3)),
        (CALM, HELLO + frame(HEADERS, 0, 1, bytes(9000)) + frame(CONTINUATION, END_HEADERS, 1, bytes(9000))),
        (COMPRESSION, HELLO + frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff")),
        (PROTOCOL, HELLO + ASK + frame(DATA, END_STREAM, 1, b"\x01" + message(b"abc")[1:])),
        (PROTOCOL, HELLO + ASK + frame(DATA, END_STREAM, 1, message(b"a") + message(b"b"))),
    ],
)
def test_mistakes_have_their_error_code(code: int, garbage: bytes) -> None:
    _, connection = fed(garbage)
    assert connection.error is not None
    assert connection.error.code == code
    *_, (kind, _, _, payload) = frames(connection.take())
    assert (kind, payload[4:]) == (GOAWAY, struct.pack(">I", code))
