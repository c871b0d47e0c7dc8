"""The same server as in :mod:`~tau_trainer.bridge.server`, on grpcio: its yardstick, and a fallback.

Where an engine's gRPC client does something that our own HTTP/2 does not know, this one can take its place: the class
has the same name and methods. An exchange costs several times as much.
"""

from __future__ import annotations

import asyncio
from typing import Final

import grpc
import grpc.aio

from tau_trainer.bridge.ports import has_ipv6
from tau_trainer.bridge.protocol import METHOD
from tau_trainer.errors import PortInUseError

LOOPBACK: Final = ("127.0.0.1", "[::1]")
"""Engines connect to the name ``localhost``, which is either of these."""

_TRIES: Final = 5
"""A port that is free on one loopback address may be taken on the other."""

_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),  # a second listener on the port is an error, not a silent partner
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)


class EngineServer:
    """Receives an engine's calls one at a time and answers each when told to.

    Use: ``port = await start()``, then ``data = await receive()`` and ``reply(...)`` in turn, ``await stop()``.
    """

    def __init__(self) -> None:
        self._server: grpc.aio.Server | None = None
        self._pending: asyncio.Future[bytes] | None = None
        self._waiter: asyncio.Future[bytes] | None = None
        self._arrived: bytes | None = None
        self.port = 0

    async def start(self, port: int = 0, listen: str | None = None) -> int:
        """Listen on both loopback addresses, or on ``listen`` alone; port 0 lets the system choose.

        Returns the port. Raises PortInUseError.
        """
        for _ in range(1 if port else _TRIES):
            server = grpc.aio.server(options=_OPTIONS)
            server.add_generic_rpc_handlers((_ExchangeHandler(self),))
            bound = _bind(server, port, (listen,) if listen else LOOPBACK)
            if bound:
                await server.start()
                self._server, self.port = server, bound
                return bound
            await server.start()  # one that never started keeps what it has bound
            await server.stop(None)
        raise PortInUseError(
            f"port {port or '(any)'} is taken by another program; choose another --base-port, or leave the flag out to "
            "let free ports be found"
        )

    def receive(self) -> asyncio.Future[bytes]:
        """A future of the engine's next message. It can be cancelled or given an exception from outside."""
        waiter = asyncio.get_running_loop().create_future()
        if self._arrived is not None:
            waiter.set_result(self._arrived)
            self._arrived = None
        else:
            self._waiter = waiter
        return waiter

    @property
    def owes_reply(self) -> bool:
        """Whether the engine stands still, waiting for us."""
        return self._pending is not None and not self._pending.done()

    def reply(self, data: bytes) -> None:
        """Answer the call that is pending; without one this does nothing (the engine is gone)."""
        if self._pending is not None and not self._pending.done():
            self._pending.set_result(data)
        self._pending = None

    async def exchange(self, data: bytes) -> bytes:
        """Called by the engine: hand on its message, wait for the answer."""
        pending: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._pending = pending
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(data)
        else:
            self._arrived = data
        self._waiter = None
        return await pending

    async def stop(self, grace: float = 0.5) -> None:
        """Stop listening; calls that are still pending end after ``grace`` seconds."""
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(grace)


def _bind(server: grpc.aio.Server, port: int, hosts: tuple[str, ...]) -> int:
    """The port that ``server`` got on all ``hosts``; 0 if one refused. A machine without IPv6 is no refusal."""
    bound = 0
    for host in hosts:
        try:
            bound = server.add_insecure_port(f"{host}:{port or bound}") or bound
        except RuntimeError:
            if host == LOOPBACK[1] and not has_ipv6():
                continue
            return 0
    return bound


class _ExchangeHandler(grpc.GenericRpcHandler):  # type: ignore[misc]
    """The one method of the service, without serializers: bytes in, bytes out."""

    def __init__(self, server: EngineServer) -> None:
        async def exchange(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            return await server.exchange(request)

        self._method = grpc.unary_unary_rpc_method_handler(exchange)

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        """Answer the path of ML-Agents' service only."""
        return self._method if details.method == METHOD else None
