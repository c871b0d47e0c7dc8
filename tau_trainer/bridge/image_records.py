"""Takes the PNG files out of lists of agents, so that what is left has equal layouts and can be read by columns.

Files differ in length from agent to agent, and with them the records. Without them records of agents in the same
situation are equal again, byte for byte, values aside.
"""

from __future__ import annotations

from typing import NamedTuple

from tau_trainer.bridge.agent_layout import COMPRESSED, OBSERVATION
from tau_trainer.bridge.records import BYTES, LIST_TAG, delimited, fields, read_varint
from tau_trainer.errors import DecodeError

_OBSERVATION_TAG = OBSERVATION << 3 | BYTES
_DATA_TAG = COMPRESSED << 3 | BYTES


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
            record, own = self._as_before(payload, start, position) or self._anew(payload, start, position)
            lean.append(delimited(1, record))
            images.append(own)
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
                delimited(OBSERVATION, data[inner : place - 1] + data[begin + size : end]),
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
            found = _files(data, first, last) if number == OBSERVATION and wire == BYTES else None
            if found is not None:
                tag, begin, end = found
                parts += [data[before:done], delimited(OBSERVATION, data[first:tag] + data[end:last])]
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
        if number == COMPRESSED and wire == BYTES:
            found = done, first, last
        done = last
    return found
