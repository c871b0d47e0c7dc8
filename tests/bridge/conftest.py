"""What the tests of the wire share: both servers, a real gRPC client as Unity has one, and a certificate."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeVar

import grpc
import pytest

from tau_trainer.bridge.grpcio_server import GrpcioServer
from tau_trainer.bridge.ports import is_free
from tau_trainer.bridge.protocol import METHOD
from tau_trainer.bridge.server import EngineServer, Server
from tau_trainer.bridge.tls import Tls, read_tls
from tests.waiting import HANG_S

DATA = Path(__file__).parent / "data"
NewServer = Callable[[], Server]


@pytest.fixture(params=[EngineServer, lambda: GrpcioServer("127.0.0.1")], ids=["native", "grpcio"])
def new_server(request: pytest.FixtureRequest) -> NewServer:
    """Makes one of the two servers."""
    found: NewServer = request.param
    return found


S = TypeVar("S", bound=Server)


@contextlib.asynccontextmanager
async def listening(server: S) -> AsyncIterator[S]:
    """It listens at a free port until the end."""
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@pytest.fixture
def server(new_server: NewServer) -> AbstractAsyncContextManager[Server]:
    """One of the two, which listens while a test runs."""
    return listening(new_server())


@pytest.fixture
def ours() -> AbstractAsyncContextManager[EngineServer]:
    """Ours, which listens while a test runs."""
    return listening(EngineServer())


@pytest.fixture
def tls() -> Tls:
    """A certificate of localhost, and its key."""
    pair = read_tls(DATA / "certificate.pem", DATA / "key.pem")
    assert pair is not None
    return pair


class Client:
    """An engine's end: grpcio's C core, which blocks, so calls run in threads."""

    def __init__(self, target: str, trusted: bytes | None = None) -> None:
        """``trusted``: a certificate (PEM) of the server's; None: clear text."""
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        options.append(("grpc.use_local_subchannel_pool", 1))  # or clients of one process would share a connection
        if trusted is None:
            self.channel = grpc.insecure_channel(target, options=options)
        else:
            self.channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(trusted), options=options)
        self._exchange = self.channel.unary_unary(METHOD)

    def begin(self, data: bytes) -> grpc.Future:
        """Send a call, as soon as somebody listens, and do not wait."""
        return self._exchange.future(data, timeout=HANG_S, wait_for_ready=True)

    def call(self, data: bytes) -> asyncio.Future[bytes]:
        """A call whose answer can be awaited."""
        pending = asyncio.get_running_loop().run_in_executor(None, lambda: bytes(self.begin(data).result()))
        pending.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody need wait for it
        return pending


@contextlib.contextmanager
def client(port: int, host: str = "localhost", trusted: bytes | None = None) -> Iterator[Client]:
    """A client of ``host:port``."""
    made = Client(f"{host}:{port}", trusted)
    try:
        yield made
    finally:
        made.channel.close()


def free_port(count: int = 1) -> int:
    """The first of some ports in a row that are free on loopback, and that nobody else takes before they are used.

    They lie below those that systems give to outgoing connections and above those of Ray's workers, each worker of
    pytest has a thousand of its own, and none is given twice before all were.
    """
    while True:
        port = next(_PORTS)
        if all(is_free(port + further) for further in range(count)):
            for _ in range(count - 1):
                next(_PORTS)
            return port


def _ports() -> Iterator[int]:
    """Those of this worker, again and again; the first is by chance, for runs of the tests beside each other."""
    first = 20_000 + 1000 * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 12)
    begin = os.getpid() * 37 % 900
    return itertools.cycle(first + (begin + further) % 990 for further in range(990))


_PORTS = _ports()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Where engines write their logs."""
    return tmp_path / "run_logs"
