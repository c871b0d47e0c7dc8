"""The engine's server: ours, and the one on grpcio that it replaces, against the C core that Unity uses."""

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
from tau_trainer.errors import EngineExitedError, PortInUseError
from tests.bridge.conftest import Client, client

if TYPE_CHECKING:
    from tau_trainer.bridge.server import EngineServer
    from tests.bridge.conftest import ServerClass

ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
Play = Callable[["EngineServer"], Coroutine[None, None, None]]


def serve(server_class: ServerClass, play: Play, listen: str | None = None) -> None:
    """Run ``play`` with a listening server."""

    async def main() -> None:
        server: EngineServer = server_class()  # type: ignore[assignment]
        await server.start(listen=listen)
        try:
            await play(server)
        finally:
            await server.stop()

    asyncio.run(asyncio.wait_for(main(), 30))


async def until(true: Callable[[], bool]) -> None:
    """Wait until something is so."""
    while not true():  # noqa: ASYNC110 (what is waited for has no event)
        await asyncio.sleep(0.01)


async def echo(server: EngineServer, engine: Client, data: bytes) -> bytes:
    """One exchange: the engine sends ``data`` and is answered with the same backwards."""
    call = engine.call(data)
    assert await server.receive() == data
    owed = server.owes_reply
    server.reply(data[::-1])
    assert (owed, server.owes_reply) == (True, False)
    return await call


def test_messages_of_every_size(server_class: ServerClass) -> None:
    async def play(server: EngineServer) -> None:
        with client(server.port) as engine:
            for size in (0, 1, 16_384, 65_536, 4 * 2**20 + 1, 20 * 2**20):
                data = bytes(range(256)) * (size // 256 + 1)
                assert await echo(server, engine, data[:size]) == data[:size][::-1]

    serve(server_class, play)


def test_many_calls(server_class: ServerClass) -> None:
    async def play(server: EngineServer) -> None:
        with client(server.port) as engine:
            for i in range(300):
                assert await echo(server, engine, f"call {i}".encode()) == f"call {i}".encode()[::-1]

    serve(server_class, play)


def test_several_connections(server_class: ServerClass) -> None:
    async def play(server: EngineServer) -> None:
        for i in range(4):
            with client(server.port) as engine, client(server.port) as other:
                assert await echo(server, engine, b"one") == b"eno"
                assert await echo(server, other, b"two") == b"owt"
                assert await echo(server, engine, bytes([i])) == bytes([i])

    serve(server_class, play)


@ipv6
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
def test_both_loopback_addresses_reach_it(server_class: ServerClass, host: str) -> None:
    async def play(server: EngineServer) -> None:
        with client(server.port, host) as engine:
            assert await echo(server, engine, b"hello") == b"olleh"

    serve(server_class, play)


def connects(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError:
        return False
    return True


def test_nothing_listens_beyond_loopback(server_class: ServerClass) -> None:
    """127.0.0.2 stands for every other address of this machine: a server on all interfaces would answer there."""

    async def play(server: EngineServer) -> None:
        assert await asyncio.to_thread(connects, "127.0.0.1", server.port)
        assert not await asyncio.to_thread(connects, "127.0.0.2", server.port)
        for address in {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)}:
            if not str(address).startswith("127.") and address != "::1":
                assert not await asyncio.to_thread(connects, str(address), server.port)

    serve(server_class, play)


@ipv6
def test_listen_names_the_one_address(server_class: ServerClass) -> None:
    async def play(server: EngineServer) -> None:
        assert await asyncio.to_thread(connects, "127.0.0.1", server.port)
        assert not await asyncio.to_thread(connects, "::1", server.port)

    serve(server_class, play, listen="127.0.0.1")


@pytest.mark.parametrize("whole", [False, True], ids=["the call", "the connection"])
def test_a_client_that_breaks_off_while_we_owe_it_an_answer(server_class: ServerClass, whole: bool) -> None:
    async def play(server: EngineServer) -> None:
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

    serve(server_class, play)


def test_a_message_that_nobody_waits_for_is_kept(server_class: ServerClass) -> None:
    async def play(server: EngineServer) -> None:
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

    serve(server_class, play)


def test_an_exception_can_be_put_into_the_wait(server_class: ServerClass) -> None:
    async def play(server: EngineServer) -> None:
        waiting = server.receive()
        waiting.set_exception(EngineExitedError("engine 0 ended"))
        with pytest.raises(EngineExitedError):
            await waiting
        with client(server.port) as engine:
            assert await echo(server, engine, b"ab") == b"ba"

    serve(server_class, play)


def test_a_reply_without_a_call_does_nothing(server_class: ServerClass) -> None:
    async def play(server: EngineServer) -> None:
        assert not server.owes_reply
        server.reply(b"nobody asked")
        with client(server.port) as engine:
            assert await echo(server, engine, b"ab") == b"ba"

    serve(server_class, play)


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100, PREFACE + b"\xff" * 100])
def test_garbage_costs_only_its_own_connection(server_class: ServerClass, garbage: bytes) -> None:
    async def play(server: EngineServer) -> None:
        with client(server.port) as engine:
            assert await echo(server, engine, b"before") == b"erofeb"
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(garbage)
            with contextlib.suppress(ConnectionError):
                await reader.read()  # until the server closes it
            writer.close()
            assert await echo(server, engine, b"after") == b"retfa"

    serve(server_class, play)


