"""TensorBoard event files: the record format, and nothing that imports tensorflow.

An event file is a sequence of records: length (uint64), masked CRC-32C of the length, an ``Event`` message, masked
CRC-32C of the message (tensorflow/core/lib/io/record_writer.h). The messages are the ``tensorboard`` package's own;
the framing is done here, because the writer of that package imports tensorflow wherever it is installed.
"""

from __future__ import annotations

import functools
import itertools
import os
import platform
import re
import struct
import time
from pathlib import Path
from types import ModuleType
from typing import BinaryIO, NamedTuple

_file_numbers = itertools.count()


class Messages(NamedTuple):
    """The generated message modules of the ``tensorboard`` package."""

    event: ModuleType
    summary: ModuleType


@functools.cache
def messages() -> Messages:
    """Import them; a run that never writes an event file does without."""
    from tensorboard.compat.proto import event_pb2, summary_pb2

    return Messages(event_pb2, summary_pb2)


class EventFile:
    """One ``events.out.tfevents.<time>.<host>.<process>.<number>`` file."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        host = re.sub(r"[^\w.-]", "_", platform.node()) or "host"
        name = f"events.out.tfevents.{int(time.time()):010d}.{host}.{os.getpid()}.{next(_file_numbers)}"
        self.path = folder / name
        self._file: BinaryIO = self.path.open("wb")
        self._flushed = -float("inf")
        self.write(messages().event.Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
        self.flush()

    def write(self, data: bytes) -> None:
        """Append one record."""
        header = struct.pack("<Q", len(data))
        self._file.write(header + _crc_bytes(header) + data + _crc_bytes(data))

    def flush(self, older_than: float = 0.0) -> None:
        """Hand what was written to the operating system, unless that happened in the last ``older_than`` seconds."""
        now = time.monotonic()
        if now - self._flushed >= older_than:
            self._file.flush()
            self._flushed = now

    def close(self) -> None:
        """Flush and close."""
        self._file.close()


def masked_crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), rotated by 15 bits plus a constant, as TFRecord files have it."""
    crc = 0xFFFFFFFF
    table = _CRC_TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _crc_table() -> tuple[int, ...]:
    """The 256 remainders of the reflected polynomial 0x1EDC6F41 (RFC 3720, appendix B.4)."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_CRC_TABLE = _crc_table()


def _crc_bytes(data: bytes) -> bytes:
    return struct.pack("<I", masked_crc32c(data))
