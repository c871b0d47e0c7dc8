"""A trainer for the headless engine to talk to: a small gRPC server that plays by the test's script."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from concurrent import futures

import grpc
import pytest

from tau_trainer.bridge.codec import (
    EngineMessage,
    TrainerCodec,
    TrainerInitialization,
    encode_close,
    encode_initialization,
    encode_reply,
    parse_engine_message,
)
from tau_trainer.bridge.protocol import METHOD, Command
from tau_trainer.specs import Actions, StepBatch
from tests.bridge.conftest import free_port
from tests.waiting import HANG_S

WAIT = HANG_S


class FakeTrainer(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Receives one message at a time and answers with what the test says."""

    def __init__(self, port: int = 0) -> None:
        self.codec = TrainerCodec()
        self._requests: queue.Queue[bytes] = queue.Queue()
        self._replies: queue.Queue[bytes | None] = queue.Queue()
        self._server = grpc.server(futures.ThreadPoolExecutor(2), options=[("grpc.max_receive_message_length", -1)])
        self._server.add_generic_rpc_handlers((self,))
        self.port = int(self._server.add_insecure_port(f"127.0.0.1:{port}"))
        self._server.start()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return grpc.unary_unary_rpc_method_handler(self._exchange) if details.method == METHOD else None

    def _exchange(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self._requests.put(request)
        reply = self._replies.get(timeout=WAIT)
        if reply is None:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the trainer stops")
            raise AssertionError("abort raises")
        return reply

    def raw(self) -> bytes:
        """The engine's next message, as bytes."""
        return self._requests.get(timeout=WAIT)

    def receive(self) -> EngineMessage:
        """The engine's next message."""
        return parse_engine_message(self.raw())

    def steps(self) -> tuple[EngineMessage, StepBatch]:
        """The engine's next step."""
        message = self.receive()
        (batch,) = self.codec.steps(message)
        return message, batch

    def send(self, reply: bytes) -> None:
        """Answer the pending message."""
        self._replies.put(reply)

    def act(self, actions: dict[str, Actions], side_channel: bytes = b"") -> None:
        """Answer the pending message with actions."""
        self.send(self.codec.reply(Command.STEP, actions, side_channel))

    def reset(self, side_channel: bytes = b"") -> None:
        """Answer the pending message with a reset."""
        self.send(encode_reply(Command.RESET, side_channel=side_channel))

    def close(self) -> None:
        """Answer the pending message with status 400."""
        self.send(encode_close())

    def handshake(self, seed: int = 0, side_channel: bytes = b"", areas: int = 1) -> EngineMessage:
        """Calls 1 and 2; returns the engine's first message."""
        first = self.receive()
        self.send(encode_initialization(TrainerInitialization(seed=seed, num_areas=areas)))
        self.raw()
        self.reset(side_channel)
        return first

    def die(self) -> None:
        """Be gone, as a trainer whose process was killed."""
        self._replies.put(None)
        self._server.stop(0).wait(WAIT)

    def stop(self) -> None:
        """End the server, whatever it was doing."""
        for _ in range(4):
            self._replies.put(None)
        self._server.stop(0).wait(WAIT)


@pytest.fixture
def trainer() -> Iterator[FakeTrainer]:
    """A listening trainer."""
    fake = FakeTrainer()
    yield fake
    fake.stop()


@pytest.fixture
def closed_port() -> int:
    """A port that nobody listens on."""
    return free_port()


class EngineThread(threading.Thread):
    """The engine's ``main`` in a thread of this process."""

    def __init__(self, arguments: list[str]) -> None:
        super().__init__(daemon=True)
        self._arguments = arguments
        self.code: int | None = None

    def run(self) -> None:
        from tau_trainer.headless.main import main

        self.code = main(self._arguments)

    def finish(self) -> int:
        """Wait for the end; the exit code."""
        self.join(WAIT)
        assert self.code is not None, "the engine did not end"
        return self.code


class EngineStarter:
    """Starts engines for one trainer."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.engine: EngineThread | None = None

    def __call__(self, *arguments: str) -> EngineThread:
        self.engine = EngineThread(["--mlagents-port", str(self._port), *arguments])
        self.engine.start()
        return self.engine


@pytest.fixture
def start(trainer: FakeTrainer) -> Iterator[EngineStarter]:
    """Starts an engine that connects to ``trainer``; the last one ends well as it is told to, if it has not before."""
    starter = EngineStarter(trainer.port)
    yield starter
    if starter.engine is not None and starter.engine.code is None:
        trainer.close()
        assert starter.engine.finish() == 0
