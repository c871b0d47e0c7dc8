from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.columns import Column, ColumnTable, action_columns, observation_columns
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec

NUMBER, PAIR = Column("number", (), np.int64, fill=-1), Column("pair", (2,))
FLAG = Column("flag", (3,), np.bool_, fill=True)

_rows = st.lists(st.integers(0, 60), unique=True, max_size=6)
_operation: st.SearchStrategy[tuple[str, list[int]]] = st.one_of(
    st.tuples(st.just("write"), _rows),
    st.tuples(st.just("clear"), _rows),
    st.tuples(st.just("clear all"), st.just([])),
    st.tuples(st.just("reserve"), st.lists(st.integers(0, 80), min_size=1, max_size=1)),
)


def apply(table: ColumnTable, kind: str, rows: list[int], number: int) -> None:
    index = np.array(rows, np.int64)
    if kind == "reserve":
        table.reserve(rows[0])
    elif kind == "clear all":
        table.clear()
    elif kind == "clear":
        table.clear(index)
    else:
        table.fit(index)
        table["number"][index], table["flag"][index] = number, False
        table["pair"][index] = (number, -number)


@given(st.lists(_operation, max_size=15), st.integers(0, 5))
def test_a_table_holds_what_was_written_and_fill_elsewhere(operations: list[Any], room: int) -> None:
    table, known = ColumnTable((NUMBER, PAIR, FLAG), room), dict[int, int]()
    for number, (kind, rows) in enumerate(operations, start=1):
        before = len(table)
        apply(table, kind, rows, number)
        assert len(table) == before or len(table) >= 2 * before
        if kind == "clear all":
            known.clear()
        for row in rows if kind in ("write", "clear") else ():
            assert row < len(table)
            known[row] = number if kind == "write" else -1
        expected = np.array([known.get(row, -1) for row in range(len(table))], np.int64)
        written = expected > 0
        np.testing.assert_array_equal(table["number"], expected)
        np.testing.assert_array_equal(table["pair"], np.where(written, expected, 0)[:, None] * [1, -1])
        np.testing.assert_array_equal(table["flag"], np.repeat(~written[:, None], 3, axis=1))


def test_growing_row_by_row_is_cheap() -> None:
    table, sizes = ColumnTable((NUMBER,)), set[int]()
    for row in range(1000):
        table.fit(np.array([row]))
        sizes.add(len(table))
    assert len(sizes) <= 11
    array = table["number"]
    table.reserve(len(table))
    table.fit(np.array([len(table) - 1, 3]))
    table.fit(np.zeros(0, np.int64))
    assert table["number"] is array, "nothing moves while there is room"


def test_columns_of_a_behavior_keep_the_sensors_dtypes() -> None:
    sensors = (ObservationSpec("state", (4,)), ObservationSpec("camera", (3, 8, 8), dtype=np.uint8))
    spec = BehaviorSpec("Walker", sensors, ActionSpec(2, (3, 4)))
    columns = (*observation_columns(spec), *action_columns(spec, spec.actions))
    assert [(column.name, column.shape, np.dtype(column.dtype).name) for column in columns] == [
        ("obs_0", (4,), "float32"),
        ("obs_1", (3, 8, 8), "uint8"),
        ("continuous", (2,), "float32"),
        ("discrete", (2,), "int32"),
        ("mask", (7,), "bool"),
    ]
    assert all(not column.empty(2).any() and column.empty(2).dtype == column.dtype for column in columns)
