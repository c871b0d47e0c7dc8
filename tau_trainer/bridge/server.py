"""The server of one engine: the interface (grpcio implements it for other machines), and our own for loopback.

The engine calls, and our answer is the response.

Unlike ML-Agents' server, this one does not listen on all interfaces, does not let two trainers share a port silently,
and does not refuse messages over 4 MiB.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from tau_trainer.bridge.dialect import BY_METHOD, UNITY, Dialect
from tau_trainer.bridge.http2 import INVALID_ARGUMENT, MAX_MESSAGE, UNAVAILABLE, Connection
from tau_trainer.bridge.ports import has_ipv6, port_taken
from tau_trainer.errors import EngineDisconnectedError, PortInUseError

LOOPBACK: Final = ("127.0.0.1", "::1")
"""Engines connect to ``localhost``, which is one of these."""

_TRIES: Final = 5
"""Number of tries: a port that is free on one loopback address can be taken on the other."""
_PREFACE_S: Final = 5.0
"""Seconds until a connection that does not speak HTTP/2 is closed."""
_MOST_STRANGERS: Final = 16
"""Maximum connections that have made no call or are not the engine's."""
_FIRST_MESSAGE: Final = 2**16
"""Maximum bytes of a message from an unknown caller. Introductions have a few hundred."""
TAKEN: Final = "another engine plays here; every engine needs its own port"
"""The answer to a second engine."""
NO_ENGINE: Final = "this port is for an ML-Agents engine, whose first message is an introduction"
"""The answer to other callers before the engine's call."""
_TOLD: Final = 3
"""Maximum reported calls of unknown callers per host, so that frequent calls do not fill the log."""


@dataclass(slots=True, eq=False)
class Request:
    """A call of the engine."""

    message: bytes
    answer: Callable[[bytes], None]
    """Does nothing if the engine has cancelled the call."""
    key: object = None
    """Identifies the call for the server."""
    open: bool = True
    """Whether the engine still waits for the answer."""


class Admission(NamedTuple):
    """Who is taken for the engine."""

    objection: Callable[[Dialect, bytes], str | None] = lambda dialect, message: None
    """Why a caller with this first message is not an engine; None: it is one."""
    on_stranger: Callable[[str, str], None] = lambda peer, why: None
    """Called for each refused caller before the engine's first call, with address and port, and the reason."""


ANYBODY = Admission()
"""The first caller is the engine."""


class Server(ABC):
    """Receives an engine's calls and answers each with :meth:`reply`.

    The first connection with a complete call without an objection is the engine's; all others are refused.
    Usage: ``port = await start()``, then ``data = await receive()`` and ``reply(...)`` in turn, ``await stop()``.
    """

    def __init__(self, admission: Admission = ANYBODY) -> None:
        self.port = 0
        self._waiter: asyncio.Future[bytes] | None = None
        self._unread: deque[Request] = deque()
        self._read: deque[Request] = deque()
        self._broken: str | None = None
        self.dialect: Dialect = UNITY
        """The engine's; known from its first message on."""
        self.objection, self.on_stranger = admission
        self._strangers: Counter[str] = Counter()
        """Number of other calls before the engine's, by host."""

    @abstractmethod
    async def start(self, port: int = 0) -> int:
        """Listen; port 0 lets the system choose. Returns the port. Raises PortInUseError."""

    @abstractmethod
    async def stop(self, grace: float = 0.5) -> None:
        """Stop listening; open connections end after ``grace`` seconds."""

    def receive(self) -> asyncio.Future[bytes]:
        """A future for the engine's next message. The caller can cancel it or set an exception.

        It raises EngineDisconnectedError once the engine has disconnected and all its messages are read.
        """
        waiter: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiter = waiter
        if self._unread:
            self._hand_over()
        elif self._broken is not None:
            waiter.set_exception(EngineDisconnectedError(self._broken))
        return waiter

    @property
    def owes_reply(self) -> bool:
        """Whether the engine waits for a reply."""
        return any(request.open for request in (*self._read, *self._unread))

    def reply(self, data: bytes) -> None:
        """Answer the oldest call that was read, else the oldest unread one; does nothing if there is no call."""
        if self._read or self._unread:
            request = (self._read or self._unread).popleft()
            if request.open:
                request.open = False
                request.answer(data)

    def _deliver(self, request: Request) -> None:
        """Pass the engine's message to the waiting future, or keep it until the next :meth:`receive`."""
        self._unread.append(request)
        self._hand_over()

    def _hand_over(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            request = self._unread.popleft()
            self._read.append(request)
            self._waiter.set_result(request.message)

    def _turned_away(self, peer: str, why: str) -> None:
        """Report a refused caller before the engine's first call."""
        host = peer.rpartition(":")[0]
        self._strangers[host] += 1
        if self._strangers[host] <= _TOLD:
            last = "; further calls of this host are not reported" if self._strangers[host] == _TOLD else ""
            self.on_stranger(peer, why + last)

    def _withdraw(self, key: object) -> None:
        """The engine has cancelled a call: it need not be read, and an answer to it is dropped."""
        for request in (*self._read, *self._unread):
            request.open = request.open and request.key != key
        self._unread = deque(request for request in self._unread if request.open)

    def _break(self, how: str) -> None:
        """The engine has disconnected; ``how``: the end of a sentence about it."""
        self._broken = how
        for request in (*self._read, *self._unread):
            request.open = False
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(EngineDisconnectedError(how))


class EngineServer(Server):
    """See :class:`Server`. Listens on both loopback addresses and nowhere else."""

    def __init__(self, admission: Admission = ANYBODY) -> None:
        super().__init__(admission)
        self._servers: list[asyncio.Server] = []
        self._links: dict[Link, None] = {}
        """All connections, in order."""
        self._engine: Link | None = None
        self._empty = asyncio.Event()

    async def start(self, port: int = 0) -> int:
        """See :meth:`Server.start`."""
        for _ in range(1 if port else _TRIES):
            self.port = await self._bind(port)
            if self.port:
                return self.port
        raise port_taken(port)

    def _link(self) -> Link:
        return _Link(self)

    async def _bind(self, port: int) -> int:
        """The port on both addresses; 0 if it is taken on one. IPv6 is skipped if the machine does not have it."""
        loop = asyncio.get_running_loop()
        for host in LOOPBACK:
            if host == LOOPBACK[1] and not has_ipv6():
                continue
            try:
                server = await loop.create_server(self._link, host, port)
            except OSError as error:
                await self._close_servers()
                if error.errno in (errno.EADDRINUSE, errno.EACCES):
                    return 0
                raise PortInUseError(
                    f"cannot listen on {host}: {error.strerror}; check this machine's loopback interface"
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

    def opened(self, link: Link) -> None:
        """Handle a new connection. If there are too many unknown ones, the oldest is closed."""
        strangers = [other for other in self._links if other is not self._engine]
        if len(strangers) >= _MOST_STRANGERS:
            del self._links[strangers[0]]
            strangers[0].abort()
        self._links[link] = None
        self._empty.clear()

    def called(self, link: Link, stream: int, message: bytes) -> None:
        """Handle a complete call. The first valid introduction is the engine's."""
        if self._engine is None:
            self.dialect = link.dialect
            objection = self.objection(self.dialect, message)
            if objection is not None:
                self._turned_away(link.peer, objection)
                link.refuse(stream, NO_ENGINE, INVALID_ARGUMENT)
                return
            self._engine = link
            link.trust()
        if link is not self._engine:
            link.refuse(stream, TAKEN, UNAVAILABLE)
            return
        self._deliver(Request(message, partial(link.respond, stream), stream))

    def declined(self, link: Link, why: str) -> None:
        """Handle a refused call: it is not an engine's, or not HTTP/2."""
        if self._engine is None:
            self._turned_away(link.peer, why)

    def gave_up(self, link: Link, stream: int) -> None:
        """Handle a cancelled call."""
        if link is self._engine:
            self._withdraw(stream)

    def closed(self, link: Link, how: str) -> None:
        """Handle a closed connection."""
        self._links.pop(link, None)
        if link is self._engine:
            self._break(how)
        if not self._links:
            self._empty.set()

    async def stop(self, grace: float = 0.5) -> None:
        """See :meth:`Server.stop`."""
        if self._links:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._empty.wait(), grace)
        for link in tuple(self._links):
            link.abort()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._close_servers(), 1.0)


