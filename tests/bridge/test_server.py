"""Both servers of engines, ours and the one on grpcio, against the C core that Unity uses."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

import grpc
import pytest

from tau_trainer.bridge.dialect import Dialect
from tau_trainer.bridge.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    PING,
    PREFACE,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    request_headers,
    wrap,
)
from tau_trainer.bridge.ports import has_ipv6
from tau_trainer.bridge.protocol import METHOD
from tau_trainer.bridge.server import EngineServer
from tau_trainer.bridge.server import _Link as HttpLink
from tau_trainer.errors import EngineDisconnectedError, PortInUseError
from tests.bridge.conftest import Client, client
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from tau_trainer.bridge.server import Server
    from tests.bridge.conftest import NewServer

ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")


async def until(true: Callable[[], bool]) -> None:
    """Wait until something is so."""
    while not true():  # noqa: ASYNC110 (what is waited for has no event)
        await asyncio.sleep(0.01)


async def echo(server: Server, engine: Client, data: bytes) -> bytes:
    """One exchange: the engine sends ``data`` and is answered with the same backwards."""
    call = engine.call(data)
    assert await server.receive() == data
    owed = server.owes_reply
    server.reply(data[::-1])
    assert (owed, server.owes_reply) == (True, False)
    return await call


async def test_many_messages_of_every_size(server: Server) -> None:
    with client(server.port) as engine:
        for size in (0, 1, 16_384, 65_536, 4 * 2**20 + 1, 20 * 2**20):
            data = bytes(range(256)) * (size // 256 + 1)
            assert await echo(server, engine, data[:size]) == data[:size][::-1]
        for i in range(300):
            assert await echo(server, engine, f"call {i}".encode()) == f"call {i}".encode()[::-1]


async def test_a_server_belongs_to_the_first_that_calls(server: Server) -> None:
    with client(server.port) as engine, client(server.port) as other:
        assert await echo(server, engine, b"one") == b"eno"
        pending = engine.call(b"two")
        assert await server.receive() == b"two"
        waiting = server.receive()
        with pytest.raises(grpc.RpcError) as refusal:
            await asyncio.to_thread(other.channel.unary_unary(METHOD), b"steal", timeout=HANG_S)
        assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE
        assert refusal.value.details() == "another engine plays here; every engine needs its own port"
        assert not waiting.done()
        server.reply(b"mine")
        assert await pending == b"mine"
        again = engine.call(b"still here")
        assert await waiting == b"still here"
        server.reply(b"yes")
        assert await again == b"yes"


def introduces(dialect: Dialect, message: bytes) -> str | None:
    return None if message == b"engine" else "it is not the engine"


async def http1(port: int) -> None:
    """A browser, or a health check."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    with contextlib.suppress(ConnectionError):
        await asyncio.wait_for(reader.read(), HANG_S)
    writer.close()


async def scan(port: int) -> None:
    """Whoever asks whether a port is open."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()
    await writer.wait_closed()


async def other_method(port: int) -> None:
    """gRPC's health check: not our method."""
    with client(port) as stranger:
        check = stranger.channel.unary_unary("/grpc.health.v1.Health/Check")
        with pytest.raises(grpc.RpcError) as refusal:
            await asyncio.to_thread(check, b"", timeout=HANG_S)
        assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def other_stream(port: int) -> None:
    """A call that never says anything and waits for what it is told."""
    with client(port) as stranger:
        watch = stranger.channel.unary_stream("/grpc.health.v1.Health/Watch")
        with pytest.raises(grpc.RpcError) as refusal:
            await asyncio.to_thread(lambda: list(watch(b"", timeout=HANG_S)))
        assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def another_engine(port: int) -> None:
    """What an engine says in the middle of a game: to a trainer that is gone."""
    with client(port) as stranger:
        with pytest.raises(grpc.RpcError) as refusal:
            await stranger.call(b"step")
        assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("stranger", [http1, scan, other_method, other_stream, another_engine])
async def test_whoever_calls_before_the_engine_is_refused_and_named(
    server: Server, stranger: Callable[[int], Coroutine[None, None, None]]
) -> None:
    """grpcio tells nobody of who does not speak gRPC at all, and a port that is only looked at has no caller."""
    told: list[tuple[str, str]] = []
    server.objection, server.on_stranger = introduces, lambda peer, why: told.append((peer, why))
    waiting = server.receive()
    await stranger(server.port)
    assert not waiting.done()
    assert not server.owes_reply
    silent = stranger is scan or (stranger is http1 and not isinstance(server, EngineServer))
    assert len(told) == (not silent)
    for peer, _ in told:
        host, _, port = peer.rpartition(":")
        assert host in ("127.0.0.1", "[::1]")
        assert 0 < int(port) < 2**16
    with client(server.port) as engine:
        call = engine.call(b"engine")
        assert await waiting == b"engine"
        server.reply(b"welcome")
        assert await call == b"welcome"
        await stranger(server.port) if stranger is not another_engine else None
        assert len(told) == (not silent), "once the engine is there, others are no news"
        assert await echo(server, engine, b"still here") == b"ereh llits"


