"""The server for engines on other machines, on grpcio, with optional TLS: a tested library faces the network.

An exchange costs several times as much as with :mod:`~tau_trainer.bridge.server`, which only serves loopback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final
from urllib.parse import unquote

import grpc
import grpc.aio

from tau_trainer.bridge.dialect import BY_METHOD, Dialect
from tau_trainer.bridge.http2 import MAX_MESSAGE, NO_METHOD
from tau_trainer.bridge.ports import check_address
from tau_trainer.bridge.server import ANYBODY, NO_ENGINE, TAKEN, Admission, Request, Server
from tau_trainer.bridge.tls import Tls
from tau_trainer.errors import PortInUseError

_GOODBYE_S: Final = 1.0
"""Seconds in which an engine that cancelled its call can say goodbye with another. grpcio does not distinguish a
cancelled call from a lost connection, and does not report a connection that is lost between two calls."""


class _Calls(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Handlers for calls, without serializers: bytes in, bytes out."""

    def __init__(self, exchange: Callable[..., object], decline: Callable[..., object]) -> None:
        self._exchanges = {
            method: grpc.unary_unary_rpc_method_handler(partial(exchange, dialect))
            for method, dialect in BY_METHOD.items()
        }
        self._others = grpc.stream_stream_rpc_method_handler(decline)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """The handler for the engine's method, or for all others."""
        return self._exchanges.get(handler_call_details.method, self._others)


def _address(peer: str) -> str:
    """Address and port of grpcio's peer names, such as ``ipv4:127.0.0.1:5005`` and ``ipv6:%5B::1%5D:5005``."""
    return unquote(peer).partition(":")[2]


class GrpcioServer(Server):
    """See :class:`~tau_trainer.bridge.server.Server`."""

    def __init__(self, address: str, tls: Tls | None = None, admission: Admission = ANYBODY) -> None:
        """``address``: the address to listen on. ``tls`` None: unencrypted, as ML-Agents' engines need it."""
        super().__init__(admission)
        self._address = address.strip("[]")
        self._tls = tls
        self._server: grpc.aio.Server | None = None
        self._engine: str | None = None
        """Address and port of the engine."""
        self._leaving: asyncio.TimerHandle | None = None

    async def start(self, port: int = 0) -> int:
        """See :meth:`Server.start`. Also raises PortInUseError if the address is not this machine's."""
        check_address(self._address, port)  # grpcio would write its own log lines without the reason
        server = grpc.aio.server(
            options=[
                ("grpc.so_reuseport", 0),  # a second listener on the port is an error
                ("grpc.max_receive_message_length", MAX_MESSAGE),
            ]
        )
        server.add_generic_rpc_handlers((_Calls(self._exchange, self._decline),))
        try:
            self.port = self._listen(server, port)
        except RuntimeError as error:
            raise PortInUseError(
                f"cannot listen on {self._address}: grpcio refuses it; check the certificate"
            ) from error
        await server.start()
        self._server = server
        return self.port

    def _listen(self, server: grpc.aio.Server, port: int) -> int:
        host = f"[{self._address}]" if ":" in self._address else self._address
        if self._tls is None:
            return int(server.add_insecure_port(f"{host}:{port}"))
        credentials = grpc.ssl_server_credentials([(self._tls.key, self._tls.certificate)])
        return int(server.add_secure_port(f"{host}:{port}", credentials))

    async def _exchange(
        self, dialect: Dialect, message: bytes, context: grpc.aio.ServicerContext[bytes, bytes]
    ) -> bytes:
        """Handle an engine's call: pass on its message and wait for the answer."""
        objection = self.objection(dialect, message) if self._engine is None else None
        if objection is not None:
            self._turned_away(_address(context.peer()), objection)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, NO_ENGINE)
        if self._engine is None:
            self._engine, self.dialect = context.peer(), dialect
        if context.peer() != self._engine:
            await context.abort(grpc.StatusCode.UNAVAILABLE, TAKEN)
        self._stay()
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._deliver(Request(message, answer.set_result, answer))
        try:
            return await answer
        except asyncio.CancelledError:
            self._withdraw(answer)
            if self._server is not None:
                loop = asyncio.get_running_loop()
                self._leaving = loop.call_later(_GOODBYE_S, self._break, "closed the connection")
            raise

    async def _decline(self, _: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        """Handle a call of another method, which is not from an engine."""
        if self._engine is None:
            self._turned_away(_address(context.peer()), NO_METHOD)
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, NO_METHOD)

    def _stay(self) -> None:
        """The engine is still connected."""
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None

    async def stop(self, grace: float = 0.5) -> None:
        """See :meth:`Server.stop`."""
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(grace)
        self._stay()