def test_two_servers_on_one_port(server_class: ServerClass) -> None:
    async def play(server: EngineServer) -> None:
        second = server_class()
        with pytest.raises(PortInUseError, match=rf"port {server.port} is taken by another program; choose another"):
            await second.start(server.port)
        await second.stop()
        with client(server.port) as engine:
            assert await echo(server, engine, b"ours") == b"sruo"

    serve(server_class, play)


@ipv6
@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_port_taken_on_one_loopback_address_is_taken(
    server_class: ServerClass, family: socket.AddressFamily, host: str
) -> None:
    async def main() -> None:
        with socket.socket(family) as other:
            other.bind((host, 0))
            other.listen()
            port = other.getsockname()[1]
            server = server_class()
            with pytest.raises(PortInUseError):
                await server.start(port)
            await server.stop()
        server = server_class()
        assert await server.start(port) == port  # a refusal leaves nothing behind
        await server.stop()

    asyncio.run(main())


def test_a_stopped_server_lets_go_of_calls_and_port(server_class: ServerClass) -> None:
    async def main() -> None:
        server: EngineServer = server_class()  # type: ignore[assignment]
        port = await server.start()
        with client(port) as engine:
            call = engine.call(b"ask")
            await server.receive()
            await server.stop(0)
            with pytest.raises(grpc.RpcError):
                await call
        assert not await asyncio.to_thread(connects, "127.0.0.1", port)
        again: EngineServer = server_class()  # type: ignore[assignment]
        assert await again.start(port) == port
        with client(port) as engine:
            assert await echo(again, engine, b"ab") == b"ba"
        await again.stop()

    asyncio.run(asyncio.wait_for(main(), 30))


def test_stop_does_not_wait_for_a_client_that_does_not_read(server_class: ServerClass) -> None:
    async def main() -> None:
        server: EngineServer = server_class()  # type: ignore[assignment]
        port = await server.start()
        with socket.create_connection(("127.0.0.1", port)):
            await asyncio.sleep(0.05)
            began = time.monotonic()
            await server.stop(0.2)
            assert time.monotonic() - began < 5.0

    asyncio.run(asyncio.wait_for(main(), 30))


def test_an_address_that_is_not_ours(server_class: ServerClass) -> None:
    async def main() -> None:
        server = server_class()
        with pytest.raises(PortInUseError):
            await server.start(listen="192.0.2.1")  # RFC 5737: nobody's
        await server.stop()

    asyncio.run(main())
