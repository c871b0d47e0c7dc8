"""The connection to the trainer: one blocking call for each exchange, as in Unity's communicator."""

from __future__ import annotations

import contextlib
import time
from typing import Final, Protocol

from tau_trainer.bridge.codec import encode_close
from tau_trainer.bridge.protocol import METHOD
from tau_trainer.errors import EngineError
from tau_trainer.headless.http2 import Http2Connection

_HOST: Final = "localhost"
_GOODBYE_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 0.05


class TrainerConnection(Protocol):
    """One connection to a trainer."""

    @property
    def usable(self) -> bool:
        """Whether it accepts another call."""

    def call(self, message: bytes) -> bytes:
        """Send ``message`` and wait for the answer. Raises OSError."""

    def cancel(self) -> None:
        """Stop waiting for the answer."""

    def set_timeout(self, seconds: float | None) -> None:
        """Set the longest wait, in seconds; None: no limit."""

    def wait_until_gone(self) -> None:
        """Wait until the trainer closes it."""

    def close(self) -> None:
        """Close it."""


class TrainerGoneError(Exception):
    """The trainer has closed the connection."""


class TrainerClient:
    """Calls to the trainer that listens on ``localhost:<port>``."""

    def __init__(self, port: int, method: str = METHOD) -> None:
        self._port, self._method = port, method
        self._connection: TrainerConnection | None = None

    def _dial(self) -> TrainerConnection:
        """A new connection. Raises OSError."""
        return Http2Connection(_HOST, self._port, self._method)

    def close(self) -> None:
        """Close the connection if it is open."""
        if self._connection is not None:
            self._connection.close()

    def connect(self, request: bytes, seconds: float) -> bytes:
        """Make the first exchange. If no trainer listens yet, retry for ``seconds``.

        Raises EngineError if no trainer listens by then, TrainerGoneError if the trainer breaks off.
        """
        deadline = time.monotonic() + seconds
        while self._connection is None:
            try:
                self._connection = self._dial()
            except OSError as error:
                if time.monotonic() >= deadline:
                    raise EngineError(
                        f"no trainer listens on {_HOST}:{self._port}; start it first, or give its port "
                        "with --mlagents-port."
                    ) from error
                time.sleep(_RETRY_SECONDS)
        return self.exchange(request)

    def exchange(self, request: bytes) -> bytes:
        """Send a message and wait for the reply, however long it takes. Raises TrainerGoneError."""
        try:
            return self._open().call(request)
        except OSError as error:
            raise TrainerGoneError(str(error)) from error

    def goodbye(self) -> None:
        """If the trainer still listens, report that this engine ends (status 400)."""
        if self._connection is None:
            return
        with contextlib.suppress(OSError):
            self._connection.set_timeout(_GOODBYE_SECONDS)
            self._connection.cancel()
            self._open().call(encode_close())

    def wait_until_gone(self) -> None:
        """Wait until the trainer closes the connection."""
        if self._connection is not None:
            self._connection.wait_until_gone()

    def _open(self) -> TrainerConnection:
        """The connection; a new one if the old one accepts no more calls. Raises OSError."""
        if self._connection is None or not self._connection.usable:
            self.close()
            self._connection = self._dial()
        return self._connection
