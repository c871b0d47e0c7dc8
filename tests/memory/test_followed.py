"""Images in a replay memory are kept once; what came after each row is the same as if they were kept twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.columns import Column
from tau_trainer.memory import Links, Replay, Rollout
from tests.memory.test_episodes import AGENTS, EVERYBODY, Playing
from tests.memory.test_rollout import SENSORS, Driver, operations

MARKER, IMAGE = SENSORS
TWICE = (MARKER, IMAGE, Column("next_0", (1,)), Column("next_1", IMAGE.shape, np.uint8))
ONCE = (MARKER, Column("next_0", (1,)))

_work = st.tuples(st.just("take"), st.sampled_from(["learn", "learn", "learn", "fail", "lose", "clear"]))
_some = st.tuples(operations(4), _work).map(lambda both: [*both[0], both[1]])
_happening = st.lists(st.tuples(st.integers(0, 1), _some), min_size=3, max_size=12)
"""What happens to the agents of one of two collectors, by turns."""


def rows_of(rollout: Rollout) -> dict[str, Any]:
    sensors = {f"obs_{i}": values for i, values in enumerate(rollout.observations)}
    return sensors | {f"next_{i}": rollout.next_observations(i) for i in range(2)}


def links_of(rollout: Rollout) -> Links:
    return Links.of(rollout, {"obs_1": rollout.bootstrap_observations[1]})


def new_replay(capacity: int) -> Replay:
    return Replay(ONCE, capacity, {"next_1": IMAGE})


def assert_same(once: Replay, twice: Replay) -> None:
    """Also after a draw in another order, and after a checkpoint."""
    places = np.random.default_rng(len(once)).permutation(len(twice))
    wanted = twice.take(places)
    again = new_replay(once.capacity)
    arrays, following = once.state()
    again.load({name: values.copy() for name, values in arrays.items()}, following)
    for replay in (once, again):
        found = replay.take(places)
        assert found.keys() == wanted.keys()
        for name, values in wanted.items():
            np.testing.assert_array_equal(found[name], values, name, strict=True)
    np.testing.assert_equal(again.state()[0], arrays)
    assert again.spares == once.spares == len(arrays["aside.obs_1"])
    assert_walks(once)


def assert_walks(replay: Replay) -> None:
    """From every place on, what came after a row is what the next row of its sequence saw; none is cut too early."""
    places, begins = replay.walk(np.arange(len(replay)), 3)
    assert begins.sum() == len(replay)
    rows = replay.take(places)
    inside = np.flatnonzero(~begins)
    np.testing.assert_array_equal(rows["obs_1"][inside], rows["next_1"][inside - 1])
    after = replay.state()[0]["after"]
    last = np.append(begins[1:], True)[: len(places)]
    age = np.arange(len(places)) - np.maximum.accumulate(np.where(begins, np.arange(len(places)), 0))
    ends = (after[places] < 0) | (after[places] == places)
    assert (ends | (age == 2))[last].all()
    assert not ends[~last].any()


@given(_happening, st.integers(1, 12))
def test_what_came_after_is_the_same_as_if_it_were_kept_twice(happening: Any, capacity: int) -> None:
    """Ends, limits, lost engines, decisions open for long, a ring of any size, updates that fail, work that is lost.

    All of that with two collectors, whose agents have the same rows.
    """
    drivers, once, twice = [Driver(3, 1), Driver(3, 1)], new_replay(capacity), Replay(TWICE, capacity)
    drivers[1].counter = 100_000
    for source, (kind, *arguments) in ((source, one) for source, some in happening for one in some):
        driver = drivers[source]
        if kind != "take":
            getattr(driver, kind)(*arguments)
            continue
        what = arguments[0] if arguments else "learn"
        if what == "clear":
            driver.memory.clear()
            driver.oracle.clear()
        if not driver.memory.completed:
            continue
        rollout = Rollout(driver.take())
        if what == "lose":
            once.forget(source)
            continue
        undo = once.append(rows_of(rollout), links_of(rollout), source), twice.append(rows_of(rollout))
        assert_same(once, twice)
        if what == "fail":
            for one in undo:
                one()
            assert_same(once, twice)


@pytest.mark.parametrize("turns", [1, AGENTS])
def test_only_what_is_no_row_is_kept_aside(turns: int) -> None:
    """The newest observation of each agent, whatever the length of its wait, and never more."""
    playing = Playing(50, images=True, ends=False)
    for step in range(200):
        playing.decide([agent for agent in EVERYBODY if (step + agent) % turns == 0])
        playing.happen("learn", [])
        assert playing.replay.spares <= AGENTS
        if step % 7 == 6:
            playing.end([step % AGENTS], truncated=False)
    assert len(playing.replay) == 50
    assert len(playing.replay._spares) <= 4 * AGENTS, "room is used again"


def test_the_last_observations_of_episodes_that_were_cut_go_with_their_rows() -> None:
    playing = Playing(20, images=True)
    for _ in range(30):
        playing.decide([0])
        playing.end([0], truncated=True)
        playing.learn()
    assert playing.replay.spares == 20
    for _ in range(25):
        playing.decide([0])
        playing.happen("learn", [])
    assert playing.replay.spares == 1


@pytest.mark.parametrize(
    "change",
    [
        {"after": np.array([1, 2, 3, 9])},
        {"after": np.array([1, 2, 3, -3])},
        {"after": np.array([1, -1, 3, -1])},
        {"aside.obs_1": np.zeros((2, 2), np.uint8)},
    ],
)
def test_links_to_nowhere_are_refused(change: dict[str, Any]) -> None:
    playing = Playing(10, images=True)
    for _ in range(5):
        playing.decide([0])
    playing.learn()
    arrays, following = playing.replay.state()
    assert arrays["after"].tolist() == [1, 2, 3, -1]
    replay = playing.new_replay(10)
    with pytest.raises(ValueError, match="the observations after its rows are missing"):
        replay.load({**arrays, **change}, following)
    assert len(replay) == 0


def test_what_is_taken_out_again_leaves_other_collectors_links_alone() -> None:
    """A push of one fails that had overwritten the row that the other's open decision came after."""
    mine, others = (Playing(3, images=True) for _ in range(2))
    for _ in range(4):
        mine.decide([0])
    mine.replay.append(*mine.take(), 0)
    for _ in range(4):
        others.decide([0])
    mine.replay.append(*others.take(), 1)()
    mine.decide([0])
    mine.replay.append(*mine.take(), 0)
    places, begins = mine.replay.walk(np.array([1]), 3)
    assert places.tolist() == [1, 2, 0], "the new row took the place of the oldest, and follows the newest"
    assert begins.tolist() == [True, False, False]
