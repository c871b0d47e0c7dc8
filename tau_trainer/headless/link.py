"""The gRPC client: one blocking call an exchange, as Unity's communicator makes it."""

from __future__ import annotations

import contextlib
import threading
import time
from types import TracebackType
from typing import Final, Self

import grpc

from tau_trainer.bridge.codec import encode_close
from tau_trainer.bridge.protocol import METHOD
from tau_trainer.errors import EngineError

_OPTIONS: Final = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),  # a proxy in the environment must not come between two processes of one machine
    ("grpc.enable_retries", 0),
)
_GOODBYE_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 0.05


class TrainerGoneError(Exception):
    """The trainer's end of the connection is closed."""


class TrainerLink:
    """A connection to the trainer that listens on ``localhost:<port>``."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._channel = grpc.insecure_channel(f"localhost:{port}", options=_OPTIONS)
        self._call = self._channel.unary_unary(METHOD)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.close()

    def connect(self, request: bytes, seconds: float) -> bytes:
        """The first exchange; tries for ``seconds`` while nobody listens.

        Raises EngineError if nobody does; TrainerGoneError if the trainer breaks off.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                return bytes(self._call(request))
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise TrainerGoneError(_reason(error)) from error
                if time.monotonic() >= deadline:
                    raise EngineError(
                        f"no trainer listens on localhost:{self._port}; start it first, or give its port "
                        "with --mlagents-port."
                    ) from error
            time.sleep(_RETRY_SECONDS)

    def exchange(self, request: bytes) -> bytes:
        """Send a message and wait for the reply, however long it takes. Raises TrainerGoneError."""
        try:
            return self._call(request)  # type: ignore[no-any-return]
        except grpc.RpcError as error:
            raise TrainerGoneError(_reason(error)) from error

    def goodbye(self) -> None:
        """Tell the trainer that this engine ends (status 400), if it still listens."""
        with contextlib.suppress(grpc.RpcError):
            self._call(encode_close(), timeout=_GOODBYE_SECONDS)

    def wait_until_gone(self) -> None:
        """Do nothing until the trainer closes the connection."""
        gone = threading.Event()
        ready = threading.Event()

        def watch(state: grpc.ChannelConnectivity) -> None:
            if state is grpc.ChannelConnectivity.READY:
                ready.set()
            elif ready.is_set():
                gone.set()

        self._channel.subscribe(watch, try_to_connect=True)
        while not gone.wait(1.0):  # short waits: Windows delivers Ctrl-C between them only
            pass


def _reason(error: grpc.RpcError) -> str:
    return str(error.code().name) if isinstance(error, grpc.Call) else str(error)
