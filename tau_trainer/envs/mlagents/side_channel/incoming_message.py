"""Reads messages from the game."""

from __future__ import annotations

from tau_trainer.bridge.side_channels import PayloadReader


class IncomingMessage:
    """A payload. Read values in the order they were written; past the end you get defaults."""

    def __init__(self, buffer: bytes, offset: int = 0) -> None:
        self.buffer = bytes(buffer)
        self._reader = PayloadReader(self.buffer[offset:])

    def read_bool(self, default_value: bool = False) -> bool:
        """One byte."""
        return bool(next(iter(self._reader.numbers("<?")), default_value))

    def read_int32(self, default_value: int = 0) -> int:
        """Four bytes, signed."""
        return self._reader.int32(default_value)

    def read_float32(self, default_value: float = 0.0) -> float:
        """Four bytes."""
        return next(iter(self._reader.numbers("<f")), default_value)

    def read_float32_list(self, default_value: list[float] | None = None) -> list[float]:
        """A count, then that number of floats."""
        count = self._reader.int32(-1)
        return (default_value or []) if count < 0 else list(self._reader.numbers(f"<{count}f"))

    def read_string(self, default_value: str = "") -> str:
        """A length in bytes, then ASCII text."""
        return default_value if self._reader.at_end else self._reader.string()

    def get_raw_bytes(self) -> bytearray:
        """The whole payload."""
        return bytearray(self.buffer)