async def test_who_calls_again_and_again_is_named_three_times(server: Server) -> None:
    told: list[str] = []
    server.objection, server.on_stranger = introduces, lambda peer, why: told.append(why)
    for _ in range(5):
        with client(server.port, "127.0.0.1") as stranger, pytest.raises(grpc.RpcError):
            await stranger.call(b"step")
    last = "it is not the engine; further calls of this host are not reported"
    assert told == ["it is not the engine", "it is not the engine", last]


async def test_a_message_too_large_for_an_introduction_is_refused_and_named(ours: EngineServer) -> None:
    told: list[str] = []
    ours.objection, ours.on_stranger = introduces, lambda peer, why: told.append(why)
    with client(ours.port) as stranger:
        with pytest.raises(grpc.RpcError) as refusal:
            await stranger.call(bytes(2**17))
        assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert told == ["a message of more than 65536 bytes"]


async def test_whoever_only_connects_takes_nothing(server: Server) -> None:
    strangers = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(20)]
    for _, writer in strangers[:10]:
        writer.write(PREFACE + frame(SETTINGS, 0, 0))
    await asyncio.sleep(0.05)
    with client(server.port) as engine:
        assert await echo(server, engine, b"hello") == b"olleh"
    for _, writer in strangers:
        writer.close()


async def test_a_connection_that_breaks_is_known_at_once(ours: EngineServer) -> None:
    """Who waits hears of it, and so does who asks later; what was said before is heard first."""
    with client(ours.port) as engine:
        assert await echo(ours, engine, b"one") == b"eno"
        waiting = ours.receive()
        await asyncio.to_thread(engine.channel.close)
        with pytest.raises(EngineDisconnectedError, match=r"^closed the connection$"):
            await waiting
    with pytest.raises(EngineDisconnectedError):
        await ours.receive()
    ours.reply(b"nobody")


async def test_messages_before_the_break_are_heard_first(ours: EngineServer) -> None:
    call = frame(HEADERS, END_HEADERS, 1, request_headers(METHOD, "x")) + frame(
        DATA, END_STREAM, 1, wrap(b"last words")
    )
    _, writer = await asyncio.open_connection("127.0.0.1", ours.port)
    writer.write(PREFACE + frame(SETTINGS, 0, 0) + call + frame(PING, 0, 0, b"too short")[:-1] + b"\xff" * 9)
    await asyncio.sleep(0.1)
    assert await ours.receive() == b"last words"
    with pytest.raises(EngineDisconnectedError, match=r"^broke HTTP/2: a frame of "):
        await ours.receive()
    writer.close()


async def test_a_connection_that_breaks_while_we_owe_an_answer(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """On grpcio only such a break can be told, and only from the goodbye that does not follow."""
    monkeypatch.setattr("tau_trainer.bridge.grpcio_server._GOODBYE_S", 0.2)
    with client(server.port) as engine:
        call = engine.call(b"ask")
        assert await server.receive() == b"ask"
        await asyncio.to_thread(engine.channel.close)
        await asyncio.wait([call])
        await until(lambda: not server.owes_reply)
        server.reply(b"too late")
        with pytest.raises(EngineDisconnectedError, match=r"^closed the connection$"):
            await server.receive()


async def test_a_call_that_is_broken_off_may_be_followed_by_a_goodbye(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tau_trainer.bridge.grpcio_server._GOODBYE_S", 0.2)
    with client(server.port) as engine:
        call = engine.begin(b"ask")
        assert await server.receive() == b"ask"
        call.cancel()
        await until(lambda: not server.owes_reply)
        goodbye = engine.call(b"goodbye")
        server.reply(b"too late")  # answers nobody
        await asyncio.sleep(0.3)
        assert await server.receive() == b"goodbye"
        server.reply(b"well")
        assert await goodbye == b"well"


async def test_a_connection_that_says_nothing_is_closed(ours: EngineServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tau_trainer.bridge.server._PREFACE_S", 0.1)
    silent, unused = await asyncio.open_connection("127.0.0.1", ours.port)
    polite, writer = await asyncio.open_connection("127.0.0.1", ours.port)
    writer.write(PREFACE + frame(SETTINGS, 0, 0))
    with contextlib.suppress(ConnectionError):
        await asyncio.wait_for(silent.read(), HANG_S)
    await polite.read(1000)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(polite.read(1000), 0.3)
    for one in (unused, writer):
        one.close()


async def test_the_oldest_stranger_makes_way(ours: EngineServer) -> None:
    with client(ours.port) as engine:
        assert await echo(ours, engine, b"hello") == b"olleh"
        crowd = [await asyncio.open_connection("127.0.0.1", ours.port) for _ in range(17)]
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(crowd[0][0].read(), HANG_S)
        await crowd[1][0].read(1000)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(crowd[1][0].read(1000), 0.1)
        assert await echo(ours, engine, b"still here") == b"ereh llits"
        for _, writer in crowd:
            writer.close()


async def test_nothing_piles_up_for_a_client_that_does_not_read(ours: EngineServer) -> None:
    """Pings ask for answers; who sends them and reads no answer is not read from any more."""
    assert isinstance(ours, EngineServer)
    loop = asyncio.get_running_loop()
    with socket.create_connection(("127.0.0.1", ours.port)) as flood:
        flood.setblocking(False)
        await loop.sock_sendall(flood, PREFACE + frame(SETTINGS, 0, 0))
        await until(lambda: len(ours._links) == 1)
        (link,) = ours._links
        assert isinstance(link, HttpLink)
        ping, sent = frame(PING, 0, 0, b"12345678"), 0
        pings = ping * 10_000
        while link._transport.is_reading():
            with contextlib.suppress(BlockingIOError):
                sent += flood.send(pings[sent % len(pings) :])
            await asyncio.sleep(0)
        assert link._transport.get_write_buffer_size() < 2**20
        assert len(link._connection._out) < 2**20
        answered = 0
        while answered < sent // len(ping) * len(ping):  # whoever reads again is heard again
            answered += len(await asyncio.wait_for(loop.sock_recv(flood, 2**16), HANG_S))


async def test_a_large_answer_leaves_in_pieces(ours: EngineServer) -> None:
    """The other side's windows are wide, but it reads slowly: no more than a piece waits to be sent."""
    hello = frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, 2**31 - 1))
    hello += frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**30))
    call = frame(HEADERS, END_HEADERS, 1, request_headers(METHOD, "x")) + frame(DATA, END_STREAM, 1, wrap(b"ask"))
    assert isinstance(ours, EngineServer)
    reader, writer = await asyncio.open_connection("127.0.0.1", ours.port)
    writer.write(PREFACE + hello + call)
    assert await ours.receive() == b"ask"
    ours.reply(bytes(64 * 2**20))
    (link,) = ours._links
    assert link._transport.get_write_buffer_size() < 2 * 2**20
    received = 0
    while received < 64 * 2**20:
        received += len(await asyncio.wait_for(reader.read(2**20), HANG_S))
    writer.close()


