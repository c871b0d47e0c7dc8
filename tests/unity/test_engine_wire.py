"""What the C# engine makes of other servers, other trainers' replies, signals and mistakes."""

from __future__ import annotations

import re
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tau_trainer.bridge.codec import (
    TrainerCodec,
    TrainerInitialization,
    encode_close,
    encode_initialization,
    encode_reply,
    parse_engine_message,
)
from tau_trainer.bridge.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    literal,
)
from tau_trainer.bridge.protocol import METHOD, Command
from tau_trainer.bridge.records import delimited
from tau_trainer.bridge.side_channels import ENVIRONMENT_PARAMETERS, Writer, environment_parameter_payload, pack_payload
from tau_trainer.tau.formulas import incremental

DATA_FILE = Path(__file__).parents[2] / "tau_trainer" / "tau" / "data" / "tau.json"
WAIT = 20.0
UNKNOWN = 0x42
PADDED = 0x8
STATUS_OK = literal(b"grpc-status", b"0")


class ScriptedServer:
    """A trainer's end made of raw frames; the test says every one of them."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(WAIT)
        self.port = int(self._listener.getsockname()[1])
        self._socket: socket.socket | None = None

    def accept(self, *, settings: bytes = b"") -> None:
        """The engine's connection, up to the end of both sides' first words."""
        self.hang_up()
        self._socket = self._listener.accept()[0]
        self._socket.settimeout(WAIT)
        assert self.read(len(PREFACE)) == PREFACE
        kind, _, stream, ours = self.frame()
        assert (kind, stream) == (SETTINGS, 0)
        assert {1: 0, 2: 0}.items() <= dict(struct.iter_unpack(">HI", ours)).items()  # no dynamic table, no pushes
        self.send(SETTINGS, 0, 0, settings)

    def raw(self, data: bytes) -> None:
        assert self._socket is not None
        self._socket.sendall(data)

    def read(self, count: int) -> bytes:
        assert self._socket is not None
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            assert more, "the engine closed the connection"
            data += more
        return data

    def frame(self) -> tuple[int, int, int, bytes]:
        """The engine's next frame: kind, flags, stream, payload."""
        word, flags, stream = struct.unpack(">IBI", self.read(9))
        return word & 0xFF, flags, stream, self.read(word >> 8)

    def frame_of(self, kind: int) -> tuple[int, int, int, bytes]:
        """The engine's next frame of one kind."""
        while (frame := self.frame())[0] != kind:
            pass
        return frame

    def send(self, kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> None:
        self.raw(struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload)

    def call(self) -> tuple[int, bytes]:
        """The engine's next call: its stream and its message, however many frames it comes in."""
        _, flags, stream, headers = self.frame_of(HEADERS)
        assert flags == END_HEADERS
        assert METHOD.encode() in headers
        body, flags = b"", 0
        while not flags & END_STREAM:
            _, flags, _, piece = self.frame_of(DATA)
            body += piece
        compressed, size = struct.unpack_from(">BI", body)
        assert (compressed, size) == (0, len(body) - 5)
        return stream, body[5:]

    def answer(self, stream: int, message: bytes) -> None:
        """A plain answer: headers, data, trailers."""
        self.send(HEADERS, END_HEADERS, stream, b"\x88")
        self.send(DATA, 0, stream, struct.pack(">BI", 0, len(message)) + message)
        self.send(HEADERS, END_HEADERS | END_STREAM, stream, STATUS_OK)

    def handshake(self, first: bytes = b"", second: bytes = b"") -> None:
        """Accept, and answer the first two calls."""
        self.accept()
        for reply in (first or encode_initialization(TrainerInitialization()), second or encode_reply(Command.RESET)):
            self.answer(self.call()[0], reply)

    def hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def close(self) -> None:
        self.hang_up()
        self._listener.close()


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    scripted = ScriptedServer()
    yield scripted
    scripted.close()


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(engine_build: Path, server: ScriptedServer) -> Iterator[Start]:
    """Starts an engine of three pairs for ``server``; whatever happens, it is gone afterwards."""
    started: list[subprocess.Popen[str]] = []

    def run(*flags: str) -> subprocess.Popen[str]:
        command = [str(engine_build), "--mlagents-port", str(server.port), "--tau-data", str(DATA_FILE)]
        command += ["-nographics", "-batchmode", "--tau-pairs", "3", *flags]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def end_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and log of an engine that ends."""
    out, log = process.communicate(timeout=WAIT)
    return process.returncode, out + log


# --- HTTP/2 -----------------------------------------------------------------------------------------------------------


def test_all_that_a_server_may_send_is_understood(start: Start, server: ScriptedServer) -> None:
    """Small windows, pings, padding, priorities, continuations, unknown frames, indexed and unindexed headers."""
    process = start()
    server.accept(settings=struct.pack(">HIHI", INITIAL_WINDOW_SIZE, 20, 0x99, 1))
    _, _, stream, _ = server.frame_of(HEADERS)
    assert stream == 1
    _, _, _, body = server.frame_of(DATA)  # the settings may have come after the first message, which fitted before
    while len(body) < 5 or len(body) < 5 + struct.unpack_from(">I", body, 1)[0]:
        assert len(body) % 20 == 0
        server.send(WINDOW_UPDATE, 0, 1, struct.pack(">I", 20))
        body += server.frame_of(DATA)[3]
    assert parse_engine_message(body[5:]).initialization is not None
    reply = encode_initialization(TrainerInitialization(seed=4))
    server.send(PING, 0, 0, b"12345678")
    server.send(PING, ACK, 0, b"unasked!")
    server.send(UNKNOWN, 0xFF, 1, b"what is this")
    server.send(DATA, END_STREAM, 99, b"for nobody")
    server.send(HEADERS, PADDED | 0x20, 1, b"\x03" + bytes(5) + b"\x88" + bytes(3))
    server.send(CONTINUATION, END_HEADERS, 1, literal(b"content-type", b"application/grpc"))
    server.send(DATA, PADDED, 1, b"\x02" + struct.pack(">BI", 0, len(reply)) + reply[:7] + bytes(2))
    server.send(DATA, 0, 1, b"")
    server.send(DATA, 0, 1, reply[7:])
    block = b"\x20\x40\x0bgrpc-status\x010" + b"\x10\x83abc\x81x" + b"\x0f\x2a\x03xyz"
    server.send(HEADERS, END_STREAM, 1, block[:9])
    server.send(CONTINUATION, END_HEADERS, 1, block[9:])
    assert server.frame_of(PING)[1:] == (ACK, 0, b"12345678")
    stream, message = server.call()
    assert (stream, message) == (3, bytes.fromhex("0a0308c801"))
    server.answer(stream, encode_close())
    code, log = end_of(process)
    assert (code, log.splitlines()[1:]) == (0, ["the trainer closed the connection (status 400); this engine ends"])


def test_a_graceful_end_of_a_connection_leads_to_another(start: Start, server: ScriptedServer) -> None:
    process = start()
    server.accept()
    stream, _ = server.call()
    server.send(GOAWAY, 0, 0, struct.pack(">II", 2**31 - 1, 0))
    server.answer(stream, encode_initialization(TrainerInitialization()))
    server.accept()
    stream, message = server.call()
    assert (stream, message) == (1, bytes.fromhex("0a0308c801"))
    server.answer(stream, encode_close())
    assert end_of(process)[0] == 0


NO_TRAINER = "error: What listens on localhost:{port} does not answer as an ML-Agents trainer ({why}); give the "
TOO_LARGE = "error: A message is too large for the trainer on localhost:{port} ({why}); give fewer pairs with "
GONE = "the trainer is gone ({why}); this engine ends"
Frame = tuple[int, int, int, bytes]


def trailers(block: bytes = b"") -> Frame:
    """An answer that is a header block alone."""
    return HEADERS, END_HEADERS | END_STREAM, 1, b"\x88" + block


UNAVAILABLE = literal(b"grpc-status", b"14")
REFUSED = literal(b"grpc-status", b"12") + literal(b"grpc-message", b"no%20such%zz method%")
NOT_ONE = "its reply is compressed, cut short, or not alone"
FRAMES: dict[str, tuple[list[Frame], int, str]] = {
    "reset": ([(RST_STREAM, 0, 1, b"\x00\x00\x00\x08")], 0, "the server cancelled the call"),
    "end": ([(GOAWAY, 0, 0, struct.pack(">II", 0, 0))], 0, "the server ends the connection"),
    "end with an error": ([(GOAWAY, 0, 0, struct.pack(">II", 1, 2))], 0, "the server ends the connection"),
    "hangs up": ([], 0, "connection closed"),
    "unavailable": ([trailers(UNAVAILABLE)], 0, "the server refused the call"),
    "no status": ([trailers()], 0, "the server refused the call"),
    "refused": ([trailers(REFUSED)], 2, "the server refused the call: no such%zz method%, status 12"),
    "too large": ([trailers(literal(b"grpc-status", b"8"))], 2, "the server refused the call"),
    "short end": ([(GOAWAY, 0, 0, b"")], 2, "a frame of kind 7 has 0 bytes"),
    "short window": ([(WINDOW_UPDATE, 0, 0, b"123")], 2, "a frame of kind 8 has 3 bytes"),
    "short settings": ([(SETTINGS, 0, 0, b"12345")], 2, "a frame of kind 4 has 5 bytes"),
    "no padding": ([(DATA, PADDED, 1, b"")], 2, "a frame is padded beyond its length"),
    "too much padding": ([(DATA, PADDED, 1, b"\x05abc")], 2, "a frame is padded beyond its length"),
    "push": ([(5, 0, 1, b"\x00\x00\x00\x02")], 2, "it pushes what nobody asked for"),
    "broken headers": ([trailers(b"\x00\x0bgrpc")], 2, "a header block ends inside a field"),
    "compressed": ([(DATA, END_STREAM, 1, b"\x01\x00\x00\x00\x01x")], 2, NOT_ONE),
    "cut short": ([(DATA, END_STREAM, 1, b"\x00\x00\x00\x00\x09x")], 2, NOT_ONE),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_call_that_fails_ends_the_engine(start: Start, server: ScriptedServer, name: str) -> None:
    """A trainer that goes is a normal end; one that sends nonsense is a mistake, told in one sentence."""
    frames, code, why = FRAMES[name]
    process = start()
    server.accept()
    server.call()
    for frame in frames:
        server.send(*frame)
    server.hang_up()
    found, log = end_of(process)
    (last,) = log.splitlines()[1:]
    sentence = TOO_LARGE if name == "too large" else NO_TRAINER if code else GONE
    assert last.startswith(sentence.format(port=server.port, why=why))
    assert found == code


def test_a_web_server_is_no_trainer(start: Start, server: ScriptedServer) -> None:
    process = start()
    server._socket = server._listener.accept()[0]
    server.raw(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    code, log = end_of(process)
    assert code == 2
    assert "does not answer as an ML-Agents trainer (its first words are not HTTP/2)" in log


# --- replies ----------------------------------------------------------------------------------------------------------

OTHER_VERSION = encode_initialization(TrainerInitialization(communication_version="2.0.0"))
ENDLESS_VARINT = b"\x0a\x0c\x08" + b"\xff" * 11
HANDSHAKES = {
    "not the protocol": ((b"\x0a\xff", b""), 2, "not a message of ML-Agents' protocol"),
    "a varint without end": ((ENDLESS_VARINT, b""), 2, "not a message of ML-Agents' protocol"),
    "a field of no type": ((b"\x0f", b""), 2, "not a message of ML-Agents' protocol"),
    "another version": ((OTHER_VERSION, b""), 2, "communicator API 2.0.0"),
    "no introduction": ((encode_reply(Command.STEP), b""), 2, "another protocol"),
    "not wanted": ((encode_close(), b""), 0, "closed the connection (status 400)"),
    "no input": ((b"", bytes.fromhex("0a0308c801")), 2, "second reply holds no input"),
    "given up": ((b"", encode_close()), 0, "closed the connection (status 400)"),
    "told to quit": ((b"", encode_reply(Command.QUIT)), 0, "closed the connection (status 200)"),
    "side channel cut short": ((b"", encode_reply(Command.RESET, side_channel=b"short")), 2, "inside an envelope"),
}


@pytest.mark.parametrize("name", HANDSHAKES)
def test_handshakes(start: Start, server: ScriptedServer, name: str) -> None:
    (first, second), code, words = HANDSHAKES[name]
    process = start()
    server.accept()
    server.answer(server.call()[0], first or encode_initialization(TrainerInitialization()))
    if not first:
        server.answer(server.call()[0], second)
    found, log = end_of(process)
    assert found == code
    assert words in log.splitlines()[-1]
    assert len(log.splitlines()) == 2


def told(payload: bytes) -> bytes:
    return encode_reply(Command.STEP, side_channel=pack_payload(ENVIRONMENT_PARAMETERS, payload))


def acting(count: int, size: int, value: float = 0.5) -> Callable[[TrainerCodec], bytes]:
    """A reply with ``count`` actions of ``size`` numbers."""

    def reply(codec: TrainerCodec) -> bytes:
        floats = struct.pack(f"<{size}f", *[value] * size)
        action = b"\x32" + bytes([len(floats)]) + floats
        return encode_reply(Command.STEP, {"TauAgent?team=0": (b"\x0a" + bytes([len(action)]) + action) * count})

    return reply


REPLIES: dict[str, tuple[Callable[[TrainerCodec], bytes], int, str]] = {
    "too few actions": (acting(2, 3), 2, "2 actions of behavior `TauAgent?team=0` for the 3 agents"),
    "too many actions": (acting(4, 3), 2, "4 actions of behavior `TauAgent?team=0` for the 3 agents"),
    "actions of another size": (acting(3, 4), 2, "an action of 4 continuous values"),
    "NaN": (acting(3, 3, float("nan")), 2, "NaN as an action of behavior `TauAgent?team=0` for agent 0"),
    "a parameter without end": (
        lambda _: told(environment_parameter_payload("threshold", float("nan"))),
        2,
        "`threshold` is not finite",
    ),
    "a parameter that means nothing": (
        lambda _: told(environment_parameter_payload("reward_type", 9.0)),
        2,
        "`reward_type` is 9",
    ),
    "a parameter of no kind": (lambda _: told(bytes(Writer().string("x").int32(7))), 2, "unknown kind 7"),
    "a sampler without a range": (
        lambda _: told(bytes(Writer().string("x").int32(1).int32(3).int32(2).float_list([1.0]))),
        2,
        "sampler of kind 2 with 1 numbers",
    ),
    "half a float": (
        lambda _: encode_reply(Command.STEP, {"TauAgent?team=0": b"\x0a\x04\x32\x02\x00\x00"}),
        2,
        "not a message of ML-Agents' protocol",
    ),
    "the end": (lambda _: encode_close(), 0, "closed the connection (status 400)"),
}


@pytest.mark.parametrize("name", REPLIES)
def test_replies_to_a_step(start: Start, server: ScriptedServer, name: str) -> None:
    reply, code, words = REPLIES[name]
    process = start()
    server.handshake()
    codec = TrainerCodec()
    stream, message = server.call()
    (batch,) = codec.steps(parse_engine_message(message))
    assert batch.agent_ids.tolist() == [0, 1, 2]
    server.answer(stream, reply(codec))
    found, log = end_of(process)
    assert found == code
    assert words in log
    assert "the engine has a defect" not in log
    assert "peak concurrency 3" in log


def test_fields_that_nobody_knows_and_other_behaviors_are_skipped(start: Start, server: ScriptedServer) -> None:
    """No actions at all are zeros; floats need not be packed, nor keys come before their values."""
    process = start("--tau-target-sensor")
    server.handshake()
    codec = TrainerCodec()
    action = (0.5, -1.0, 0.25)
    unpacked = b"\x0a\x0f" + b"".join(b"\x35" + struct.pack("<f", value) for value in action)
    strange = b"\x7a\x02hi\x80\x01\x05\x8d\x01abcd\x89\x01abcdefgh"
    entry = delimited(2, unpacked * 3) + delimited(1, b"TauAgent?team=0")
    by_hand = bytes.fromhex("0a0308c801") + strange + delimited(3, delimited(1, delimited(1, entry) + strange))
    other = encode_reply(Command.STEP, {"Other?team=0": b"\x0a\x03abc"})
    nothing = encode_reply(Command.STEP)
    played = [(by_hand, action), (other, (0.0, 0.0, 0.0)), (nothing, (0.0, 0.0, 0.0)), (by_hand, action)]
    expected = np.zeros(3, np.float32)
    for reply, values in played:
        stream, message = server.call()
        (batch,) = codec.steps(parse_engine_message(message))
        assert np.array_equal(batch.reward, expected)
        expected = incremental(np.tile(values, (3, 1)), batch.obs[0]).astype(np.float32)
        server.answer(stream, reply)
    stream, message = server.call()
    (batch,) = codec.steps(parse_engine_message(message))
    assert np.array_equal(batch.reward, expected)
    server.answer(stream, encode_close())
    assert end_of(process)[0] == 0


# --- a trainer that goes; signals -------------------------------------------------------------------------------------


def test_a_trainer_that_goes_in_the_middle(start: Start, server: ScriptedServer) -> None:
    process = start()
    server.handshake()
    server.call()
    server.hang_up()
    code, log = end_of(process)
    assert code == 0
    assert "the trainer is gone (" in log
    assert "peak concurrency 3" in log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_engine_with_a_goodbye(start: Start, server: ScriptedServer, number: signal.Signals) -> None:
    process = start()
    server.handshake()
    stream, _ = server.call()
    began = time.monotonic()
    process.send_signal(number)
    assert server.frame_of(RST_STREAM)[2] == stream
    stream, message = server.call()
    assert parse_engine_message(message).status == 400
    server.answer(stream, encode_close())
    code, log = end_of(process)
    assert time.monotonic() - began < 5.0
    assert (code, log.splitlines()[-1]) == (0, "stopped by the user")


def test_a_trainer_that_does_not_hear_the_goodbye_is_left(start: Start, server: ScriptedServer) -> None:
    process = start()
    server.handshake()
    server.call()
    process.send_signal(signal.SIGTERM)
    code, log = end_of(process)
    assert (code, log.splitlines()[-1]) == (0, "stopped by the user")


def test_a_report_file_that_cannot_be_written(start: Start, server: ScriptedServer, tmp_path: Path) -> None:
    process = start("--report-file", str(tmp_path / "no" / "folder.bin"))
    server.handshake()
    code, log = end_of(process)
    assert code == 2
    assert "The report file" in log


def test_a_flag_that_is_mistyped_is_told_in_the_log(start: Start, server: ScriptedServer) -> None:
    process = start("--tau-window2", "3")
    server.accept()
    server.answer(server.call()[0], encode_close())
    assert re.search("--tau-window2.* ignored", end_of(process)[1])
