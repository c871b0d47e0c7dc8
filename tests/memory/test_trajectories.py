from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.memory import Rollout
from tests.memory.test_rollout import Driver, operations


def story(rollout: Rollout) -> dict[float, tuple[Any, ...]]:
    """What is known of each transition, by its observation, which is different everywhere."""
    if len(rollout) == 0:
        return {}
    here, after = (np.sin(obs[0]) for obs in (rollout.observations, rollout.bootstrap_observations))
    advantage, returns = rollout.gae(rollout.rewards["extrinsic"], here, after, 0.9, 0.8)
    mask = rollout.mask if rollout.mask is not None else np.zeros((len(rollout), 5), np.bool_)
    columns: tuple[Any, ...] = (rollout.rows, rollout.terminated, rollout.truncated, rollout.cut, mask)
    columns += (rollout.column("continuous"), advantage.round(9), returns.round(9), rollout.begins)
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


def test_what_was_open_before_begins_no_episode() -> None:
    driver = Driver(5, 1)
    driver.run([("append", [0], True), ("take",), ("append", [0, 1], True), ("append", [0, 1], True)], last=False)
    rollout = Rollout(driver.memory.take().data)
    assert rollout.rows.tolist() == [0, 0, 1]
    assert rollout.begins.tolist() == [False, False, True]
