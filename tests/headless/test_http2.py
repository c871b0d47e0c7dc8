"""The HTTP/2 client against grpcio's server, and against a server that plays frames by a script."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent import futures

import grpc
import pytest

from tau_trainer.bridge.frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
)
from tau_trainer.headless.http2 import CallError, Http2Connection
from tests.waiting import HANG_S

PATH = "/test.Service/Call"
UNKNOWN = 0x42


class EchoServer(grpc.GenericRpcHandler):  # type: ignore[misc]
    """grpcio's own server: repeats requests, or refuses those that begin with `refuse`."""

    def __init__(self) -> None:
        unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        self.server = grpc.server(futures.ThreadPoolExecutor(2), options=unlimited)
        self.server.add_generic_rpc_handlers((self,))
        self.port = int(self.server.add_insecure_port("localhost:0"))
        self.server.start()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return grpc.unary_unary_rpc_method_handler(self._echo) if details.method == PATH else None

    @staticmethod
    def _echo(request: bytes, context: grpc.ServicerContext) -> bytes:
        if request.startswith(b"refuse"):
            context.abort(grpc.StatusCode.INTERNAL, "refused")
        return request * 2


@pytest.fixture
def echo() -> Iterator[EchoServer]:
    server = EchoServer()
    yield server
    server.server.stop(0).wait(HANG_S)


@pytest.fixture
def connection(echo: EchoServer) -> Iterator[Http2Connection]:
    client = Http2Connection("localhost", echo.port, PATH)
    client.set_timeout(20.0)
    yield client
    client.close()


