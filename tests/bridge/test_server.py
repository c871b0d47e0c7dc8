"""Both servers of engines, ours and the one on grpcio, against the C core that Unity uses."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

import grpc
import pytest

from tau_trainer.bridge.frames import PREFACE
from tau_trainer.bridge.ports import has_ipv6
from tau_trainer.bridge.server import EngineServer
from tau_trainer.errors import EngineExitedError, PortInUseError
from tests.bridge.conftest import Client, client

if TYPE_CHECKING:
    from tau_trainer.bridge.serving import Server
    from tests.bridge.conftest import NewServer

ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
Play = Callable[["Server"], Coroutine[None, None, None]]


def serve(new_server: NewServer, play: Play) -> None:
    """Run ``play`` with a listening server."""

    async def main() -> None:
        server = new_server()
        await server.start()
        try:
            await play(server)
        finally:
            await server.stop()

    asyncio.run(asyncio.wait_for(main(), 30))


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


def test_messages_of_every_size(new_server: NewServer) -> None:
    async def play(server: Server) -> None:
        with client(server.port) as engine:
            for size in (0, 1, 16_384, 65_536, 4 * 2**20 + 1, 20 * 2**20):
                data = bytes(range(256)) * (size // 256 + 1)
                assert await echo(server, engine, data[:size]) == data[:size][::-1]

    serve(new_server, play)


def test_many_calls(new_server: NewServer) -> None:
    async def play(server: Server) -> None:
        with client(server.port) as engine:
            for i in range(300):
                assert await echo(server, engine, f"call {i}".encode()) == f"call {i}".encode()[::-1]

    serve(new_server, play)


def test_several_connections(new_server: NewServer) -> None:
    async def play(server: Server) -> None:
        for i in range(4):
            with client(server.port) as engine, client(server.port) as other:
                assert await echo(server, engine, b"one") == b"eno"
                assert await echo(server, other, b"two") == b"owt"
                assert await echo(server, engine, bytes([i])) == bytes([i])

    serve(new_server, play)


@ipv6
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
def test_both_loopback_addresses_reach_ours(host: str) -> None:
    async def play(server: Server) -> None:
        with client(server.port, host) as engine:
            assert await echo(server, engine, b"hello") == b"olleh"

    serve(EngineServer, play)


def connects(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError:
        return False
    return True


def test_nothing_listens_beyond_loopback(new_server: NewServer) -> None:
    """127.0.0.2 stands for every other address of this machine: a server on all interfaces would answer there."""

    async def play(server: Server) -> None:
        assert await asyncio.to_thread(connects, "127.0.0.1", server.port)
        assert not await asyncio.to_thread(connects, "127.0.0.2", server.port)
        for address in {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)}:
            if not str(address).startswith("127.") and address != "::1":
                assert not await asyncio.to_thread(connects, str(address), server.port)

    serve(new_server, play)


@pytest.mark.parametrize("whole", [False, True], ids=["the call", "the connection"])
def test_a_client_that_breaks_off_while_we_owe_it_an_answer(new_server: NewServer, whole: bool) -> None:
    async def play(server: Server) -> None:
        with client(server.port) as engine:
            call = engine.begin(b"ask")
            assert await server.receive() == b"ask"
            assert server.owes_reply
            if whole:
                await asyncio.to_thread(engine.channel.close)
            else:
                call.cancel()
            await until(lambda: not server.owes_reply)
            server.reply(b"too late")
        with client(server.port) as another:
            assert await echo(server, another, b"still here") == b"ereh llits"

    serve(new_server, play)


def test_a_message_that_nobody_waits_for_is_kept(new_server: NewServer) -> None:
    async def play(server: Server) -> None:
        with client(server.port) as engine:
            given_up = server.receive()
            given_up.cancel()
            call = engine.call(b"first")
            await until(lambda: server.owes_reply)
            arrived = server.receive()
            assert arrived.done()
            assert arrived.result() == b"first"
            server.reply(b"")
            assert await call == b""

    serve(new_server, play)


def test_an_exception_can_be_put_into_the_wait(new_server: NewServer) -> None:
    async def play(server: Server) -> None:
        waiting = server.receive()
        waiting.set_exception(EngineExitedError("engine 0 ended"))
        with pytest.raises(EngineExitedError):
            await waiting
        with client(server.port) as engine:
            assert await echo(server, engine, b"ab") == b"ba"

    serve(new_server, play)


def test_a_reply_without_a_call_does_nothing(new_server: NewServer) -> None:
    async def play(server: Server) -> None:
        assert not server.owes_reply
        server.reply(b"nobody asked")
        with client(server.port) as engine:
            assert await echo(server, engine, b"ab") == b"ba"

    serve(new_server, play)


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100, PREFACE + b"\xff" * 100])
def test_garbage_costs_only_its_own_connection(new_server: NewServer, garbage: bytes) -> None:
    async def play(server: Server) -> None:
        with client(server.port) as engine:
            assert await echo(server, engine, b"before") == b"erofeb"
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(garbage)
            with contextlib.suppress(ConnectionError):
                await reader.read()  # until the server closes it
            writer.close()
            assert await echo(server, engine, b"after") == b"retfa"

    serve(new_server, play)


def test_two_servers_on_one_port(new_server: NewServer) -> None:
    async def play(server: Server) -> None:
        second = new_server()
        with pytest.raises(PortInUseError, match=rf"port {server.port} is taken by another program; choose another"):
            await second.start(server.port)
        await second.stop()
        with client(server.port) as engine:
            assert await echo(server, engine, b"ours") == b"sruo"

    serve(new_server, play)


@ipv6
@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_port_taken_on_one_loopback_address_is_taken(family: socket.AddressFamily, host: str) -> None:
    async def main() -> None:
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

    asyncio.run(main())


def test_a_stopped_server_lets_go_of_calls_and_port(new_server: NewServer) -> None:
    async def main() -> None:
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

    asyncio.run(asyncio.wait_for(main(), 30))


def test_stop_does_not_wait_for_a_client_that_does_not_read(new_server: NewServer) -> None:
    async def main() -> None:
        server = new_server()
        port = await server.start()
        with socket.create_connection(("127.0.0.1", port)):
            await asyncio.sleep(0.05)
            began = time.monotonic()
            await server.stop(0.2)
            assert time.monotonic() - began < 5.0

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_machine_that_refuses_its_own_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tau_trainer.bridge.server.LOOPBACK", ("192.0.2.1", "::1"))  # RFC 5737: nobody's
    with pytest.raises(PortInUseError, match=r"^cannot listen on 192\.0\.2\.1: "):
        asyncio.run(EngineServer().start())
