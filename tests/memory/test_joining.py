from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.memory import Rollout, Work, gathered, joined
from tests.memory.test_rollout import Driver, operations
from tests.memory.test_trajectories import story


@given(operations(20), operations(20), st.integers(1, 6), st.booleans())
def test_two_takes_joined_are_what_one_would_have_been(
    before: list[Any], after: list[Any], horizon: int, cleared: bool
) -> None:
    whole, halves = Driver(horizon, 1), Driver(horizon, 1)
    before, after = ([one for one in some if one[0] != "take"] for some in (before, after))
    for driver in (whole, halves):
        driver.run(before, last=False)
    first = halves.memory.take().data
    if cleared:  # what began before is cut, as it is for whoever reads both takes one by one
        halves.memory.clear()
        halves.oracle.clear()
        known = story(Rollout(whole.memory.take().data))
        whole.memory.clear()
        whole.oracle.clear()
    halves.counter = whole.counter
    for driver in (whole, halves):
        driver.run(after, last=False)
    second = halves.memory.take().data
    rollout = Rollout(joined(first, second))
    expected = story(Rollout(whole.memory.take().data))
    if cleared:
        expected |= known
    found = story(rollout)
    assert found.keys() == expected.keys()
    for marker, told in found.items():
        assert told == expected[marker]
    assert rollout.older == len(Rollout(first))
    assert list(found)[: rollout.older] == list(story(Rollout(first)))


def with_rows_of(source: int, known: dict[float, tuple[Any, ...]]) -> dict[float, tuple[Any, ...]]:
    """A story whose rows are no other source's."""
    return {marker: (row * 1024 + source, *others) for marker, (row, *others) in known.items()}


@given(st.lists(operations(20), min_size=1, max_size=3), st.integers(1, 6), st.booleans())
def test_what_is_gathered_is_what_each_brought(some: list[list[Any]], horizon: int, again: bool) -> None:
    """Every part begins in the middle of what its agents do, and none goes on in the next."""
    parts, drivers, expected, counter = list[Work](), list[Driver](), dict[float, tuple[Any, ...]](), 0
    for source, happening in enumerate(some):
        drivers.append(driver := Driver(horizon, 1))
        driver.counter = counter
        driver.run([one for one in happening if one[0] != "take"], last=False)
        if again:  # so that decisions are open as the part begins
            driver.memory.take()
            driver.run([("append", [0, 3], True), ("append", [3], False)], last=False)
        counter = driver.counter
        parts.append(Work(driver.memory.take().data, source=source))
        expected |= with_rows_of(source, story(Rollout(parts[-1])))
    whole = gathered(parts)
    assert story(Rollout(whole)) == expected
    assert list(story(Rollout(whole))) == list(expected), "in the order of the parts"
    assert "older" not in whole
    later = list[Work]()
    for source, driver in enumerate(drivers):
        driver.counter = drivers[source - 1].counter
        driver.run([("append", [0, 1, 3], True), ("end", [1], 2), ("append", [1, 3], True)], last=False)
        later.append(Work(driver.memory.take().data, source=source))
        expected |= with_rows_of(source, story(Rollout(later[-1])))
    both = Rollout(joined(whole, gathered(later)))
    assert both.older == len(Rollout(whole))
    assert story(both) == expected, "what was open goes on in nobody's next rollout"


@given(operations(20), operations(20), operations(20), st.integers(1, 6))
def test_successive_takes_of_a_source_go_on_in_what_is_gathered(
    first: list[Any], second: list[Any], other: list[Any], horizon: int
) -> None:
    some = [[operation for operation in part if operation[0] != "take"] for part in (first, second, other)]
    whole, halves, stranger = (Driver(horizon, 1) for _ in range(3))
    parts, expected = list[Work](), dict[float, tuple[Any, ...]]()
    for happening in some[:2]:
        for driver in (whole, halves):
            driver.run(happening, last=False)
        parts.append(Work(halves.memory.take().data, source=1))
    stranger.counter = whole.counter
    stranger.run(some[2], last=False)
    parts.append(Work(stranger.memory.take().data, source=2))
    for source, data in ((1, whole.memory.take().data), (2, parts[-1].data)):
        expected |= with_rows_of(source, story(Rollout(data)))
    assert story(Rollout(gathered(parts))) == expected
