"""Lists of protobuf records as arrays: the engine room of the codec.

A list of agents arrives as ``n`` length-delimited records. Records of agents in the same situation have the same
layout byte for byte, values aside. So one record of each layout is parsed in Python, giving the offsets of its
values; all others of that layout are checked against it and read with numpy, whatever their number. A layout is
remembered for the next exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tau_trainer.errors import DecodeError

Bytes = NDArray[np.uint8]
Index = NDArray[np.intp]

_LIST_TAG = 0x0A  # field 1, length-delimited: `value` of ListAgentInfoProto and ListAgentActionProto
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""
_ALL_BITS = 0xFF
_CONTINUATION = 0x80
_GROWTH = 8


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a varint at ``position``; return its value and the position after it. Raises DecodeError at the end."""
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise DecodeError("a varint in the engine's message runs past its end")
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
        shift += 7


def varint(value: int) -> bytes:
    """Encode a non-negative integer as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def delimited(field: int, payload: bytes) -> bytes:
    """A length-delimited field: tag, length, payload."""
    return varint(field << 3 | BYTES) + varint(len(payload)) + payload


def fields(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Walk the fields of a message: ``(number, wire type, start, stop)`` of each value. Raises DecodeError."""
    position = start
    while position < stop:
        tag, position = read_varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            _, end = read_varint(data, position)
        elif wire == BYTES:
            length, position = read_varint(data, position)
            end = position + length
        elif wire in (FIXED32, FIXED64):
            end = position + (4 if wire == FIXED32 else 8)
        else:
            raise DecodeError(f"an agent's record has a field of unknown wire type {wire}")
        if end > stop or number == 0:
            raise DecodeError("a field of an agent's record runs past its end")
        yield number, wire, position, end
        position = end


@dataclass(slots=True)
class Span:
    """Where a value lies within a record: ``data[start:stop]``."""

    start: int
    stop: int

    def varints(self, rows: Bytes) -> NDArray[np.int64]:
        """Read one varint a row: int64 [k]. Values wider than 64 bits lose their top, as in protobuf."""
        result = np.zeros(len(rows), np.int64)
        for shift, column in enumerate(range(self.start, min(self.stop, self.start + 10))):
            result |= (rows[:, column] & 0x7F).astype(np.int64) << np.int64(7 * shift)
        return result

    def floats(self, rows: Bytes) -> NDArray[np.float32]:
        """Read little-endian float32 values: [k, count]; a copy, since bytes of a message lie at any alignment."""
        values: NDArray[np.float32] = rows[:, self.start : self.stop].copy().view("<f4")
        return values.astype(np.float32, copy=False)


def float_span(start: int, stop: int) -> Span:
    """Where floats lie, packed or a single one. Raises DecodeError for a fraction of a float."""
    if (stop - start) % 4:
        raise DecodeError(f"a list of floats is {stop - start} bytes long, which is no multiple of 4")
    return Span(start, stop)


def varint_spans(data: bytes, start: int, stop: int) -> list[Span]:
    """Where each varint of a repeated field lies, packed or a single one. Raises DecodeError."""
    spans = []
    while start < stop:
        _, end = read_varint(data, start)
        if end > stop:
            raise DecodeError("a list of integers ends inside one of them")
        spans.append(Span(start, end))
        start = end
    return spans


def join_floats(spans: list[Span], rows: Bytes) -> NDArray[np.float32]:
    """Floats of all ``spans`` side by side: [k, count]. A sender that does not pack has one span for each."""
    if len(spans) == 1:
        return spans[0].floats(rows)
    return np.concatenate([np.zeros((len(rows), 0), np.float32), *(span.floats(rows) for span in spans)], axis=1)


def join_varints(spans: list[Span], rows: Bytes) -> NDArray[np.int64]:
    """Values of all ``spans`` side by side: int64 [k, count]."""
    if all(span.stop - span.start == 1 for span in spans):
        columns = np.array([span.start for span in spans], np.intp)
        return rows[:, columns].astype(np.int64)
    return np.stack([span.varints(rows) for span in spans], axis=1)


class Shape:
    """What every record of one layout has in common: the template's bytes outside its values."""

    def __init__(self, template: bytes, values: list[Span], varints: list[Span]) -> None:
        self.length = len(template)
        mask = np.full(len(template), _ALL_BITS, np.uint8)
        for span in values:
            mask[span.start : span.stop] = 0
        for span in varints:  # same width: the continuation bits are structure, the rest is value
            mask[span.start : span.stop] = _CONTINUATION
        self._columns = np.flatnonzero(mask)
        self._mask = mask[self._columns]
        self._expected = np.frombuffer(template, np.uint8)[self._columns] & self._mask

    def matches(self, rows: Bytes) -> NDArray[np.bool_]:
        """Which rows (uint8 [k, length]) have this layout: bool [k]."""
        found: NDArray[np.bool_] = ((rows[:, self._columns] & self._mask) == self._expected).all(axis=1)
        return found


