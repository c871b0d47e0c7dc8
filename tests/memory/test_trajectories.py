from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.memory import Rollout, Work, gathered, joined
from tests.memory.test_rollout import Driver, operations


def story(rollout: Rollout) -> dict[float, tuple[Any, ...]]:
    """What is known of each transition, by its observation, which is different everywhere."""
    if len(rollout) == 0:
        return {}
    here, after = (np.sin(obs[0]) for obs in (rollout.observations, rollout.bootstrap_observations))
    advantage, returns = rollout.gae(rollout.rewards["extrinsic"], here, after, 0.9, 0.8)
    mask = rollout.mask if rollout.mask is not None else np.zeros((len(rollout), 5), np.bool_)
    columns: tuple[Any, ...] = (rollout.rows, rollout.terminated, rollout.truncated, rollout.cut, mask)
    columns += (rollout.column("continuous"), advantage.round(9), returns.round(9))
    return {
        float(marker): tuple(np.asarray(column[index]).tolist() for column in columns)
        for index, marker in enumerate(rollout.observations[0][:, 0])
    }


@given(operations(40), st.integers(1, 6))
def test_every_transition_knows_what_came_after(some: list[Any], horizon: int) -> None:
    driver = Driver(horizon, 1)
    driver.run([one for one in some if one[0] != "take"], last=False)
    expected = {
        record.marker: record.marker
        if record.terminated
        else record.final
        if record.following is None
        else record.following.marker
        for record in driver.oracle.take()
    }
    rollout = Rollout(driver.memory.take().data)
    if not expected:
        return
    here, after = rollout.observations[0], rollout.next_observations(0)
    assert here.shape == after.shape
    found = dict(zip(here[:, 0].tolist(), after[:, 0].tolist(), strict=True))
    assert found == pytest.approx(expected)


@given(operations(40), st.integers(1, 6), st.integers(1, 4))
def test_sequences_are_what_agents_did_in_time(some: list[Any], horizon: int, longest: int) -> None:
    driver = Driver(horizon, 1)
    driver.run([one for one in some if one[0] != "take"], last=False)
    records = driver.oracle.take()
    rollout = Rollout(driver.memory.take().data)
    order, begins = rollout.sequences(longest)
    assert sorted(order.tolist()) == list(range(len(records)))
    if not records:
        return
    pieces = np.split(rollout.observations[0][order, 0], np.flatnonzero(begins)[1:])
    known = {record.marker: record.following for record in records}
    followers = {record.marker for record in known.values() if record is not None}
    wanted = []
    for head in known.keys() - followers:
        chain = [head]
        while (after := known[chain[-1]]) is not None and after.marker in known:
            chain.append(after.marker)
        wanted += [np.array(chain[i : i + longest], np.float32).tolist() for i in range(0, len(chain), longest)]
    assert sorted(piece.tolist() for piece in pieces) == sorted(wanted)


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


@given(st.lists(operations(20), min_size=1, max_size=3), st.integers(1, 6), st.booleans())
def test_what_is_gathered_is_what_each_brought(some: list[list[Any]], horizon: int, again: bool) -> None:
    """Every part begins in the middle of what its agents do, and none goes on in the next."""
    parts, expected, counter = list[Work](), dict[float, tuple[Any, ...]](), 0
    for source, happening in enumerate(some):
        driver = Driver(horizon, 1)
        driver.counter = counter
        driver.run([one for one in happening if one[0] != "take"], last=False)
        if again:  # so that decisions are open as the part begins
            driver.memory.take()
            driver.run([("append", [0, 3], True), ("append", [3], False)], last=False)
        counter = driver.counter
        parts.append(Work(driver.memory.take().data, source=source))
        expected |= story(Rollout(parts[-1]))
    whole = gathered(parts)
    assert story(Rollout(whole)) == expected
    assert list(story(Rollout(whole))) == list(expected), "in the order of the parts"
    assert Rollout(joined(whole, whole)).older == len(expected)
    assert "older" not in whole


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
    for data in (whole.memory.take().data, parts[-1].data):
        expected |= story(Rollout(data))
    assert story(Rollout(gathered(parts))) == expected
