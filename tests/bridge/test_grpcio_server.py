"""What only the server on grpcio has to show: that it can take the other's place. Its behavior is in test_server."""

from __future__ import annotations

import asyncio
import inspect

import grpc
import pytest

from tau_trainer.bridge import grpcio_server, server
from tests.bridge.conftest import client


def test_it_has_the_same_methods_with_the_same_parameters() -> None:
    def of(kind: type) -> dict[str, str]:
        return {
            name: str(inspect.signature(member)) if inspect.isfunction(member) else "property"
            for name, member in vars(kind).items()
            if not name.startswith("_")
        }

    own = {"called", "gave_up", "opened"}  # for its connections
    ours = {name: signature for name, signature in of(server.EngineServer).items() if name not in own}
    theirs = {name: signature for name, signature in of(grpcio_server.EngineServer).items() if name != "exchange"}
    assert ours == theirs
    assert {"start", "receive", "owes_reply", "reply", "stop"} == set(ours)


def test_only_the_services_own_path_is_answered() -> None:
    async def main() -> None:
        listening = grpcio_server.EngineServer()
        port = await listening.start()
        with client(port) as engine:
            other = engine.channel.unary_unary("/another.Service/Method")
            with pytest.raises(grpc.RpcError) as refusal:
                await asyncio.to_thread(other, b"", timeout=5)
        assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED
        await listening.stop()

    asyncio.run(main())