@pytest.mark.parametrize("size", [0, 1, 16_379, 16_380, 65_530, 65_531, 8_000_000])
def test_messages_of_all_sizes_pass_grpcios_server(connection: Http2Connection, size: int) -> None:
    message = bytes(range(256)) * (size // 256) + bytes(size % 256)
    assert connection.call(message) == message * 2
    assert connection.call(b"small") == b"smallsmall"


def test_many_calls_use_the_windows_up_and_get_them_back(connection: Http2Connection) -> None:
    message = bytes(30_000)
    for _ in range(500):
        assert len(connection.call(message)) == 60_000


def test_a_refused_call_fails_and_the_next_works(connection: Http2Connection) -> None:
    with pytest.raises(CallError, match="refused"):
        connection.call(b"refuse")
    assert connection.call(b"a") == b"aa"


def test_a_server_that_stops_fails_the_call(echo: EchoServer, connection: Http2Connection) -> None:
    connection.call(b"a")
    echo.server.stop(0).wait(HANG_S)
    with pytest.raises(CallError):
        connection.call(b"a")


def test_nobody_listens(closed_port: int) -> None:
    with pytest.raises(OSError, match="refused"):
        Http2Connection("127.0.0.1", closed_port, PATH)


class ScriptedServer:
    """Accepts one connection and runs a script over raw frames."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(HANG_S)
        self.port = int(self._listener.getsockname()[1])
        self._thread: threading.Thread | None = None
        self._socket: socket.socket | None = None
        self.failure: BaseException | None = None

    def run(self, script: Callable[[ScriptedServer], None]) -> None:
        """Serve the next connection by ``script``."""

        def serve() -> None:
            try:
                self._socket = self._listener.accept()[0]
                self._socket.settimeout(HANG_S)
                assert self.read(24) == PREFACE
                script(self)
            except BaseException as error:  # handed to the test's thread
                self.failure = error
            finally:
                if self._socket is not None:
                    self._socket.close()

        self._thread = threading.Thread(target=serve, daemon=True)
        self._thread.start()

    def read(self, count: int) -> bytes:
        assert self._socket is not None
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            assert more, "the client closed the connection"
            data += more
        return data

    def frame(self) -> tuple[int, int, int, bytes]:
        """The client's next frame: kind, flags, stream, payload."""
        word, flags, stream = struct.unpack(">IBI", self.read(9))
        return word & 0xFF, flags, stream, self.read(word >> 8)

    def frame_of(self, kind: int) -> tuple[int, int, int, bytes]:
        """The client's next frame of one kind."""
        while (frame := self.frame())[0] != kind:
            pass
        return frame

    def send(self, kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> None:
        assert self._socket is not None
        self._socket.sendall(struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload)

    def reply(self, stream: int, message: bytes) -> None:
        """A plain reply: headers, data, trailers."""
        self.send(HEADERS, END_HEADERS, stream, b"\x88")
        self.send(DATA, 0, stream, struct.pack(">BI", 0, len(message)) + message)
        self.send(HEADERS, END_HEADERS | END_STREAM, stream, b"\x88")

    def finish(self) -> None:
        if self._thread is not None:
            self._thread.join(HANG_S)
        self._listener.close()
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    scripted = ScriptedServer()
    yield scripted
    scripted.finish()


def call(server: ScriptedServer, script: Callable[[ScriptedServer], None], *messages: bytes) -> list[bytes]:
    server.run(script)
    client = Http2Connection("127.0.0.1", server.port, PATH)
    client.set_timeout(20.0)
    try:
        return [client.call(message) for message in messages]
    finally:
        client.close()


def test_requests_are_grpc_calls(server: ScriptedServer) -> None:
    def script(peer: ScriptedServer) -> None:
        kind, _, stream, settings = peer.frame()
        assert (kind, stream) == (SETTINGS, 0)
        assert dict(struct.iter_unpack(">HI", settings))[2] == 0  # no pushes
        for expected in (1, 3):
            _, flags, stream, headers = peer.frame_of(HEADERS)
            assert (flags, stream) == (END_HEADERS, expected)
            for text in (PATH, "application/grpc", "te", "trailers", f"127.0.0.1:{peer.port}"):
                assert bytes([len(text)]) + text.encode() in headers
            _, flags, stream, body = peer.frame()
            assert (flags, stream, body) == (END_STREAM, expected, b"\x00\x00\x00\x00\x03abc")
            peer.reply(stream, b"hello")

    assert call(server, script, b"abc", b"abc") == [b"hello", b"hello"]


def test_frames_between_are_answered_or_passed_over(server: ScriptedServer) -> None:
    def script(peer: ScriptedServer) -> None:
        peer.send(SETTINGS, 0, 0, struct.pack(">HI", 0x3, 100))
        if peer.frame_of(DATA)[2] == 1:
            peer.reply(1, b"first")
            peer.frame_of(DATA)
        peer.send(PING, 0, 0, b"12345678")
        peer.send(PING, ACK, 0, b"unasked!")
        peer.send(UNKNOWN, 0, 0, b"what is this")
        peer.send(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1000))
        peer.send(DATA, END_STREAM, 1, b"of a call that is over")
        peer.send(HEADERS, END_HEADERS, 3, b"\x88")
        peer.send(DATA, 0, 3, b"\x00\x00\x00\x00\x05he")
        peer.send(DATA, END_STREAM, 3, b"llo")
        assert peer.frame_of(PING)[1:] == (ACK, 0, b"12345678")

    assert call(server, script, b"abc", b"def") == [b"first", b"hello"]


def test_the_servers_windows_and_frame_limit_are_kept(server: ScriptedServer) -> None:
    """A window that shrinks below what is on its way becomes negative, and opens again by updates."""
    message = bytes(range(250)) * 400  # 100,000 bytes

    def script(peer: ScriptedServer) -> None:
        body = b""
        while len(body) < 65_535:
            _, flags, _, data = peer.frame_of(DATA)
            assert len(data) <= 16_384
            assert not flags & END_STREAM
            body += data
        assert len(body) == 65_535
        peer.send(SETTINGS, 0, 0, struct.pack(">HI", 0x4, 65_535 - 5_000))
        peer.frame_of(SETTINGS)
        peer.send(WINDOW_UPDATE, 0, 0, struct.pack(">I", 100_000))
        peer.send(WINDOW_UPDATE, 0, 1, struct.pack(">I", 5_000 + 7))
        _, _, _, data = peer.frame_of(DATA)
        assert len(data) == 7
        body += data
        peer.send(WINDOW_UPDATE, 0, 1, struct.pack(">I", 100_000))
        while len(body) < len(message) + 5:
            body += peer.frame_of(DATA)[3]
        assert body[5:] == message
        peer.reply(1, b"ok")

    assert call(server, script, message) == [b"ok"]


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ([(RST_STREAM, 0, 1, b"\x00\x00\x00\x08")], "cancelled"),
        ([(GOAWAY, 0, 0, struct.pack(">II", 0, 0))], "closing the connection"),
        ([(GOAWAY, 0, 0, struct.pack(">II", 1, 2))], "closing the connection"),
        ([(GOAWAY, 0, 0, b"")], "cannot be read"),
        ([(WINDOW_UPDATE, 0, 0, b"123")], "cannot be read"),
        ([(SETTINGS, 0, 0, b"12345")], "cannot be read"),
        ([(DATA, 0x8 | END_STREAM, 1, b"\x07\x00\x00\x00\x00\x01x")], "cannot be read"),  # more padding than payload
        ([(HEADERS, END_HEADERS | END_STREAM, 1, b"\x88")], "refused"),
        ([(DATA, END_STREAM, 1, b"\x01\x00\x00\x00\x01x")], "cannot be read"),
        ([(DATA, END_STREAM, 1, b"\x00\x00\x00\x00\x09x")], "cannot be read"),
        *(([(SETTINGS, 0, 0, struct.pack(">HI", 0x5, limit))], "cannot be read") for limit in (0, 16_383, 2**24)),
        ([], "connection closed"),
    ],
)
def test_what_goes_wrong_fails_the_call(
    server: ScriptedServer, frames: list[tuple[int, int, int, bytes]], message: str
) -> None:
    def script(peer: ScriptedServer) -> None:
        peer.frame_of(DATA)
        for frame in frames:
            peer.send(*frame)

    with pytest.raises(CallError, match=message):
        call(server, script, b"abc")