@ipv6
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
async def test_both_loopback_addresses_reach_ours(ours: EngineServer, host: str) -> None:
    with client(ours.port, host) as engine:
        assert await echo(ours, engine, b"hello") == b"olleh"


def connects(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=HANG_S).close()
    except OSError:
        return False
    return True


async def test_nothing_listens_beyond_loopback(server: Server) -> None:
    """127.0.0.2 stands for every other address of this machine: a server on all interfaces would answer there."""
    assert await asyncio.to_thread(connects, "127.0.0.1", server.port)
    assert not await asyncio.to_thread(connects, "127.0.0.2", server.port)
    for address in {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)}:
        if not str(address).startswith("127.") and address != "::1":
            assert not await asyncio.to_thread(connects, str(address), server.port)


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100, PREFACE + b"\xff" * 100])
async def test_garbage_costs_only_its_own_connection(server: Server, garbage: bytes) -> None:
    with client(server.port) as engine:
        assert await echo(server, engine, b"before") == b"erofeb"
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(garbage)
        with contextlib.suppress(ConnectionError):
            await reader.read()  # until the server closes it
        writer.close()
        assert await echo(server, engine, b"after") == b"retfa"


async def test_two_servers_on_one_port(server: Server, new_server: NewServer) -> None:
    second = new_server()
    with pytest.raises(PortInUseError, match=rf"port {server.port} is taken by another program; choose another"):
        await second.start(server.port)
    await second.stop()
    with client(server.port) as engine:
        assert await echo(server, engine, b"ours") == b"sruo"


@ipv6
@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
async def test_a_port_taken_on_one_loopback_address_is_taken(family: socket.AddressFamily, host: str) -> None:
    with socket.socket(family) as other:
        other.bind((host, 0))
        other.listen()
        port = other.getsockname()[1]
        server = EngineServer()
        with pytest.raises(PortInUseError):
            await server.start(port)
        await server.stop()
    server = EngineServer()
    assert await server.start(port) == port  # a refusal leaves nothing behind
    await server.stop()


async def test_a_stopped_server_lets_go_of_calls_and_port(new_server: NewServer) -> None:
    server = new_server()
    port = await server.start()
    with client(port) as engine:
        call = engine.call(b"ask")
        await server.receive()
        await server.stop(0)
        with pytest.raises(grpc.RpcError):
            await call
    assert not await asyncio.to_thread(connects, "127.0.0.1", port)
    again = new_server()
    assert await again.start(port) == port
    with client(port) as engine:
        assert await echo(again, engine, b"ab") == b"ba"
    await again.stop()


async def test_stop_does_not_wait_for_a_client_that_does_not_read(new_server: NewServer) -> None:
    server = new_server()
    port = await server.start()
    with socket.create_connection(("127.0.0.1", port)):
        await asyncio.sleep(0.05)
        await server.stop(0.2)


def test_a_machine_that_refuses_its_own_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tau_trainer.bridge.server.LOOPBACK", ("192.0.2.1", "::1"))  # RFC 5737: nobody's
    with pytest.raises(PortInUseError, match=r"^cannot listen on 192\.0\.2\.1: "):
        asyncio.run(EngineServer().start())
