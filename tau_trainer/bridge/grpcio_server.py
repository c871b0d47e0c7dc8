"""The server on grpcio, for engines on other machines: what faces strangers is a library's, with TLS if asked for.

An exchange costs several times as much as with :mod:`~tau_trainer.bridge.server`, which stays on loopback.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Final

import grpc
import grpc.aio

from tau_trainer.bridge.ports import port_taken
from tau_trainer.bridge.protocol import METHOD_NAME, SERVICE
from tau_trainer.bridge.serving import Server
from tau_trainer.bridge.tls import Tls
from tau_trainer.errors import PortInUseError

MAX_MESSAGE: Final = 2**28
"""Bytes of the largest message that is taken: a step of 3,000 agents with a camera of 84 x 84 in colour. gRPC's own
4 MiB are too few, and without a limit anybody who reaches the port could fill the memory."""


class GrpcioServer(Server):
    """See :class:`~tau_trainer.bridge.serving.Server`."""

    def __init__(self, address: str, tls: Tls | None = None) -> None:
        """``address``: the one to listen on. ``tls`` None: in clear text, as ML-Agents' engines speak."""
        super().__init__()
        self._address = address.strip("[]")
        self._tls = tls
        self._server: grpc.aio.Server | None = None
        self._pending: asyncio.Future[bytes] | None = None

    async def start(self, port: int = 0) -> int:
        """See :meth:`Server.start`. Also raises PortInUseError for an address that is not this machine's."""
        server = grpc.aio.server(
            options=[
                ("grpc.so_reuseport", 0),  # a second listener on the port is an error, not a silent partner
                ("grpc.max_receive_message_length", MAX_MESSAGE),
            ]
        )
        exchange = grpc.unary_unary_rpc_method_handler(self._exchange)  # without serializers: bytes in, bytes out
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD_NAME: exchange}),))
        try:
            self.port = self._listen(server, port)
        except RuntimeError as error:
            raise self._refusal(port) from error
        await server.start()
        self._server = server
        return self.port

    def _listen(self, server: grpc.aio.Server, port: int) -> int:
        host = f"[{self._address}]" if ":" in self._address else self._address
        if self._tls is None:
            return int(server.add_insecure_port(f"{host}:{port}"))
        credentials = grpc.ssl_server_credentials([(self._tls.key, self._tls.certificate)])
        return int(server.add_secure_port(f"{host}:{port}", credentials))

    def _refusal(self, port: int) -> PortInUseError:
        """Why grpcio could not listen, which it does not say: a socket of our own fails for the same reason."""
        reason = "grpcio refuses it"
        try:
            family, kind, _, _, place = socket.getaddrinfo(self._address, port, type=socket.SOCK_STREAM)[0]
            with socket.socket(family, kind) as probe:
                probe.bind(place)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return port_taken(port)
            reason = error.strerror or str(error)
        return PortInUseError(f"cannot listen on {self._address}: {reason}; give --listen an address of this machine")

    async def _exchange(self, request: bytes, _context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        """Called by the engine: hand on its message, wait for the answer."""
        pending: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._pending = pending
        self._deliver(request)
        return await pending

    @property
    def owes_reply(self) -> bool:
        """See :attr:`Server.owes_reply`."""
        return self._pending is not None and not self._pending.done()

    def reply(self, data: bytes) -> None:
        """See :meth:`Server.reply`."""
        if self._pending is not None and not self._pending.done():
            self._pending.set_result(data)
        self._pending = None

    async def stop(self, grace: float = 0.5) -> None:
        """See :meth:`Server.stop`."""
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(grace)
