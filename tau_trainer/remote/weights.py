"""The newest weights in shared memory, written by the trainer and read by any number of actors, without waiting.

There are two slots: the trainer writes into the older one, then marks it as the newest. If a reader is so slow that
its slot is overwritten, the checksum shows it (for any memory order of the processor), and it reads the newer slot.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import Arrays
from tau_trainer.remote.channel import SharedBytes
from tau_trainer.remote.process import Layout, PolicyWeights

_HEAD = 64
"""Bytes of the header (number of writes, opts so far), and of each slot's header (version, opts, checksum)."""


def layout_of(weights: Arrays) -> Layout:
    """The memory layout of these arrays."""
    return [(name, values.dtype.str, list(values.shape)) for name, values in weights.items()]


class WeightMemory:
    """One end of it. Implements Publisher and Newest (:mod:`.process`); only the trainer writes."""

    def __init__(self, shared: SharedBytes, layout: Layout, number: int = 0) -> None:
        """``shared``: used for nothing else; ``layout``: the same at all ends. Raises LearnerError if memory is full.

        ``number``: its number among the memories that a process inherits.
        """
        self.reference = {"number": number, "layout": layout}
        self._layout = [(name, np.dtype(kind), tuple(shape)) for name, kind, shape in layout]
        size = sum(kind.itemsize * int(np.prod(shape, dtype=np.int64)) for _, kind, shape in self._layout)
        span = _HEAD + -(-size // _HEAD) * _HEAD
        memory = shared.view(_HEAD + 2 * span)
        self._head = np.frombuffer(memory, np.int64, 2)
        self._places = [memory[begin : begin + span] for begin in (_HEAD, _HEAD + span)]
        self._size = size

    @property
    def written(self) -> int:
        """Number of writes so far: if it has grown, there are newer weights."""
        return int(self._head[0])

    @property
    def opts(self) -> int:
        """Gradient steps so far, including those whose weights were not written yet."""
        return int(self._head[1])

    def tell(self, opts: int) -> None:
        """Set the number of gradient steps taken."""
        self._head[1] = opts

    def write(self, weights: Arrays, version: int, opts: int) -> None:
        """Make these the newest weights."""
        data = b"".join(np.ascontiguousarray(weights[name], kind).tobytes() for name, kind, _ in self._layout)
        following = self.written + 1
        place = self._places[following % 2]
        numbers = np.array([version, opts], np.int64).tobytes()
        checksum = zlib.crc32(data, zlib.crc32(numbers))
        place[: len(numbers)] = numbers
        place[16:24] = np.array([checksum], np.int64).tobytes()
        place[_HEAD : _HEAD + self._size] = data
        self._head[0] = following
        self.tell(max(opts, self.opts))

    def read(self) -> PolicyWeights:
        """The newest weights. Raises RuntimeError if nothing was written yet."""
        while True:
            written = self.written
            if not written:
                raise RuntimeError("no weights were written yet")
            content = bytes(self._places[written % 2])
            version, opts, checksum = np.frombuffer(content, np.int64, 3).tolist()
            data = memoryview(content)[_HEAD : _HEAD + self._size]
            if zlib.crc32(data, zlib.crc32(content[:16])) == checksum:
                return PolicyWeights(version, opts, self._arrays(data))

    def _arrays(self, data: memoryview) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {}
        begin = 0
        for name, kind, shape in self._layout:
            count = int(np.prod(shape, dtype=np.int64))
            arrays[name] = np.frombuffer(data, kind, count, begin).reshape(shape).copy()
            begin += count * kind.itemsize
        return arrays
