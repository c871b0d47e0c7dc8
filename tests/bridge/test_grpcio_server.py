"""What only the server on grpcio does: addresses, TLS, and a limit. What both do is in test_server."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from typing import Any

import grpc
import numpy as np
import pytest

from tau_trainer.bridge.engine import Engine
from tau_trainer.bridge.grpcio_server import GrpcioServer
from tau_trainer.bridge.http2 import MAX_MESSAGE
from tau_trainer.bridge.launcher import EngineOptions, LaunchSpec
from tau_trainer.bridge.ports import has_ipv6
from tau_trainer.bridge.protocol import METHOD
from tau_trainer.bridge.server import EngineServer
from tau_trainer.bridge.tls import Tls
from tau_trainer.errors import EngineExitedError, EngineTimeoutError, PortInUseError
from tau_trainer.headless.args import parse_args
from tau_trainer.headless.client import HeadlessEngine
from tau_trainer.specs import Actions, StepBatch
from tests.bridge.conftest import DATA, Client, client, free_port, listening
from tests.bridge.test_server import connects, echo
from tests.waiting import HANG_S

ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")


def test_which_server_serves_where(tls: Tls) -> None:
    assert isinstance(EngineOptions().server(), EngineServer)
    assert isinstance(EngineOptions(listen="127.0.0.1").server(), GrpcioServer)
    assert isinstance(EngineOptions(listen="127.0.0.1", tls=tls).server(), GrpcioServer)


def test_grpcio_is_imported_for_other_machines_only() -> None:
    code = (
        "import sys; from tau_trainer.bridge.launcher import EngineOptions; EngineOptions().server(); "
        "assert 'grpc' not in sys.modules; EngineOptions(listen='::1').server(); assert 'grpc' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=HANG_S)


async def test_only_the_services_own_path_is_answered() -> None:
    async with listening(GrpcioServer("127.0.0.1")) as server:
        with client(server.port) as engine:
            other = engine.channel.unary_unary("/another.Service/Method")
            with pytest.raises(grpc.RpcError) as refusal:
                await asyncio.to_thread(other, b"", timeout=HANG_S)
            assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED


@ipv6
async def test_one_address_is_listened_on() -> None:
    async with listening(GrpcioServer("127.0.0.1")) as server:
        assert await asyncio.to_thread(connects, "127.0.0.1", server.port)
        assert not await asyncio.to_thread(connects, "::1", server.port)


@ipv6
@pytest.mark.parametrize("address", ["::1", "[::1]", "::", "0.0.0.0", "localhost"])
async def test_addresses_of_every_kind(address: str) -> None:
    async with listening(GrpcioServer(address)) as server:
        with client(server.port) as engine:
            assert await echo(server, engine, b"hello") == b"olleh"


@pytest.mark.parametrize("address", ["192.0.2.1", "no-such-host.invalid", "127.0.0.1:5005", "999.1.1.1", "a" * 70])
def test_an_address_that_is_not_ours(address: str, capfd: pytest.CaptureFixture[str]) -> None:  # RFC 5737, RFC 2606
    with pytest.raises(PortInUseError, match=rf"^cannot listen on {address}: .*; give --listen an address of this mac"):
        asyncio.run(GrpcioServer(address).start())
    assert capfd.readouterr().err == ""


def test_a_port_that_another_program_has() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUseError, match=rf"^port {port} is taken by another program; choose another --base-p"):
            asyncio.run(GrpcioServer("127.0.0.1").start(port))


def test_a_certificate_that_grpcio_refuses() -> None:
    with pytest.raises(PortInUseError, match=r"^cannot listen on 127\.0\.0\.1: grpcio refuses it"):
        asyncio.run(GrpcioServer("127.0.0.1", Tls(b"no", b"no")).start())


async def test_messages_beyond_the_limit_are_refused_and_the_next_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_MESSAGE == 256 * 2**20
    monkeypatch.setattr("tau_trainer.bridge.grpcio_server.MAX_MESSAGE", 5 * 2**20)

    async with listening(GrpcioServer("127.0.0.1")) as server:
        with client(server.port) as engine:
            with pytest.raises(grpc.RpcError) as refusal:
                await engine.call(bytes(5 * 2**20 + 1))
            assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert not server.owes_reply
            assert await echo(server, engine, bytes(5 * 2**20)) == bytes(5 * 2**20)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_client_that_knows_the_certificate_is_served(tls: Tls, host: str) -> None:
    async with listening(GrpcioServer("127.0.0.1", tls)) as server:
        with client(server.port, host, tls.certificate) as engine:
            assert await echo(server, engine, b"secret") == b"terces"


@pytest.mark.parametrize("trusted", [None, (DATA / "another-certificate.pem").read_bytes()], ids=["plain", "other"])
async def test_a_client_in_clear_text_or_with_another_authority_is_refused(tls: Tls, trusted: bytes | None) -> None:
    async with listening(GrpcioServer("127.0.0.1", tls)) as server:
        waiting = server.receive()
        with client(server.port, trusted=trusted) as engine:
            exchange = engine.channel.unary_unary(METHOD)
            with pytest.raises(grpc.RpcError) as refusal:
                await asyncio.to_thread(exchange, b"hello", timeout=HANG_S)
            assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE
        assert not waiting.done()
        with client(server.port, trusted=tls.certificate) as engine:  # and it costs nobody else anything
            call = engine.call(b"hello")
            assert await waiting == b"hello"
            server.reply(b"here")
            assert await call == b"here"


class GrpcioLink:
    """The headless engine's way to the trainer, on grpcio's own client."""

    def __init__(self, engine: Client) -> None:
        self._engine = engine

    def connect(self, request: bytes, seconds: float) -> bytes:
        return self.exchange(request)

    def exchange(self, request: bytes) -> bytes:
        return bytes(self._engine.begin(request).result(HANG_S))


BALANCE = ("--agents", "3", "--max-decisions", "9")


def play_scene(port: int, trusted: bytes | None) -> threading.Thread:
    """The headless engine in a thread, over grpcio's client."""
    options = parse_args(["--scene", "balance", *BALANCE])

    def work() -> None:
        with client(port, trusted=trusted) as engine:
            link: Any = GrpcioLink(engine)
            HeadlessEngine(link, options).run()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def spin(engine: Engine, batch: StepBatch) -> dict[str, Actions]:
    """Actions that depend on what was seen, so that one wrong bit shows in every later step."""
    return {batch.behavior: Actions(np.tanh(batch.obs[0][:, 2:4]), np.zeros((len(batch), 0), np.int32))}


