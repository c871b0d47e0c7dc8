"""What the tests of the wire share: both servers, and a real gRPC client as Unity has one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tau_trainer.bridge import grpcio_server, server
from tau_trainer.bridge.protocol import METHOD

ServerClass = type[server.EngineServer] | type[grpcio_server.EngineServer]


@pytest.fixture(params=[server.EngineServer, grpcio_server.EngineServer], ids=["native", "grpcio"])
def server_class(request: pytest.FixtureRequest) -> ServerClass:
    """Each of the two servers."""
    found: ServerClass = request.param
    return found


class Client:
    """An engine's end: grpcio's C core, which blocks, so calls run in threads."""

    def __init__(self, target: str) -> None:
        self.channel = grpc.insecure_channel(
            target, options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        )
        self._exchange = self.channel.unary_unary(METHOD)

    def begin(self, data: bytes) -> grpc.Future:
        """Send a call, as soon as somebody listens, and do not wait."""
        return self._exchange.future(data, timeout=20, wait_for_ready=True)

    def call(self, data: bytes) -> asyncio.Future[bytes]:
        """A call whose answer can be awaited."""
        pending = asyncio.get_running_loop().run_in_executor(None, lambda: bytes(self.begin(data).result()))
        pending.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody need wait for it
        return pending


@contextlib.contextmanager
def client(port: int, host: str = "localhost") -> Iterator[Client]:
    """A client of ``host:port``."""
    made = Client(f"{host}:{port}")
    try:
        yield made
    finally:
        made.channel.close()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Where engines write their logs."""
    return tmp_path / "run_logs"