class Link(asyncio.Protocol, ABC):
    """One connection."""

    def __init__(self, server: EngineServer) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Tell the server."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        host, port, *_ = transport.get_extra_info("peername") or ("an unknown address", 0)
        self.peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.abort = transport.abort  # at once, even if the other side does not read
        self._server.opened(self)

    @property
    @abstractmethod
    def dialect(self) -> Dialect:
        """That of its last call."""

    @abstractmethod
    def trust(self) -> None:
        """Mark this as the engine's connection: its messages can be large."""

    @abstractmethod
    def respond(self, stream: int, data: bytes) -> None:
        """Send an answer."""

    @abstractmethod
    def refuse(self, stream: int, why: str, status: bytes) -> None:
        """Send a refusal, if the other side can read one, and close."""


class _Link(Link):
    """One connection over HTTP/2."""

    def __init__(self, server: EngineServer) -> None:
        super().__init__(server)
        self._connection = Connection(_FIRST_MESSAGE)
        self._full = False
        self._closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._timer = asyncio.get_running_loop().call_later(_PREFACE_S, self._preface_due)
        self._write()

    def _preface_due(self) -> None:
        if not self._connection.prefaced:
            self.abort()

    def data_received(self, data: bytes) -> None:
        for call in self._connection.receive(data):
            if call.message is None:
                self._server.gave_up(self, call.stream)
            else:
                self._server.called(self, call.stream, call.message)
        declined, self._connection.declined = self._connection.declined, None
        if self._connection.error is not None and not self._closing:
            self._closing, declined = True, str(self._connection.error)
        if declined is not None:
            self._server.declined(self, declined)
        self._write()

    @property
    def dialect(self) -> Dialect:
        return BY_METHOD[self._connection.method]

    def trust(self) -> None:
        self._connection.limit = MAX_MESSAGE

    def respond(self, stream: int, data: bytes) -> None:
        self._connection.respond(stream, data)
        self._write()

    def refuse(self, stream: int, why: str, status: bytes) -> None:
        self._connection.refuse(stream, why, status)
        self._closing = True

    def pause_writing(self) -> None:
        """The other side does not read: stop writing, and stop reading calls that would need an answer."""
        self._full = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._full = False
        self._transport.resume_reading()
        self._write()

    def _write(self) -> None:
        while not self._full and not self._transport.is_closing():
            data = self._connection.take()
            if not data:
                if self._closing:
                    self._transport.close()
                return
            self._transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        wrong = self._connection.error
        self._server.closed(self, "closed the connection" if wrong is None else f"broke HTTP/2: {wrong}")
