"""Writes messages to the game."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tau_trainer.bridge.side_channels import string


class OutgoingMessage:
    """A payload that grows, little-endian."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    def write_bool(self, b: bool) -> None:
        """One byte."""
        self.buffer += struct.pack("<?", b)

    def write_int32(self, i: int) -> None:
        """Four bytes, signed."""
        self.buffer += struct.pack("<i", i)

    def write_float32(self, f: float) -> None:
        """Four bytes."""
        self.buffer += struct.pack("<f", f)

    def write_float32_list(self, float_list: Sequence[float]) -> None:
        """A count, then the floats."""
        self.buffer += struct.pack(f"<i{len(float_list)}f", len(float_list), *float_list)

    def write_string(self, s: str) -> None:
        """A length in bytes, then ASCII text; other characters become ``?``."""
        self.buffer += string(s)

    def set_raw_bytes(self, buffer: bytes | bytearray) -> None:
        """Replace the whole payload."""
        self.buffer = bytearray(buffer)
