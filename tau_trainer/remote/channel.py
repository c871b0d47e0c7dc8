"""Messages in pipes: JSON for facts, then arrays, or arrays in shared memory.

The side that made the memory writes its arrays there, and the other side reads them without a copy. Arrays in the
other direction (weights, checkpoints) are sent through the pipe.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import Arrays
from tau_trainer.errors import LearnerError
from tau_trainer.remote.process import NO_ARRAYS, Message

_ALIGNMENT = 64
_SMALLEST = _MOST_AT_ONCE = 1 << 20


class SharedBytes:
    """Memory shared by two processes; one of them can enlarge it. It disappears when both have closed it.

    On POSIX it is an unnamed file, inherited by its descriptor; on Windows a named mapping.
    """

    def __init__(self, place: str | None = None) -> None:
        """``place``: :attr:`place` of the process that made it; None: make it."""
        self._mapping: mmap.mmap | None = None
        self._size = 0
        if sys.platform == "win32":
            self.place = place or f"tau-trainer-{os.getpid()}-{id(self)}"
        elif place is None:
            folder = Path("/dev/shm")
            with tempfile.TemporaryFile(dir=folder if os.access(folder, os.W_OK) else None) as file:
                self.place = str(os.dup(file.fileno()))
        else:
            self.place = place

    def view(self, size: int) -> memoryview:
        """The first ``size`` bytes, enlarged if necessary. Earlier views stay valid.

        Raises LearnerError if there is no room.
        """
        if size > self._size or self._mapping is None:
            larger = max(size, 2 * self._size, _SMALLEST)
            if sys.platform == "win32":
                self._mapping = mmap.mmap(-1, larger, tagname=f"{self.place}-{larger}")
            else:
                _reserve(int(self.place), larger)
                self._mapping = mmap.mmap(int(self.place), larger)
            self._size = larger
        return memoryview(self._mapping)[:size]

    def close(self) -> None:
        """Release it; further calls do nothing."""
        self._mapping = None
        if sys.platform != "win32" and self.place:
            os.close(int(self.place))
        self.place = ""  # so that a reused number is not closed again


def _reserve(descriptor: int, size: int) -> None:
    """Enlarge a file and allocate all of it: without that, if memory runs out, the system kills the writing process."""
    if os.fstat(descriptor).st_size >= size:
        return
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.ftruncate(descriptor, size)
    except OSError as error:
        raise LearnerError(
            f"there is no room for the {size:,} bytes that are shared with the process that learns ({error.strerror}); "
            "give /dev/shm more (docker run --shm-size=1g), or learn in a thread: --set collection.learner=thread"
        ) from error


class Channel:
    """One end: ``source`` and ``sink`` are pipes, ``shared`` the memory that the opening side writes arrays into.

    Without such memory, all arrays are sent through the pipes.
    """

    def __init__(self, source: IO[bytes], sink: IO[bytes], shared: SharedBytes | None = None) -> None:
        self._source = source
        self._sink = sink
        self._shared = shared

    def send(
        self, kind: str, data: Mapping[str, Any], arrays: Arrays = NO_ARRAYS, *, through_memory: bool = False
    ) -> None:
        """Send one message. Raises OSError if the other end has closed the pipe."""
        table, size = [], 1  # numpy refuses an empty buffer, even for an empty array
        for name, values in arrays.items():
            size = -(-size // _ALIGNMENT) * _ALIGNMENT
            table.append((name, values.dtype.str, values.shape, size))
            size += max(values.nbytes, 1)
        head = json.dumps({"kind": kind, "facts": data, "table": table, "size": size, "shared": through_memory})
        target = self._memory(size) if through_memory else memoryview(bytearray(size))
        for (_, _, _, begin), values in zip(table, arrays.values(), strict=True):
            np.frombuffer(target, values.dtype, values.size, begin)[:] = values.reshape(-1)
        line = head.encode()
        self._sink.write(len(line).to_bytes(8, "little") + line)
        if not through_memory:
            self._sink.write(target)
        self._sink.flush()

    def receive(self) -> tuple[Message, float]:
        """The next message, and the seconds that it took from its first byte on.

        Arrays in shared memory are valid until the next ones are sent. Raises EOFError if the other end has closed the
        pipe.
        """
        length, began = self._exactly(8), time.perf_counter()
        head = json.loads(self._exactly(int.from_bytes(length, "little")))
        size = head["size"]
        content = self._memory(size) if head["shared"] else memoryview(self._exactly(size))
        arrays = {}
        for name, dtype, shape, begin in head["table"]:
            flat: NDArray[Any] = np.frombuffer(content, np.dtype(dtype), int(np.prod(shape, dtype=np.int64)), begin)
            arrays[name] = flat.reshape(shape)
        return Message(head["kind"], head["facts"], arrays), time.perf_counter() - began

    def _memory(self, size: int) -> memoryview:
        assert self._shared is not None
        return self._shared.view(size)

    def _exactly(self, size: int) -> bytearray:
        content = bytearray()
        while len(content) < size:
            part = self._source.read(min(size - len(content), _MOST_AT_ONCE))
            if not part:
                raise EOFError
            content += part
        return content
