"""Varints, fields and layouts: the pieces that every list of records is read with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.bridge import records
from tau_trainer.bridge.records import (
    LayoutCache,
    RecordLayout,
    Span,
    Template,
    delimited,
    fields,
    fill_floats,
    fill_varints,
    float_span,
    join_floats,
    join_varints,
    read_varint,
    split,
    varint,
    varint_spans,
    varint_width,
)
from tau_trainer.errors import DecodeError


@given(st.integers(0, 2**63 - 1), st.binary(max_size=3))
def test_varints(value: int, after: bytes) -> None:
    data = varint(value)
    assert read_varint(b"\xff" + data + after, 1) == (value, 1 + len(data))
    assert varint_width(value) == len(data)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 11])
def test_varints_that_do_not_end(data: bytes) -> None:
    with pytest.raises(DecodeError, match="varint"):
        read_varint(data, 0)


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=9), st.integers(5, 8))
def test_padded_varints_in_columns(values: list[int], width: int) -> None:
    rows = Template(bytes(width + 2)).table(len(values))
    fill_varints(rows, 1, width, np.array(values))
    assert Span(1, 1 + width).varints(rows).tolist() == values
    assert [read_varint(row.tobytes(), 1) for row in rows] == [(value, 1 + width) for value in values]
    assert not rows[:, 0].any()
    assert not rows[:, -1].any()


def test_negative_integers_are_ten_bytes_wide() -> None:
    minus_one = np.frombuffer(b"\xff" * 9 + b"\x01", np.uint8)[None]
    assert Span(0, 10).varints(minus_one).astype(np.int32).tolist() == [-1]


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=12), st.integers(0, 3))
def test_floats_at_any_alignment_are_owned_and_aligned(values: list[float], offset: int) -> None:
    rows = Template(bytes(offset + 4 * len(values))).table(1)
    fill_floats(rows, offset, np.array([values], np.float32))
    frozen = np.frombuffer(rows.tobytes(), np.uint8).reshape(rows.shape)
    found = Span(offset, rows.shape[1]).floats(frozen)
    np.testing.assert_array_equal(found, np.array([values], np.float32), strict=True)
    assert found.flags.aligned
    assert found.flags.writeable


def test_values_in_pieces_are_joined() -> None:
    rows = np.frombuffer(np.array([1.0, 2.0, 3.0, 4.0], "<f4").tobytes(), np.uint8).reshape(2, 8)
    assert join_floats([Span(4, 8), Span(0, 4)], rows).tolist() == [[2.0, 1.0], [4.0, 3.0]]
    assert join_floats([], rows).shape == (2, 0)
    wide = np.array([[0x81, 0x01, 0x05]], np.uint8)
    assert join_varints([Span(0, 2), Span(2, 3)], wide).tolist() == [[129, 5]]
    assert join_varints([], wide).shape == (1, 0)


def test_pieces_that_end_too_early() -> None:
    with pytest.raises(DecodeError, match="not a multiple of 4"):
        float_span(0, 7)
    with pytest.raises(DecodeError, match="inside one of them"):
        varint_spans(b"\x01\x80\x01", 0, 2)
    assert varint_spans(b"\x01\x80\x01", 0, 3) == [Span(0, 1), Span(1, 3)]


def test_fields_of_every_wire_type() -> None:
    data = b"\x08\x96\x01" + b"\x11" + bytes(8) + delimited(3, b"abc") + b"\x25" + bytes(4)
    assert list(fields(data, 0, len(data))) == [(1, 0, 1, 3), (2, 1, 4, 12), (3, 2, 14, 17), (4, 5, 18, 22)]


@pytest.mark.parametrize("cut", range(1, 22))
def test_fields_cut_off_anywhere(cut: int) -> None:
    data = b"\x08\x96\x01" + b"\x11" + bytes(8) + delimited(3, b"abc") + b"\x25" + bytes(4)
    if cut in (3, 12, 17):  # between two fields
        assert len(list(fields(data, 0, cut))) == (3, 12, 17).index(cut) + 1
    else:
        with pytest.raises(DecodeError):
            list(fields(data, 0, cut))


@given(st.lists(st.integers(0, 300), max_size=40))
def test_split_finds_every_record(lengths: list[int]) -> None:
    """Any order of lengths; what stands in a record looks like a record's head."""
    wanted = [bytes([0x0A]) * length for length in lengths]
    found: dict[int, bytes] = {}
    for length, index, rows in split(b"".join(delimited(1, record) for record in wanted)):
        assert rows.shape == (len(index), length)
        found.update({int(i): row.tobytes() for i, row in zip(index, rows, strict=True)})
    assert [found[i] for i in range(len(lengths))] == wanted


def test_lengths_that_are_longer_than_needed() -> None:
    """Legal, if wasteful: the length 2 in three bytes."""
    ((length, index, rows),) = split(b"\x0a\x02ab" + b"\x0a\x82\x80\x00cd")
    assert (length, index.tolist(), rows.tobytes()) == (2, [0, 1], b"abcd")


@pytest.mark.parametrize(
    ("payload", "sentence"),
    [
        (b"\x12\x00", "unknown field at byte 0"),
        (b"\x0a\x01a\x08\x01", "unknown field at byte 3"),
        (b"\x0a\x05abc", "runs past its end"),
        (b"\x0a", "varint"),
        (b"\x0a" + b"\xff" * 9 + b"\x01", "runs past its end"),
    ],
)
def test_split_refuses(payload: bytes, sentence: str) -> None:
    with pytest.raises(DecodeError, match=sentence):
        split(payload)


