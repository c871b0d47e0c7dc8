"""Our own gRPC server for one engine on loopback: the engine calls, our answer travels in the response.

The reference listens on all interfaces, lets two trainers share a port silently, and refuses messages over 4 MiB; this
one does none of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from typing import Final

from tau_trainer.bridge.frames import ProtocolError
from tau_trainer.bridge.http2 import Connection
from tau_trainer.bridge.ports import has_ipv6, port_taken
from tau_trainer.bridge.serving import Server
from tau_trainer.errors import PortInUseError

LOOPBACK: Final = ("127.0.0.1", "::1")
"""Engines connect to the name ``localhost``, which is either of these."""

_TRIES: Final = 5
"""A port that is free on one loopback address may be taken on the other."""


class EngineServer(Server):
    """See :class:`~tau_trainer.bridge.serving.Server`. Listens on both loopback addresses and nowhere else."""

    def __init__(self) -> None:
        super().__init__()
        self._servers: list[asyncio.Server] = []
        self._links: set[_Link] = set()
        self._empty = asyncio.Event()
        self._pending: tuple[_Link, int] | None = None

    async def start(self, port: int = 0) -> int:
        """See :meth:`Server.start`."""
        for _ in range(1 if port else _TRIES):
            self.port = await self._bind(port)
            if self.port:
                return self.port
        raise port_taken(port)

    async def _bind(self, port: int) -> int:
        """The port of both addresses; 0 if it is taken on one. A machine without IPv6 is no refusal."""
        loop = asyncio.get_running_loop()
        for host in LOOPBACK:
            if host == LOOPBACK[1] and not has_ipv6():
                continue
            try:
                server = await loop.create_server(lambda: _Link(self), host, port)
            except OSError as error:
                await self._close_servers()
                if error.errno in (errno.EADDRINUSE, errno.EACCES):
                    return 0
                raise PortInUseError(
                    f"cannot listen on {host}: {error.strerror}; is this machine's loopback up?"
                ) from error
            self._servers.append(server)
            port = int(server.sockets[0].getsockname()[1])
        return port

    async def _close_servers(self) -> None:
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        for server in servers:
            await server.wait_closed()

    @property
    def owes_reply(self) -> bool:
        """See :attr:`Server.owes_reply`."""
        return self._pending is not None

    def reply(self, data: bytes) -> None:
        """See :meth:`Server.reply`."""
        if self._pending is not None:
            (link, stream), self._pending = self._pending, None
            link.respond(stream, data)

    def called(self, link: _Link, stream: int, data: bytes) -> None:
        """The engine calls: hand on its message."""
        self._pending = (link, stream)
        self._deliver(data)

    def gave_up(self, link: _Link, stream: int | None = None) -> None:
        """The engine broke off a call, or (``stream`` None) its connection is gone."""
        if self._pending is not None and self._pending[0] is link and stream in (None, self._pending[1]):
            self._pending = None
        if stream is None:
            self._links.discard(link)
            if not self._links:
                self._empty.set()

    def opened(self, link: _Link) -> None:
        """An engine connected."""
        self._links.add(link)
        self._empty.clear()

    async def stop(self, grace: float = 0.5) -> None:
        """See :meth:`Server.stop`."""
        if self._links:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._empty.wait(), grace)
        for link in tuple(self._links):
            link.abort()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._close_servers(), 1.0)


class _Link(asyncio.Protocol):
    """One connection of an engine."""

    def __init__(self, server: EngineServer) -> None:
        self._server = server
        self._connection = Connection()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.abort = transport.abort  # at once, even if the other side does not read
        self._server.opened(self)
        self._write()

    def data_received(self, data: bytes) -> None:
        try:
            calls = self._connection.receive(data)
        except ProtocolError:
            self._transport.close()  # whoever this is, it is no engine; the one we wait for may still come
            return
        for call in calls:
            if call.message is None:
                self._server.gave_up(self, call.stream)
            else:
                self._server.called(self, call.stream, call.message)
        self._write()

    def respond(self, stream: int, data: bytes) -> None:
        """Send an answer."""
        self._connection.respond(stream, data)
        self._write()

    def _write(self) -> None:
        data = self._connection.take()
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.gave_up(self)
