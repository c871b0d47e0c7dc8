"""The inbox that both servers share. What they do with it is in test_server."""

from __future__ import annotations

import pytest

from tau_trainer.bridge.server import Request, Server
from tau_trainer.errors import EngineDisconnectedError, EngineExitedError


class Deaf(Server):
    """A server that nobody can call."""

    async def start(self, port: int = 0) -> int:
        return port

    async def stop(self, grace: float = 0.5) -> None:
        raise AssertionError


class Caller:
    """What was answered to whom."""

    def __init__(self) -> None:
        self.answers: list[tuple[bytes, bytes]] = []

    def request(self, message: bytes) -> Request:
        return Request(message, lambda answer: self.answers.append((message, answer)), message)


@pytest.fixture
def server() -> Deaf:
    return Deaf()


@pytest.fixture
def caller() -> Caller:
    return Caller()


async def test_a_message_finds_the_one_who_waits_or_waits_itself(server: Deaf, caller: Caller) -> None:
    waiting = server.receive()
    waiting.set_exception(EngineExitedError("engine 0 ended"))
    with pytest.raises(EngineExitedError):
        await waiting
    server.reply(b"nobody asked")
    waiting = server.receive()
    server._deliver(caller.request(b"first"))
    assert await waiting == b"first"
    server._deliver(caller.request(b"second"))
    assert server.receive().result() == b"second"
    given_up = server.receive()
    given_up.cancel()
    server._deliver(caller.request(b"third"))
    assert server.receive().result() == b"third"


async def test_an_unread_message_is_never_overwritten(server: Deaf, caller: Caller) -> None:
    for message in (b"first", b"second", b"third"):
        server._deliver(caller.request(message))
    for message in (b"first", b"second", b"third"):
        assert server.receive().result() == message
        server.reply(message.upper())
    assert caller.answers == [(b"first", b"FIRST"), (b"second", b"SECOND"), (b"third", b"THIRD")]
    assert not server.owes_reply


async def test_an_answer_goes_to_the_message_that_was_read(server: Deaf, caller: Caller) -> None:
    """The engine breaks off its call and makes another: what was decided for the first is no answer to the second."""
    broken_off, goodbye = caller.request(b"step"), caller.request(b"goodbye")
    server._deliver(broken_off)
    assert await server.receive() == b"step"
    owed = [server.owes_reply]
    server._withdraw(b"step")
    owed.append(server.owes_reply)
    server._deliver(goodbye)
    assert [*owed, server.owes_reply] == [True, False, True]
    server.reply(b"actions")
    assert caller.answers == []
    assert await server.receive() == b"goodbye"
    server.reply(b"farewell")
    assert caller.answers == [(b"goodbye", b"farewell")]


async def test_a_call_that_was_broken_off_unread_is_not_read(server: Deaf, caller: Caller) -> None:
    first = caller.request(b"first")
    server._deliver(first)
    server._withdraw(b"first")
    waiting = server.receive()
    server._deliver(caller.request(b"second"))
    assert await waiting == b"second"


async def test_nothing_can_be_answered_after_the_break(server: Deaf, caller: Caller) -> None:
    server._deliver(caller.request(b"read"))
    server._deliver(caller.request(b"unread"))
    assert await server.receive() == b"read"
    server._break("closed the connection")
    assert not server.owes_reply
    server.reply(b"nobody")
    assert await server.receive() == b"unread"
    with pytest.raises(EngineDisconnectedError, match="closed the connection"):
        await server.receive()
    assert caller.answers == []
