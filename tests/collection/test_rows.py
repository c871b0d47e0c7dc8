from __future__ import annotations

import itertools

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tau_trainer.collection.rows import RowTable
from tau_trainer.columns import Rows

IDS = st.one_of(st.integers(0, 40), st.integers(2**16 - 2, 2**16 + 2), st.integers(-3, -1), st.just(2**31 - 1))


def ids(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(values, np.int32)


def new_rows(first: int = 0) -> RowTable:
    """A table that is given ``first``, ``first + 1``, ... by a learner that nobody else asks."""
    free = itertools.count(first)

    def give(count: int) -> Rows:
        return np.array([next(free) for _ in range(count)], np.intp)

    return RowTable(give)


def test_clear_begins_at_the_first_row() -> None:
    table = new_rows(10)
    assert table(ids(5, 2_000_000, -1)).tolist() == [10, 11, 12]
    table.clear()
    assert table(ids(9, 8, 7, 6)).tolist() == table.rows.tolist() == [10, 11, 12, 13]


@example([(False, [2**16 - 1]), (False, [2**16]), (True, [2**16 - 1]), (False, [2**16])])
@example([(False, [1, 2]), (True, [1]), (False, [1, 2]), (False, [8])])  # the same agents again after a release
@given(st.lists(st.tuples(st.booleans(), st.lists(IDS, unique=True, max_size=12)), max_size=25))
def test_as_a_dictionary_with_a_free_list_would(calls: list[tuple[bool, list[int]]]) -> None:
    table = new_rows()
    known: dict[int, int] = {}
    most = 0
    for release, agents in calls:
        array = np.array(agents, np.int32)
        if release:
            table.release(array)
            for agent in agents:
                known.pop(agent, None)
            continue
        rows = table(array).tolist()
        for agent, row in zip(agents, rows, strict=True):
            assert known.setdefault(agent, row) == row, "an agent keeps its row"
        assert len(set(known.values())) == len(known), "no row has two owners"
        most = max(most, len(known))
    assert table.rows.tolist() == list(range(most)), "as many rows as there were agents at once"


def test_who_was_not_asked_for_in_a_round_is_silent() -> None:
    table = new_rows(5)
    everybody, some = ids(1, 70_000, 3, 4), ids(1, 4)

    def silent() -> dict[int, int]:
        agents, rounds = table.silent()
        return dict(zip(agents.tolist(), rounds.tolist(), strict=True))

    table(everybody)
    assert silent() == {}
    for _ in range(3):
        table(some)
    assert silent() == {70_000: 1, 3: 1}
    table(ids(1, 3, 4))
    assert silent() == {70_000: 2}
    table(some)
    table(everybody)
    table(some)
    assert silent() == {}, "who is back is as if he had never been away"
    table(some)
    table.release(ids(3, 5, 80_000))
    table(ids(9))
    assert silent() == {70_000: 1}
    table.release(ids(9, 70_000))
    table(ids(6, 80_001))
    assert silent() == {1: 1, 4: 1}, "who was let go is nobody's, and whoever has the row now begins anew"
    table.clear()
    assert silent() == {}
