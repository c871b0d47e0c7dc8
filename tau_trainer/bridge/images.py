"""Images from Unity's sensors: consecutive PNG files of up to four channels each (ML-Agents' protocol, section 7).

This module reads the chunks (W3C PNG 1.2, chapter 5), so that it allocates memory only after it has checked the size
against the sensor. Pillow decodes the pixels, without holding the interpreter's lock.

The files' lengths, and so the records' lengths, differ from agent to agent. So the files are removed from lists of
agents: without them, records of agents in the same situation have the same layout and are read column by column.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tau_trainer.bridge.protocol import UNITY_WIRE
from tau_trainer.bridge.records import BYTES, delimited, fields, read_varint
from tau_trainer.errors import DecodeError

Pixels = NDArray[np.uint8]

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
CHANNELS: Final = 3
"""Channels of one file, as Unity and we write them."""
MOST_BYTES: Final = 2**28
"""Maximum bytes of one sensor's decoded images in one message: as many as a message may have."""

_CHUNK = struct.Struct(">I4s")
_HEADER = struct.Struct(">IIBBBBB")
"""Width, height, bits of a channel, color type, compression, filter, interlace."""
_MODES: Final = {0: ("L", 1), 4: ("LA", 2), 2: ("RGB", 3), 6: ("RGBA", 4)}
"""Pillow's mode and the number of channels of each 8-bit color type."""
_FAST = 1
"""zlib's level: images exist for milliseconds on one machine."""
_WORTH_THREADS = 2**17
"""Minimum bytes of PNG in one message for which threads are faster."""
_MOST_THREADS = 8


_OBSERVATION = UNITY_WIRE.agent.observation
_DATA = UNITY_WIRE.observation.compressed
_OBSERVATION_TAG = _OBSERVATION << 3 | BYTES
_DATA_TAG = _DATA << 3 | BYTES


class ImageError(Exception):
    """The error, as the end of the sentence "the sensor sent ...", and the row of its image."""

    def __init__(self, what: str, row: int = 0) -> None:
        super().__init__(what)
        self.row = row