class _FirstByte(RecordLayout):
    """A layout that any last byte fits."""

    parsed = 0

    def __init__(self, record: bytes) -> None:
        type(self).parsed += 1
        super().__init__(record, [Span(len(record) - 1, len(record))], [])


def test_one_record_of_each_layout_is_parsed_and_once_only() -> None:
    cache: LayoutCache[_FirstByte] = LayoutCache(_FirstByte)
    _FirstByte.parsed = 0
    payload = b"".join(delimited(1, bytes([i % 3, i])) for i in range(30)) + delimited(1, b"\x00\x00\x00")
    for _ in range(3):
        groups = cache.groups(payload)
        assert sorted(int(i) for group in groups for i in group.index) == list(range(31))
        for group in groups:
            assert group.layout.matches(group.rows).all()
        assert _FirstByte.parsed == 4


def test_a_sender_whose_every_record_differs_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LayoutCache, "_MOST", 8)
    cache: LayoutCache[_FirstByte] = LayoutCache(_FirstByte)
    for i in range(50):
        (group,) = cache.groups(delimited(1, bytes([i]) * (1 + i % 5)))
        assert group.index.tolist() == [0]
        assert sum(map(len, cache._known.values())) <= 8


class _Watched(np.ndarray[tuple[int, ...], np.dtype[np.uint8]]):
    """Counts the rows that are looked at."""

    rows = 0

    def __getitem__(self, key: Any, /) -> Any:
        found = np.asarray(self)[key]
        type(self).rows += len(found) if isinstance(key, slice) else 1
        return found


@pytest.mark.parametrize("run", [1, 7, 8, 9, 20])
def test_alternating_lengths_cost_no_square(run: int, monkeypatch: pytest.MonkeyPatch) -> None:
    original = records._equal_rows
    monkeypatch.setattr(records, "_equal_rows", lambda heads: original(heads.view(_Watched)))
    _Watched.rows = 0
    lengths = [1 + i // run % 2 for i in range(1000)]
    found = split(b"".join(delimited(1, bytes([i % 256] * length)) for i, length in enumerate(lengths)))
    for length, index, rows in found:
        assert index.tolist() == [i for i in range(1000) if lengths[i] == length]
        assert rows.tolist() == [[i % 256] * length for i in index.tolist()]
    assert (run >= 8) == (_Watched.rows > 0)
    assert _Watched.rows < 10_000


def test_heads_are_compared_in_growing_windows() -> None:
    heads = np.ones((100_000, 2), np.uint8)
    assert records._equal_rows(heads) == 100_000
    for last in (1, 63, 64, 65, 511, 512, 99_999):
        heads[last] = 2
        assert records._equal_rows(heads) == last
        heads[last] = 1


def _lists(draw: st.DrawFn) -> bytes:
    """Lists of records of two lengths and three layouts, most of them of one layout."""
    record = st.sampled_from([b"\x01\x00", b"\x02\x00", b"\x01\x07", b"\x01\x00\x00"])
    records_ = draw(st.one_of(st.lists(record, max_size=5), st.lists(st.just(b"\x01\x09"), max_size=5)))
    heads = draw(st.lists(st.sampled_from([b"", b"long"]), min_size=len(records_), max_size=len(records_)))
    return b"".join(
        delimited(1, data) if not head else b"\x0a" + bytes([0x80 | len(data), 0]) + data
        for data, head in zip(records_, heads, strict=True)
    )


@given(st.lists(st.composite(_lists)(), min_size=1, max_size=6))
def test_the_short_way_finds_what_the_long_way_finds(payloads: list[bytes]) -> None:
    """After any history; where heads are longer than needed or layouts differ, there may be no short way."""
    cache: LayoutCache[_FirstByte] = LayoutCache(_FirstByte)
    for payload in payloads:
        alike = cache.alike(payload)
        groups = cache.groups(payload)
        if alike is not None:
            assert len(groups) == 1
            assert groups[0].layout is alike[0]
            np.testing.assert_array_equal(groups[0].rows, alike[1], strict=True)


def test_the_short_way_is_taken_for_lists_of_any_number_of_known_records(monkeypatch: pytest.MonkeyPatch) -> None:
    cache: LayoutCache[_FirstByte] = LayoutCache(_FirstByte)
    assert cache.alike(delimited(1, b"\x01\x00")) is None
    cache.groups(delimited(1, b"\x01\x00"))
    for n in (3, 200, 1, 50):
        alike = cache.alike(b"".join(delimited(1, bytes([1, i])) for i in range(n)))
        assert alike is not None
        assert alike[1][:, 1].tolist() == list(range(n))
    assert cache.alike(b"") is None
    assert cache.alike(delimited(1, b"\x01\x00")[:-1]) is None
    monkeypatch.setattr(records, "_MOST_AT_ONCE", 7)
    assert cache.alike(delimited(1, b"\x01\x00") * 2) is None


def test_tables_are_the_callers_own() -> None:
    template = Template(b"ab")
    table = template.table(3)
    table[:] = 0
    assert template.table(2).tobytes() == b"abab"
    assert template.table(4).tobytes() == b"abababab"
