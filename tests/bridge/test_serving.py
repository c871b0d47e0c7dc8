"""The inbox that both servers share. What they do with it is in test_server."""

from __future__ import annotations

import asyncio

import pytest

from tau_trainer.bridge.serving import Server


class Deaf(Server):
    """A server that nobody can call."""

    async def start(self, port: int = 0) -> int:
        return port

    @property
    def owes_reply(self) -> bool:
        return False

    def reply(self, data: bytes) -> None:
        raise AssertionError

    async def stop(self, grace: float = 0.5) -> None:
        raise AssertionError


def test_a_message_finds_the_one_who_waits_or_waits_itself() -> None:
    async def main() -> None:
        server = Deaf()
        waiting = server.receive()
        server._deliver(b"first")
        assert await waiting == b"first"
        server._deliver(b"second")
        assert server.receive().result() == b"second"
        given_up = server.receive()
        given_up.cancel()
        server._deliver(b"third")
        assert server.receive().result() == b"third"

    asyncio.run(main())


def test_half_a_server_cannot_be_made() -> None:
    class Half(Server):
        """One without an end."""

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]