def game(options: EngineOptions, launch: LaunchSpec | None) -> list[StepBatch]:
    """Thirty steps, some of which end episodes."""
    port = free_port()

    async def main() -> list[StepBatch]:
        engine = Engine(0, port, launch, options)
        await engine.start()
        batches = await engine.reset()
        for _ in range(30):
            batches += await engine.step(spin(engine, batches[-1]))
        await engine.close()
        return batches

    trusted = options.tls.certificate if options.tls is not None else None
    thread = play_scene(port, trusted) if launch is None else None
    batches = asyncio.run(asyncio.wait_for(main(), HANG_S))
    if thread is not None:
        thread.join(HANG_S)
        assert not thread.is_alive()
    return batches


@pytest.fixture(scope="module")
def over_loopback() -> list[StepBatch]:
    return game(EngineOptions(seed=3), LaunchSpec.of("headless:balance", env_args=BALANCE))


class TestScene:
    """The same game, bit for bit, whoever serves and whoever calls."""

    @pytest.mark.parametrize("caller", ["our client", "grpcio", "grpcio with TLS"])
    def test_on_an_address(self, over_loopback: list[StepBatch], caller: str, tls: Tls) -> None:
        options = EngineOptions(seed=3, listen="127.0.0.1", tls=tls if "TLS" in caller else None)
        launch = LaunchSpec.of("headless:balance", env_args=BALANCE) if caller == "our client" else None
        batches = game(options, launch)
        assert len(batches) == len(over_loopback) == 31
        for ours, theirs in zip(batches, over_loopback, strict=True):
            for name in ("agent_ids", "reward"):
                assert getattr(ours, name).tobytes() == getattr(theirs, name).tobytes()
                assert getattr(ours.terminals, name).tobytes() == getattr(theirs.terminals, name).tobytes()
            assert ours.obs[0].tobytes() == theirs.obs[0].tobytes()
        assert sum(len(batch.terminals) for batch in batches) >= 9

    def test_an_engine_in_clear_text_never_meets_a_tls_server(self, tls: Tls) -> None:
        options = EngineOptions(listen="127.0.0.1", tls=tls)
        with pytest.raises(EngineExitedError, match=r"ended while it should connect with TLS .which ML-Agents' own c"):
            game(options, LaunchSpec.of("headless:balance"))

    def test_somebody_who_never_comes_is_told_of_tls_too(self, tls: Tls) -> None:
        engine = Engine(0, 0, None, EngineOptions(listen="127.0.0.1", tls=tls, timeout_s=0.1))
        with pytest.raises(EngineTimeoutError, match=r"engine 0 did not connect with TLS .* within 0\.1 s"):
            asyncio.run(engine.start())