LayoutT = TypeVar("LayoutT", bound=Shape)


@dataclass(slots=True)
class Group(Generic[LayoutT]):
    """Records of one layout: their places in the message and their bytes."""

    layout: LayoutT
    index: Index
    """intp [k]: position of each record in the list."""
    rows: Bytes
    """uint8 [k, length]."""


def _equal_rows(heads: Bytes, window: int) -> int:
    """How many rows from the first on are equal to it.

    Looks at ``window`` rows, then at more and more: where lengths alternate, looking at all of them for each run would
    cost the square of their number.
    """
    while True:
        same = (heads[:window] == heads[0]).all(axis=1)
        if not same.all():
            return int(np.argmin(same))
        if window >= len(heads):
            return len(heads)
        window *= _GROWTH


def split(payload: bytes) -> list[tuple[int, Index, Bytes]]:
    """Find the records of a list: for each record length, ``(length, index [k], rows [k, length])``.

    Runs of equal length are found by comparing their heads all at once. Raises DecodeError where a record runs past
    the end.
    """
    data = np.frombuffer(payload, np.uint8)
    by_length: dict[int, list[tuple[Index, Bytes]]] = {}
    position = count = 0
    window = len(payload)
    while position < len(payload):
        if payload[position] != _LIST_TAG:
            raise DecodeError(f"the engine's list of agents has an unknown field at byte {position}")
        length, start = read_varint(payload, position + 1)
        header = start - position
        stride = header + length
        if start + length > len(payload):
            raise DecodeError("a record in the engine's list of agents runs past its end")
        most = (len(payload) - position) // stride
        table = data[position : position + most * stride].reshape(most, stride)
        run = _equal_rows(table[:, :header], window)
        window = _GROWTH * run
        by_length.setdefault(length, []).append((np.arange(count, count + run), table[:run, header:]))
        position += run * stride
        count += run
    return [
        (length, parts[0][0], parts[0][1])
        if len(parts) == 1
        else (length, np.concatenate([index for index, _ in parts]), np.concatenate([rows for _, rows in parts]))
        for length, parts in by_length.items()
    ]


class LayoutCache(Generic[LayoutT]):
    """Sorts records by layout, parsing one record of each new layout with ``parse``."""

    _MOST = 256  # a sender whose every record differs must not fill the memory

    def __init__(self, parse: Callable[[bytes], LayoutT]) -> None:
        self._parse = parse
        self._known: dict[int, list[LayoutT]] = {}
        self._count = 0

    def groups(self, payload: bytes) -> list[Group[LayoutT]]:
        """All records of ``payload``, grouped by layout. Raises DecodeError for bytes that are not the protocol."""
        groups: list[Group[LayoutT]] = []
        for length, index, rows in split(payload):
            groups.extend(self._sort(length, index, rows))
        return groups

    def _sort(self, length: int, index: Index, rows: Bytes) -> list[Group[LayoutT]]:
        groups: list[Group[LayoutT]] = []
        for layout in self._known.get(length, ()):
            match = layout.matches(rows)
            if match.all():
                groups.append(Group(layout, index, rows))
                return groups
            if match.any():
                groups.append(Group(layout, index[match], rows[match]))
                index, rows = index[~match], rows[~match]
        while len(rows):
            layout = self._learn(length, rows[0].tobytes())
            match = layout.matches(rows)
            groups.append(Group(layout, index[match], rows[match]))
            index, rows = index[~match], rows[~match]
        return groups

    def _learn(self, length: int, record: bytes) -> LayoutT:
        layout = self._parse(record)
        if self._count >= self._MOST:
            self._known.clear()
            self._count = 0
        self._known.setdefault(length, []).append(layout)
        self._count += 1
        return layout


def tile(template: bytes, n: int) -> Bytes:
    """``n`` copies of a record as a writable uint8 [n, length] table, for filling in columns of values."""
    return np.tile(np.frombuffer(template, np.uint8), (n, 1))


def fill_floats(rows: Bytes, start: int, values: NDArray[np.float32]) -> None:
    """Write float32 [n, count] as little-endian bytes into the columns from ``start``."""
    data = np.ascontiguousarray(values, dtype="<f4").view(np.uint8)
    rows[:, start : start + data.shape[1]] = data


def fill_varints(rows: Bytes, start: int, width: int, values: NDArray[np.integer]) -> None:
    """Write one varint a row, padded to ``width`` bytes (longer than minimal is legal and keeps rows equal)."""
    rest = np.asarray(values).astype(np.int64)
    for column in range(width):
        byte = (rest & 0x7F).astype(np.uint8)
        rows[:, start + column] = byte | (_CONTINUATION if column < width - 1 else 0)
        rest = rest >> 7


def varint_width(largest: int) -> int:
    """Bytes of the varint of ``largest`` (>= 0)."""
    return max(1, -(-max(largest, 0).bit_length() // 7))