def test_a_connection_that_is_reset_fails_the_call(server: ScriptedServer) -> None:
    """As the system does it where a trainer is killed that has not read everything."""

    def script(peer: ScriptedServer) -> None:
        peer.frame_of(DATA)
        assert peer._socket is not None
        peer._socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
        )

    with pytest.raises(CallError, match=r"reset|forcibly"):
        call(server, script, b"abc")


def test_a_graceful_end_lets_the_call_finish_and_asks_for_a_new_connection(server: ScriptedServer) -> None:
    def script(peer: ScriptedServer) -> None:
        peer.frame_of(DATA)
        peer.send(GOAWAY, 0, 0, struct.pack(">II", 2**31 - 1, 0))
        peer.reply(1, b"last")

    server.run(script)
    client = Http2Connection("127.0.0.1", server.port, PATH)
    usable = [client.usable]
    assert client.call(b"abc") == b"last"
    usable.append(client.usable)
    assert usable == [True, False]
    client.close()


def test_an_interrupted_call_is_cancelled_and_another_can_follow(server: ScriptedServer) -> None:
    def script(peer: ScriptedServer) -> None:
        assert peer.frame_of(RST_STREAM)[2] == 1
        assert peer.frame_of(HEADERS)[2] == 3
        peer.frame_of(DATA)
        peer.reply(1, b"too late")
        peer.reply(3, b"in time")

    server.run(script)
    client = Http2Connection("127.0.0.1", server.port, PATH)
    client.set_timeout(0.05)
    with pytest.raises(CallError, match="timed out"):
        client.call(b"abc")
    client.set_timeout(20.0)
    client.cancel()
    assert client.call(b"def") == b"in time"
    client.close()
