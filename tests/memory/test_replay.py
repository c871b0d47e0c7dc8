from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.columns import Column
from tau_trainer.memory import Replay

COLUMNS = (Column("vector", (2,)), Column("image", (2, 1, 3), np.uint8), Column("ended", (), np.bool_))

sizes = st.lists(st.integers(0, 9), max_size=12)


def rows(first: int, count: int) -> dict[str, Any]:
    """Rows that can be told apart by every column."""
    number = np.arange(first, first + count)
    return {
        "vector": np.stack([number, -number], axis=1).astype(np.float32),
        "image": np.broadcast_to((number % 251).astype(np.uint8)[:, None, None, None], (count, 2, 1, 3)),
        "ended": number % 3 == 0,
    }


def held(replay: Replay) -> dict[str, Any]:
    """Everything, in order of age."""
    taken = replay.take(np.arange(len(replay)))
    order = np.argsort(taken["vector"][:, 0])
    return {name: values[order] for name, values in taken.items()}


def assert_holds(replay: Replay, numbers: list[int]) -> None:
    found = held(replay)
    assert len(replay) == len(numbers)
    for name, values in rows(0, 1).items():
        expected = [rows(number, 1)[name][0] for number in numbers]
        assert found[name].dtype == values.dtype
        np.testing.assert_array_equal(found[name], np.array(expected, values.dtype).reshape(found[name].shape))


@given(st.integers(1, 12), sizes)
def test_it_holds_the_newest(capacity: int, counts: list[int]) -> None:
    replay, newest, first = Replay(COLUMNS, capacity), list[int](), 0
    for count in counts:
        replay.append(rows(first, count))
        newest = [*newest, *range(first, first + count)][-capacity:]
        first += count
        assert_holds(replay, newest)
        recent = replay.take(replay.recent(3))["vector"][:, 0].tolist()
        assert recent == newest[::-1][:3]


@given(st.integers(1, 12), sizes, st.integers(0, 20))
def test_rows_can_be_taken_out_again(capacity: int, counts: list[int], more: int) -> None:
    replay, first = filled(capacity, counts)
    before = replay.take(np.arange(len(replay))), replay.state()[1]
    replay.append(rows(first, more))()
    assert replay.state()[1] == before[1]
    np.testing.assert_equal(replay.state()[0], before[0])


def filled(capacity: int, counts: list[int]) -> tuple[Replay, int]:
    """A ring with so many rows after so many, and the number of the next one."""
    replay, first = Replay(COLUMNS, capacity), 0
    for count in counts:
        replay.append(rows(first, count))
        first += count
    return replay, first


@given(st.integers(1, 12), sizes, sizes)
def test_a_ring_that_was_read_back_goes_on_the_same(capacity: int, counts: list[int], later: list[int]) -> None:
    (replay, first), other = filled(capacity, counts), Replay(COLUMNS, capacity)
    arrays, following = replay.state()
    other.load({name: values.copy() for name, values in arrays.items()}, following)
    for count in later:
        for one in (replay, other):
            one.append(rows(first, count))
        first += count
    places = np.arange(len(replay))
    np.testing.assert_equal(replay.take(places), other.take(places))
    assert other.state()[1] == replay.state()[1]


def test_what_is_taken_is_a_copy_and_bytes_stay_bytes() -> None:
    replay = Replay(COLUMNS, 5)
    replay.append(rows(0, 3))
    taken = replay.take(np.array([1, 1, 2]))
    assert taken["image"].dtype == np.uint8
    assert taken["image"].shape == (3, 2, 1, 3)
    taken["vector"][:] = 9.0
    assert_holds(replay, [0, 1, 2])


@pytest.mark.parametrize(
    ("change", "following", "said"),
    [
        ({"vector": np.zeros((3, 4), np.float32)}, 3, r"\['vector'\] do not fit"),
        ({"image": None}, 3, r"\['image'\] do not fit"),
        ({"ended": np.zeros(2, np.bool_)}, 3, "rows do not fit together"),
        ({}, 2, "rows do not fit"),
    ],
)
def test_what_does_not_fit_changes_nothing(change: dict[str, Any], following: int, said: str) -> None:
    replay = Replay(COLUMNS, 5)
    replay.append(rows(7, 2))
    arrays = {name: values for name, values in ({**rows(0, 3), **change}).items() if values is not None}
    with pytest.raises(ValueError, match=said):
        replay.load(arrays, following)
    assert_holds(replay, [7, 8])


def test_a_place_outside_a_full_ring_is_refused() -> None:
    for following in (-1, 5):
        with pytest.raises(ValueError, match="rows do not fit"):
            Replay(COLUMNS, 5).load(rows(0, 5), following)


def test_cleared() -> None:
    replay = Replay(COLUMNS, 5)
    replay.append(rows(0, 4))
    replay.clear()
    replay.append(rows(4, 2))
    assert_holds(replay, [4, 5])
