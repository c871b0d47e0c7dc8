"""Images as sensors send them: PNG files back to back, of up to four channels each (ML-Agents' protocol, section 7).

Chunks are walked here (W3C PNG 1.2, chapter 5), so that nothing is made room for before the size is known to be the
sensor's; pixels are unpacked by Pillow's decoder, which does not hold the interpreter's lock.

Files differ in length from agent to agent, and with them the records. So they are taken out of lists of agents:
without them records of agents in the same situation are equal, byte for byte, values aside, and read by columns.
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

from tau_trainer.bridge.protocol import AgentInfo, Observation
from tau_trainer.bridge.records import BYTES, LIST_TAG, delimited, fields, read_varint
from tau_trainer.errors import DecodeError

Pixels = NDArray[np.uint8]

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
CHANNELS: Final = 3
"""Of one file, as Unity and we write them."""
MOST_BYTES: Final = 2**28
"""Bytes that the images of one sensor may unpack to in one message: as many as a message may have."""

_CHUNK = struct.Struct(">I4s")
_HEADER = struct.Struct(">IIBBBBB")
"""Width, height, bits of a channel, colour type, compression, filter, interlace."""
_MODES: Final = {0: ("L", 1), 4: ("LA", 2), 2: ("RGB", 3), 6: ("RGBA", 4)}
"""Pillow's name and the number of channels of each colour type of 8 bits."""
_FAST = 1
"""zlib's level: images live for milliseconds on one machine."""
_WORTH_THREADS = 2**17
"""Bytes of PNG in one message from which on threads are faster."""
_MOST_THREADS = 8


_OBSERVATION_TAG = AgentInfo.OBSERVATION << 3 | BYTES
_DATA_TAG = Observation.COMPRESSED << 3 | BYTES


class ImageError(Exception):
    """What is wrong, as the end of the sentence "the sensor sent ...", and whose image it is."""

    def __init__(self, what: str, row: int = 0) -> None:
        super().__init__(what)
        self.row = row