class ImageDecoder:
    """Reads the images of one sensor.

    Args:
        shape: ``(C, H, W)``.
        mapping: the sensor's ``compressed_channel_mapping``: the target of each channel of the files. -1 drops a
            channel; channels with the same target are averaged. Empty: take the first ``C`` channels; for a sensor with
            one channel, the mean over the first file's.

    Attributes:
        filled: whether files of empty frames were missing and read as zeros. Before 4.1, com.unity.ml-agents sends only
            one file for each frame that is still empty, if a stack has several files for each frame (its bug 5790).

    Raises:
        ImageError: the mapping does not fit this shape.
    """

    def __init__(self, shape: tuple[int, ...], mapping: Sequence[int] = ()) -> None:
        self.shape = shape
        channels, self._height, self._width = shape
        self._mapped = len(mapping)
        if mapping and (min(mapping) < -1 or set(mapping) - {-1} != set(range(channels))):
            raise ImageError(f"a channel mapping {_short(mapping)}, which does not fill the {channels} of its shape")
        sources = [[i for i, target in enumerate(mapping) if target == channel] for channel in range(channels)]
        self._sources = sources if mapping else None if channels == 1 else [[i] for i in range(channels)]
        self._unpacked = max(len(mapping), channels) * self._height * self._width
        self._stacks = _stacks(mapping, channels)
        self.filled = False

    def decode(self, images: Sequence[bytes]) -> Pixels:
        """Decode ``n`` agents' files to uint8 [n, C, H, W]; averages are rounded to nearest. Raises ImageError."""
        if len(images) * self._unpacked > MOST_BYTES:
            raise ImageError(
                f"{len(images)} images of {self._unpacked:,} bytes each, more than {MOST_BYTES:,} bytes in one message"
            )
        pixels = np.empty((len(images), *self.shape), np.uint8)
        parts = _parts(images)
        if len(parts) == 1:
            self._fill(pixels, images, 0)
        else:
            list(_pool().map(lambda begin: self._fill(pixels[begin : begin + parts.step], images, begin), parts))
        return pixels

    def _fill(self, pixels: Pixels, images: Sequence[bytes], first: int) -> None:
        """Read the images from ``first`` on, as many as fit in ``pixels``."""
        for row, image in enumerate(images[first : first + len(pixels)]):
            try:
                self._arrange(self._channels(image), pixels[row])
            except ImageError as error:
                raise ImageError(str(error), first + row) from None

    def _channels(self, data: bytes) -> list[Pixels]:
        """The channels [H, W] of the files, in order; without a mapping, unneeded files are not read."""
        wanted = self._mapped or (1 if self._sources is None else self.shape[0])
        most = wanted + 1 if self._mapped else wanted
        images: list[Pixels] = []
        channels: list[Pixels] = []
        position = 0
        while position >= 0 and len(channels) < most:
            image, end = read_png(data, position, self._height, self._width)
            images.append(image)
            channels += [image[:, :, k] for k in range(image.shape[2])]
            position = data.find(SIGNATURE, end)
        if len(channels) < wanted and (empty := self._empty_frames(images, wanted)):
            self.filled = True
            channels = [np.zeros_like(channels[0])] * (wanted - len(channels) + CHANNELS * empty) + channels[
                CHANNELS * empty :
            ]
        if len(channels) < wanted or (self._mapped and len(channels) > wanted):
            by = "channel mapping" if self._mapped else "shape"
            raise ImageError(f"PNG files of {len(channels)} channels, but its {by} has {wanted}")
        return channels

    def _empty_frames(self, images: list[Pixels], wanted: int) -> int:
        """Number of empty (oldest) frames whose files except the first are missing; 0: the cause is another one.

        The files of empty frames are all equal and have a single color.
        """
        if any(image.shape[2] != CHANNELS for image in images):
            return 0
        missing = wanted // CHANNELS - len(images)
        for frames, files in self._stacks:
            empty, rest = divmod(missing, files - 1)
            if not rest and empty < frames and all((image == images[0][0, 0]).all() for image in images[:empty]):
                return empty
        return 0

    def _arrange(self, channels: list[Pixels], out: Pixels) -> None:
        """Write the files' channels to their targets."""
        for target, sources in zip(out, self._sources or [list(range(len(channels)))], strict=True):
            if len(sources) == 1:
                target[...] = channels[sources[0]]
                continue
            total = np.full(target.shape, len(sources) // 2, np.uint32)
            for source in sources:
                total += channels[source]
            target[...] = total // np.uint32(len(sources))


def _stacks(mapping: Sequence[int], channels: int) -> list[tuple[int, int]]:
    """Possible stacks for a mapping, most frames first: the number of frames, and the files of each, at least two.

    In com.unity.ml-agents (``StackingSensor.ConstructStackedCompressedChannelMapping``), each frame's mapping is the
    first one's, shifted by a frame's channels.
    """
    found = []
    for frames in range(channels, 1, -1):
        files, rest = divmod(len(mapping), CHANNELS * frames)
        if rest or files < 2 or channels % frames:
            continue
        first, each = mapping[: CHANNELS * files], channels // frames
        if list(mapping) == [i if i < 0 else i + frame * each for frame in range(frames) for i in first]:
            found.append((frames, files))
    return found


def read_png(data: bytes, position: int, height: int, width: int) -> tuple[Pixels, int]:
    """The PNG file at ``position``, uint8 [H, W, k], and its end position. Raises ImageError."""
    if not data.startswith(SIGNATURE, position):
        raise ImageError("bytes that are not a PNG file")
    position += len(SIGNATURE)
    head: tuple[int, ...] | None = None
    parts = []
    kind = b""
    while kind != b"IEND":
        if position + _CHUNK.size > len(data):
            raise ImageError("a PNG file that is cut short")
        length, kind = _CHUNK.unpack_from(data, position)
        begin = position + _CHUNK.size
        end = begin + length
        if end + 4 > len(data):
            raise ImageError("a PNG file that is cut short")
        if zlib.crc32(data[position + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            raise ImageError("a damaged PNG file")
        if head is None:
            if kind != b"IHDR" or length != _HEADER.size:
                raise ImageError("a PNG file without a header")
            head = _HEADER.unpack_from(data, begin)
        elif kind == b"IDAT":
            parts.append(data[begin:end])
        position = end + 4
    assert head is not None
    return _unpack(head, parts[0] if len(parts) == 1 else b"".join(parts), height, width), position


def _unpack(head: tuple[int, ...], data: bytes, height: int, width: int) -> Pixels:
    found = head[1], head[0]
    if found != (height, width):
        raise ImageError(f"a PNG file of {found[1]} x {found[0]} pixels, but its shape is {width} x {height}")
    bits, colour, *methods, interlaced = head[2:]
    if bits != 8 or colour not in _MODES or any(methods) or interlaced > 1:
        raise ImageError(f"a PNG file of color type {colour} with {bits} bits, not 8-bit gray, RGB or RGBA")
    from PIL import Image  # importing takes 10 ms, so only games with images do it

    mode, channels = _MODES[colour]
    try:
        image = Image.frombytes(mode, (width, height), data, "zip", mode, interlaced)
    except (ValueError, OSError, SyntaxError) as error:
        raise ImageError("a damaged PNG file") from error
    return np.frombuffer(image.tobytes(), np.uint8).reshape(height, width, channels)


def write_pngs(images: Pixels) -> list[bytes]:
    """The consecutive PNG files of each image [n, C, H, W]: RGB, missing channels black; gray if ``C`` is 1."""
    n, channels, height, width = images.shape
    lines = np.zeros((n, -(-channels // CHANNELS), height, 1 + width * CHANNELS), np.uint8)  # first the filter: none
    for channel in range(CHANNELS if channels == 1 else channels):
        file, place = divmod(channel, CHANNELS)
        lines[:, file, :, 1 + place :: CHANNELS] = images[:, 0 if channels == 1 else channel]
    head = SIGNATURE + _chunk(b"IHDR", _HEADER.pack(width, height, 8, 2, 0, 0, 0))
    end = _chunk(b"IEND", b"")
    return [b"".join(head + _chunk(b"IDAT", zlib.compress(file, _FAST)) + end for file in agent) for agent in lines]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return _CHUNK.pack(len(data), kind) + data + zlib.crc32(data, zlib.crc32(kind)).to_bytes(4, "big")


def _parts(images: Sequence[bytes]) -> range:
    """Start of each thread's images; the step is their number."""
    threads = min(_MOST_THREADS, _cores()) if sum(map(len, images)) >= _WORTH_THREADS else 1
    return range(0, max(len(images), 1), max(1, -(-len(images) // threads)))


@cache
def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_MOST_THREADS, "tau-images")


def _short(values: Sequence[Any]) -> str:
    return str(list(values)) if len(values) <= 12 else f"{list(values[:12])[:-1]}, ... of {len(values)}"


class _Cut(NamedTuple):
    """Position of one sensor's files, from the end of the previous sensor or from the record's start."""

    before: int
    """Bytes up to the length of the sensor, including its tag."""
    head: int
    """Bytes of the sensor before its files' length, including their tag."""
    tail: int
    """Bytes of the sensor after its files."""


class ImageSplitter:
    """Removes files from records. Remembers their positions, because the next record usually has the same ones."""

    def __init__(self) -> None:
        self._cuts: list[_Cut] = []
        self._rest = 0
        """Bytes after the last sensor with files."""

    def split(self, payload: bytes) -> tuple[bytes, list[list[bytes]]]:
        """The list without its files, and each record's files, one entry for every sensor that has some.

        Raises DecodeError if the bytes are not a list of records.
        """
        lean, images, position = [], [], 0
        for number, wire, start, stop in fields(payload, 0, len(payload)):
            if number != 1 or wire != BYTES:
                raise DecodeError(f"the engine's list of agents has an unknown field at byte {position}")
            position = stop
            record, files = self._as_before(payload, start, stop) or self._anew(payload, start, stop)
            lean.append(delimited(1, record))
            images.append(files)
        return b"".join(lean), images

    def _as_before(self, data: bytes, start: int, stop: int) -> tuple[bytes, list[bytes]] | None:
        """Split a record at the same positions as the last one; None if that is not possible.

        A wrong guess that fits by chance is harmless: the rest of the record is still checked against a layout.
        """
        if not self._cuts:
            return None
        parts, images = [], []
        for before, head, tail in self._cuts:
            place = start + before
            if place >= stop or data[place - 1] != _OBSERVATION_TAG:
                return None
            length, inner = read_varint(data, place)
            place = inner + head
            if place >= stop or data[place - 1] != _DATA_TAG:
                return None
            size, begin = read_varint(data, place)
            end = begin + size + tail
            if end != inner + length or end > stop:
                return None
            parts += [
                data[start : start + before - 1],
                delimited(_OBSERVATION, data[inner : place - 1] + data[begin + size : end]),
            ]
            images.append(data[begin : begin + size])
            start = end
        if stop - start != self._rest:
            return None
        parts.append(data[start:stop])
        return b"".join(parts), images

    def _anew(self, data: bytes, start: int, stop: int) -> tuple[bytes, list[bytes]]:
        """Split a record by reading its fields; stores the positions."""
        parts, images, cuts, before, done = [], [], [], start, start
        for number, wire, first, last in fields(data, start, stop):
            found = _files(data, first, last) if number == _OBSERVATION and wire == BYTES else None
            if found is not None:
                tag, begin, end = found
                parts += [data[before:done], delimited(_OBSERVATION, data[first:tag] + data[end:last])]
                images.append(data[begin:end])
                cuts.append(_Cut(done + 1 - before, tag + 1 - first, last - end))
                before = last
            done = last
        parts.append(data[before:stop])
        self._cuts, self._rest = cuts, stop - before
        return b"".join(parts), images


def _files(data: bytes, start: int, stop: int) -> tuple[int, int, int] | None:
    """Position of a sensor's files: their tag, start and end; None if it has none. If repeated, the last counts."""
    found, done = None, start
    for number, wire, first, last in fields(data, start, stop):
        if number == _DATA and wire == BYTES:
            found = done, first, last
        done = last
    return found
