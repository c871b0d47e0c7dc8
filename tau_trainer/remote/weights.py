"""The newest weights in memory that the trainer writes and any number of actors read; nobody ever waits for anybody.

Two places take turns: the trainer writes into the one that is not the newest, then says that it is. A reader that was
so slow that its place was written again finds that by the checksum, whatever order a processor's writes become seen in,
and reads the newer one.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import Arrays
from tau_trainer.remote.channel import SharedBytes
from tau_trainer.remote.process import Layout, Weights

_HEAD = 64
"""Bytes before the two places: how often was written, and the opts so far; before each: version, opts, checksum."""


def layout_of(weights: Arrays) -> Layout:
    """How these arrays lie in memory."""
    return [(name, values.dtype.str, list(values.shape)) for name, values in weights.items()]


class WeightMemory:
    """One end of it. Fulfils Publisher and Newest (:mod:`.process`); the trainer alone writes and tells."""

    def __init__(self, shared: SharedBytes, layout: Layout, number: int = 0) -> None:
        """``shared``: used for nothing else; ``layout``: the same at all ends. Raises LearnerError without room.

        ``number``: among the memories that a process inherits.
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
        """How often weights were written: more than at the last look means that there are newer ones."""
        return int(self._head[0])

    @property
    def opts(self) -> int:
        """Gradient steps so far, of weights that nobody has seen too."""
        return int(self._head[1])

    def tell(self, opts: int) -> None:
        """So many gradient steps were taken."""
        self._head[1] = opts

    def write(self, weights: Arrays, version: int, opts: int) -> None:
        """Make these the newest."""
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

    def read(self) -> Weights:
        """The newest. Raises RuntimeError where nothing was written yet."""
        while True:
            written = self.written
            if not written:
                raise RuntimeError("no weights were written yet")
            content = bytes(self._places[written % 2])
            version, opts, checksum = np.frombuffer(content, np.int64, 3).tolist()
            data = memoryview(content)[_HEAD : _HEAD + self._size]
            if zlib.crc32(data, zlib.crc32(content[:16])) == checksum:
                return Weights(version, opts, self._arrays(data))

    def _arrays(self, data: memoryview) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {}
        begin = 0
        for name, kind, shape in self._layout:
            count = int(np.prod(shape, dtype=np.int64))
            arrays[name] = np.frombuffer(data, kind, count, begin).reshape(shape).copy()
            begin += count * kind.itemsize
        return arrays