class ImageDecoder:
    """Reads the images of one sensor.

    Args:
        shape: ``(C, H, W)``.
        mapping: the sensor's ``compressed_channel_mapping``: where each channel of the files goes. -1 drops it, and
            those with the same number are averaged. Empty: the first ``C`` are taken as they come; of a sensor with
            one channel, the mean over the first file's.

    Attributes:
        filled: whether files of empty frames were missing, and read as zeros. A stack of frames of several files each
            comes so before com.unity.ml-agents 4.1 (its defect 5790): of a frame that is still empty it sends one file.

    Raises:
        ImageError: the mapping is none for this shape.
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
        """uint8 [n, C, H, W] of the files of ``n`` agents. Averages are rounded to nearest. Raises ImageError."""
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
        """Read the images from ``first`` on, as many as there is room for."""
        for row, image in enumerate(images[first : first + len(pixels)]):
            try:
                self._arrange(self._channels(image), pixels[row])
            except ImageError as error:
                raise ImageError(str(error), first + row) from None

    def _channels(self, data: bytes) -> list[Pixels]:
        """The channels [H, W] of the files, in order; without a mapping no more files than needed are looked at."""
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
            raise ImageError(f"PNG files of {len(channels)} channels where its {by} speaks of {wanted}")
        return channels

    def _empty_frames(self, images: list[Pixels], wanted: int) -> int:
        """How many frames are empty, the oldest, of which all files but the first are missing; 0: something else is.

        Those that were sent are one file again and again, all of one colour.
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
        """Write what the files' channels mean."""
        for target, sources in zip(out, self._sources or [list(range(len(channels)))], strict=True):
            if len(sources) == 1:
                target[...] = channels[sources[0]]
                continue
            total = np.full(target.shape, len(sources) // 2, np.uint32)
            for source in sources:
                total += channels[source]
            target[...] = total // np.uint32(len(sources))


def _stacks(mapping: Sequence[int], channels: int) -> list[tuple[int, int]]:
    """What stacks a mapping may be of, most frames first: how many frames, and the files of each, two at least.

    As ``StackingSensor.ConstructStackedCompressedChannelMapping`` of com.unity.ml-agents makes it, each frame's mapping
    is the first's, further on by a frame's channels.
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
    """The PNG file at ``position``, uint8 [H, W, k], and where it ends. Raises ImageError."""
    if not data.startswith(SIGNATURE, position):
        raise ImageError("bytes that are no PNG file")
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
        raise ImageError(f"a PNG file of {found[1]} x {found[0]} pixels where its shape says {width} x {height}")
    bits, colour, *methods, interlaced = head[2:]
    if bits != 8 or colour not in _MODES or any(methods) or interlaced > 1:
        raise ImageError(f"a PNG file of colour type {colour} with {bits} bits, not of 8-bit grey, RGB or RGBA")
    from PIL import Image  # a hundredth of a second that only those with images spend

    mode, channels = _MODES[colour]
    try:
        image = Image.frombytes(mode, (width, height), data, "zip", mode, interlaced)
    except (ValueError, OSError, SyntaxError) as error:
        raise ImageError("a damaged PNG file") from error
    return np.frombuffer(image.tobytes(), np.uint8).reshape(height, width, channels)


def write_pngs(images: Pixels) -> list[bytes]:
    """The PNG files of each of [n, C, H, W], back to back: RGB, missing channels black; grey where ``C`` is 1."""
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
    """Where each thread's images begin; the step is how many there are."""
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
    """Where one sensor's files lie, counted from the end of the sensor before, or from the record's begin."""

    before: int
    """Bytes up to the length of the sensor, its tag included."""
    head: int
    """Bytes of the sensor before its files' length, their tag included."""
    tail: int
    """Bytes of the sensor after its files."""


class ImageSplitter:
    """Takes files out. Remembers where they were in the last record, for the next is most often cut alike."""

    def __init__(self) -> None:
        self._cuts: list[_Cut] = []
        self._rest = 0
        """Bytes after the last sensor with files."""

    def split(self, payload: bytes) -> tuple[bytes, list[list[bytes]]]:
        """The list without its files, and each record's files, one entry for every sensor that has some.

        Raises DecodeError for bytes that are no list of records.
        """
        lean, images, position = [], [], 0
        while position < len(payload):
            if payload[position] != LIST_TAG:
                raise DecodeError(f"the engine's list of agents has an unknown field at byte {position}")
            length, start = read_varint(payload, position + 1)
            position = start + length
            if position > len(payload):
                raise DecodeError("a record in the engine's list of agents runs past its end")
            record, files = self._as_before(payload, start, position) or self._anew(payload, start, position)
            lean.append(delimited(1, record))
            images.append(files)
        return b"".join(lean), images

    def _as_before(self, data: bytes, start: int, stop: int) -> tuple[bytes, list[bytes]] | None:
        """A record that is cut where the one before was; None where that cannot be.

        A wrong guess that fits by chance is no danger: what is left is still checked against a layout.
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
                delimited(AgentInfo.OBSERVATION, data[inner : place - 1] + data[begin + size : end]),
            ]
            images.append(data[begin : begin + size])
            start = end
        if stop - start != self._rest:
            return None
        parts.append(data[start:stop])
        return b"".join(parts), images

    def _anew(self, data: bytes, start: int, stop: int) -> tuple[bytes, list[bytes]]:
        """Walk a record's fields; sets where to cut."""
        parts, images, cuts, before, done = [], [], [], start, start
        for number, wire, first, last in fields(data, start, stop):
            found = _files(data, first, last) if number == AgentInfo.OBSERVATION and wire == BYTES else None
            if found is not None:
                tag, begin, end = found
                parts += [data[before:done], delimited(AgentInfo.OBSERVATION, data[first:tag] + data[end:last])]
                images.append(data[begin:end])
                cuts.append(_Cut(done + 1 - before, tag + 1 - first, last - end))
                before = last
            done = last
        parts.append(data[before:stop])
        self._cuts, self._rest = cuts, stop - before
        return b"".join(parts), images


def _files(data: bytes, start: int, stop: int) -> tuple[int, int, int] | None:
    """Where a sensor's files lie: their tag, begin and end; None without any. Of several fields the last counts."""
    found, done = None, start
    for number, wire, first, last in fields(data, start, stop):
        if number == Observation.COMPRESSED and wire == BYTES:
            found = done, first, last
        done = last
    return found
