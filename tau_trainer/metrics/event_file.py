"""TensorBoard event files: the record format, and nothing that imports tensorflow.

An event file is a sequence of records: length (uint64), masked CRC-32C of the length, an ``Event`` message, masked
CRC-32C of the message (tensorflow/core/lib/io/record_writer.h). Messages and checksums are the ``tensorboard``
package's own; the framing is done here, because the writer of that package imports tensorflow wherever it is installed.
"""

from __future__ import annotations

import functools
import itertools
import os
import platform
import re
import struct
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import BinaryIO, NamedTuple

_file_numbers = itertools.count()


class Messages(NamedTuple):
    """What is taken from the ``tensorboard`` package."""

    event: ModuleType
    summary: ModuleType
    masked_crc32c: Callable[[bytes], int]


@functools.cache
def messages() -> Messages:
    """Import it; a run that never writes an event file does without."""
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    return Messages(event_pb2, summary_pb2, masked_crc32c)


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


def _crc_bytes(data: bytes) -> bytes:
    return struct.pack("<I", messages().masked_crc32c(data))
