from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tau_trainer.training.slots import SlotTable

IDS = st.one_of(st.integers(0, 40), st.integers(2**16 - 2, 2**16 + 2), st.integers(-3, -1), st.just(2**31 - 1))


def ids(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(values, np.int32)


def test_slots_are_small_and_stay() -> None:
    table = SlotTable()
    assert table(ids(70, 3, 500)).tolist() == [0, 1, 2]
    assert table(ids(3, 70)).tolist() == [1, 0]
    assert table.capacity == 3


def test_a_released_slot_is_given_again() -> None:
    table = SlotTable()
    table(ids(1, 2, 3))
    table.release(ids(2, 99))
    assert table(ids(8)).tolist() == [1]
    assert table(ids(2)).tolist() == [3]


def test_clear_begins_at_the_first_slot() -> None:
    table = SlotTable()
    table(ids(5, 2_000_000, -1))
    table.clear()
    assert table(ids(9, 8, 7, 6)).tolist() == [0, 1, 2, 3]
    assert table.capacity == 4


def test_no_agents() -> None:
    table = SlotTable()
    assert len(table(ids())) == 0
    table.release(ids())
    assert table.capacity == 0


@settings(max_examples=50)
@given(st.lists(st.tuples(st.booleans(), st.lists(IDS, unique=True, max_size=12)), max_size=25))
def test_as_a_dictionary_with_a_free_list_would(calls: list[tuple[bool, list[int]]]) -> None:
    table = SlotTable()
    known: dict[int, int] = {}
    most = 0
    for release, agents in calls:
        array = np.array(agents, np.int64)
        if release:
            table.release(array)  # type: ignore[arg-type]
            for agent in agents:
                known.pop(agent, None)
            continue
        slots = table(array).tolist()  # type: ignore[arg-type]
        for agent, slot in zip(agents, slots, strict=True):
            assert known.setdefault(agent, slot) == slot, "an agent keeps its slot"
        assert len(set(known.values())) == len(known), "no slot has two owners"
        most = max(most, len(known))
    assert table.capacity == most, "as many slots as there were agents at once"
