"""Lists of protobuf records as arrays.

A list of agents arrives as ``n`` length-delimited records. Except for their values, records of agents in the same
situation are equal byte for byte: they have the same layout. So Python parses one record of each layout to find the
offsets of its values; numpy checks all others against it and reads them together. Layouts are kept for the next
exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tau_trainer.errors import DecodeError
from tau_trainer.specs import IndexArray

Bytes = NDArray[np.uint8]

LIST_TAG = 0x0A
"""Field 1, length-delimited: ``value`` of ListAgentInfoProto and ListAgentActionProto."""
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types of protobuf's encoding: VARINT, I64, LEN, I32. A tag is ``field number << 3 | wire type``."""
_ALL_BITS = 0xFF
_CONTINUATION = 0x80
_GROWTH = 8
_BY_HAND = 8
"""Number of records of equal length to find one by one before numpy searches for more."""
_MOST_AT_ONCE = 2**17
"""Maximum bytes of a list that is compared as a whole; in larger lists only bytes outside of values are."""
_PLACES = np.left_shift(np.int64(1), 7 * np.arange(10))
"""Place values of the seven-bit groups in a varint."""
_WIRE_FLOAT = np.dtype("<f4")


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The varint at ``position``, seven bits a byte, and the position after it. Raises DecodeError at the end."""
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
    """Walk the fields of a message: ``(number, wire type, start, stop)`` of each value. Raises DecodeError.

    Fields can come in any order; the caller must skip unknown ones (protobuf's encoding).
    """
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
    """Position of a value within a record: ``data[start:stop]``."""

    start: int
    stop: int

    def varints(self, rows: Bytes) -> NDArray[np.int64]:
        """Read one varint per row: int64 [k]. Values wider than 64 bits lose their top bits, as in protobuf."""
        if self.stop - self.start == 1:
            return rows[:, self.start].astype(np.int64)
        parts = rows[:, self.start : min(self.stop, self.start + _PLACES.size)] & 0x7F
        value: NDArray[np.int64] = parts.dot(_PLACES[: parts.shape[1]])
        return value

    def floats(self, rows: Bytes) -> NDArray[np.float32]:
        """Read little-endian float32 values: [k, count]; a copy, because message bytes are not aligned."""
        return self.view(rows).astype(np.float32)

    def view(self, rows: Bytes) -> NDArray[np.float32]:
        """The same without a copy, for callers that copy the values themselves."""
        return rows[:, self.start : self.stop].view(_WIRE_FLOAT)


def float_span(start: int, stop: int) -> Span:
    """Position of packed floats or a single one. Raises DecodeError for a fraction of a float."""
    if (stop - start) % 4:
        raise DecodeError(f"a list of floats is {stop - start} bytes long, which is not a multiple of 4")
    return Span(start, stop)


def varint_spans(data: bytes, start: int, stop: int) -> list[Span]:
    """Position of each varint of a repeated field, packed or not: parsers must accept both. Raises DecodeError."""
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


class RecordLayout:
    """The common part of all records of one layout: the template's bytes outside its values."""

    def __init__(self, template: bytes, values: list[Span], varints: list[Span]) -> None:
        self.length = len(template)
        mask = np.full(len(template), _ALL_BITS, np.uint8)
        for span in values:
            mask[span.start : span.stop] = 0
        for span in varints:  # same width: continuation bits belong to the layout, the rest is the value
            mask[span.start : span.stop] = _CONTINUATION
        self._columns = np.flatnonzero(mask)
        self._mask = mask[self._columns]
        self._expected = np.frombuffer(template, np.uint8)[self._columns] & self._mask
        head = varint(LIST_TAG) + varint(len(template))
        self._head = len(head)
        self._list_mask = Template(b"\xff" * len(head) + mask.tobytes())
        self._list_expected = head + (np.frombuffer(template, np.uint8) & mask).tobytes()
        self._list = b""

    def matches(self, rows: Bytes) -> NDArray[np.bool_]:
        """Which rows (uint8 [k, length]) have this layout: bool [k]."""
        found: NDArray[np.bool_] = ((rows[:, self._columns] & self._mask) == self._expected).all(axis=1)
        return found

    def whole(self, payload: bytes) -> Bytes | None:
        """The rows (uint8 [n, length]) of a list if all its records, with heads, have this layout; else None."""
        n, rest = divmod(len(payload), len(self._list_expected))
        if rest or not n:
            return None
        expected = self._list
        if len(expected) < len(payload):
            expected = self._list = self._list_expected * n
        table = np.frombuffer(payload, np.uint8).reshape(n, len(self._list_expected))
        if (table & self._list_mask.shared(n)).tobytes() != expected[: len(payload)]:
            return None
        return table[:, self._head :]


LayoutT = TypeVar("LayoutT", bound=RecordLayout)


@dataclass(slots=True)
class Group(Generic[LayoutT]):
    """Records of one layout: their positions in the message and their bytes."""

    layout: LayoutT
    index: IndexArray
    """intp [k]: position of each record in the list."""
    rows: Bytes
    """uint8 [k, length]."""


def _equal_rows(heads: Bytes) -> int:
    """Number of leading rows that equal the first. Checks growing windows, so that the total cost stays linear."""
    window = _BY_HAND * _GROWTH
    while True:
        same = (heads[:window] == heads[0]).all(axis=1)
        if not same.all():
            return int(np.argmin(same))
        if window >= len(heads):
            return len(heads)
        window *= _GROWTH


def _run(payload: bytes, position: int, header: int, stride: int) -> int:
    """Number of records from ``position`` on with the same head, and so the same length."""
    most = (len(payload) - position) // stride
    head = payload[position : position + header]
    after = position
    for run in range(1, min(most, _BY_HAND)):
        after += stride
        if payload[after : after + header] != head:
            return run
    if most <= _BY_HAND:
        return most
    return _equal_rows(np.frombuffer(payload, np.uint8, most * stride, position).reshape(most, stride)[:, :header])


def _collect(payload: bytes, length: int, runs: list[tuple[int, int, int, int]]) -> tuple[IndexArray, Bytes]:
    """Positions and bytes of the records in ``runs``; each run: first position and offset, stride, and count."""
    if len(runs) == 1:
        place, start, stride, count = runs[0]
        return np.arange(place, place + count), np.ndarray((count, length), np.uint8, payload, start, (stride, 1))
    table = np.array(runs, np.intp)
    counts = table[:, 3]
    step = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    places, starts, strides, _ = np.repeat(table, counts, axis=0).T
    windows: Bytes = np.ndarray((len(payload) - length + 1, length), np.uint8, payload, 0, (1, 1))
    return places + step, windows[starts + step * strides]


def split(payload: bytes) -> list[tuple[int, IndexArray, Bytes]]:
    """Find the records of a list: for each record length, ``(length, index [k], rows [k, length])``.

    Raises DecodeError if a record runs past the end.
    """
    by_length: dict[int, list[tuple[int, int, int, int]]] = {}
    position = place = 0
    while position < len(payload):
        if payload[position] != LIST_TAG:
            raise DecodeError(f"the engine's list of agents has an unknown field at byte {position}")
        length, start = read_varint(payload, position + 1)
        stride = start - position + length
        if start + length > len(payload):
            raise DecodeError("a record in the engine's list of agents runs past its end")
        count = _run(payload, position, start - position, stride)
        by_length.setdefault(length, []).append((place, start, stride, count))
        position += count * stride
        place += count
    return [(length, *_collect(payload, length, runs)) for length, runs in by_length.items()]


class LayoutCache(Generic[LayoutT]):
    """Sorts records by layout, parsing one record of each new layout with ``parse``."""

    _MOST = 256  # limits memory if every record differs

    def __init__(self, parse: Callable[[bytes], LayoutT]) -> None:
        self._parse = parse
        self._known: dict[int, list[LayoutT]] = {}
        self._latest: LayoutT | None = None

    def alike(self, payload: bytes) -> tuple[LayoutT, Bytes] | None:
        """Layout and rows of a list if all its records have the latest layout; else None.

        This is the case in nearly every exchange, and takes a fraction of the time of :meth:`groups`.
        """
        if self._latest is None or len(payload) > _MOST_AT_ONCE:
            return None
        rows = self._latest.whole(payload)
        return None if rows is None else (self._latest, rows)

    def groups(self, payload: bytes) -> list[Group[LayoutT]]:
        """All records of ``payload``, grouped by layout. Raises DecodeError for bytes that are not the protocol."""
        groups: list[Group[LayoutT]] = []
        for length, index, rows in split(payload):
            groups.extend(self._sort(length, index, rows))
        self._latest = groups[0].layout if len(groups) == 1 else self._latest
        return groups

    def _sort(self, length: int, index: IndexArray, rows: Bytes) -> list[Group[LayoutT]]:
        groups: list[Group[LayoutT]] = []
        known = iter(tuple(self._known.get(length, ())))
        while len(rows):
            layout = next(known, None) or self._learn(length, rows[0].tobytes())
            match = layout.matches(rows)
            if match.all():
                return [*groups, Group(layout, index, rows)]
            if match.any():
                groups.append(Group(layout, index[match], rows[match]))
                index, rows = index[~match], rows[~match]
        return groups

    def _learn(self, length: int, record: bytes) -> LayoutT:
        layout = self._parse(record)
        if sum(map(len, self._known.values())) >= self._MOST:
            self._known.clear()
        self._known.setdefault(length, []).append(layout)
        return layout


class Template:
    """A record from which tables are made: ``n`` copies, uint8 [n, length]."""

    def __init__(self, record: bytes) -> None:
        self._record = np.frombuffer(record, np.uint8)
        self._tiled: Bytes = np.zeros((0, len(record)), np.uint8)

    def shared(self, n: int) -> Bytes:
        """The copies as a read-only table."""
        tiled = self._tiled
        if len(tiled) < n:
            tiled = self._tiled = np.tile(self._record, (n, 1))
        return tiled if len(tiled) == n else tiled[:n]

    def table(self, n: int) -> Bytes:
        """The copies as a new table, to be filled with columns of values."""
        return self.shared(n).copy()


def fill_floats(rows: Bytes, start: int, values: NDArray[np.float32]) -> None:
    """Write float32 [n, count] as little-endian bytes into the columns from ``start``."""
    rows[:, start : start + 4 * values.shape[1]].view(_WIRE_FLOAT)[...] = values


def fill_varints(rows: Bytes, start: int, width: int, values: NDArray[np.integer]) -> None:
    """Write one varint per row, padded to ``width`` bytes (valid, and keeps rows equally long)."""
    if width == 1:
        rows[:, start] = values
        return
    rest = np.asarray(values).astype(np.int64)
    for column in range(width):
        byte = (rest & 0x7F).astype(np.uint8)
        rows[:, start + column] = byte | (_CONTINUATION if column < width - 1 else 0)
        rest = rest >> 7


def varint_width(largest: int) -> int:
    """Bytes of the varint of ``largest`` (>= 0)."""
    return max(1, -(-max(largest, 0).bit_length() // 7))
