"""What a memory knows of groups: moments, teams, own and group rewards, and agents that end while their group plays on.

Against a reference that keeps one Python object a decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.columns import GROUP, MOMENT, TEAM, Column
from tau_trainer.memory import Rollout, RolloutMemory, StepFacts, Work, gathered, joined, rollout

SENSOR = Column("obs_0", (1,))
AGENTS = 6
WIDTH = 2


@dataclass(eq=False)
class Decision:
    """Of one agent: what was known, what came of it, and ``after``, its observation then and the moment of that."""

    row: int
    seen: float
    moment: int
    group: int
    team: int
    own: float | None = None
    shared: float = 0.0
    end: str = ""
    following: Decision | None = None
    after: tuple[float, int] | None = None


class Reference:
    """The contract, agent by agent."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.open: dict[int, Decision] = {}

    def close(self, row: int, own: float, shared: float) -> Decision | None:
        before = self.open.pop(row, None)
        if before is not None:
            before.own, before.shared = own, shared
        return before

    def append(self, made: Decision, own: float, shared: float) -> None:
        before = self.close(made.row, own, shared)
        if before is not None:
            before.following, before.after = made, (made.seen, made.moment)
        self.open[made.row] = made
        self.decisions.append(made)

    def end(self, row: int, own: float, shared: float, end: str, after: tuple[float, int]) -> None:
        before = self.close(row, own, shared)
        if before is not None:
            before.end, before.after = end, after if end != "terminated" else None

    def take(self) -> list[Decision]:
        taken = [made for made in self.decisions if made.own is not None]
        carried = [Decision(old.row, old.seen, old.moment, old.group, old.team) for _, old in sorted(self.open.items())]
        self.decisions, self.open = carried, {made.row: made for made in carried}
        return taken


_rows = st.sets(st.integers(0, AGENTS - 1), min_size=1).map(sorted)
_paid = st.sampled_from([None, None, 1.0])
_operation = st.one_of(
    st.tuples(st.just("append"), _rows, _paid),
    st.tuples(st.just("append"), st.just(list(range(AGENTS))), _paid),
    st.tuples(st.just("end"), _rows, _paid, st.lists(st.sampled_from(["", "left", "cut", "cut and left"]), min_size=6)),
    st.tuples(st.just("abandon"), _rows),
    st.tuples(st.just("take"), st.booleans()),
)


class Driver:
    """The same to both; no two numbers are alike. Agents of rows 0 and 1 are in no group; teams are by row, too."""

    def __init__(self, columns: tuple[Column, ...] = (MOMENT, GROUP, TEAM)) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rollout, "_SPARE", 1)
            self.memory = RolloutMemory((SENSOR,), columns, rewards={"extrinsic": WIDTH}, capacity=2, horizon=1000)
        self.reference = Reference()
        self.counter = self.moment = 0

    def numbers(self, count: int) -> Any:
        self.counter += count
        return np.arange(self.counter - count, self.counter).astype(np.float32) / 8

    def known(self, rows: list[int], paid: float | None, own: Any, **more: Any) -> tuple[StepFacts, Any]:
        shared = None if paid is None else self.numbers(len(rows))
        groups = np.array([row // 2 for row in rows], np.int32)
        rewards = {"extrinsic": np.stack((own, -own), axis=1)}
        known = StepFacts(rewards, shared, groups, moment=self.moment, team=self.moment % 3, **more)
        return known, np.zeros(len(rows)) if shared is None else shared

    def append(self, rows: list[int], paid: float | None) -> None:
        self.moment += 1
        own, seen = self.numbers(len(rows)), self.numbers(len(rows))
        known, shared = self.known(rows, paid, own)
        for i, row in enumerate(rows):
            made = Decision(row, float(seen[i]), self.moment, row // 2, self.moment % 3)
            self.reference.append(made, float(own[i]), float(shared[i]))
        self.memory.append(np.array(rows), known, {"obs_0": seen[:, None]}, 0)

    def end(self, rows: list[int], paid: float | None, ends: list[str]) -> None:
        self.moment += 1
        own, seen, ends = self.numbers(len(rows)), self.numbers(len(rows)), ends[: len(rows)]
        truncated = np.array([end.startswith("cut") for end in ends])
        plays_on = np.array([end.endswith("left") for end in ends])
        known, shared = self.known(rows, paid, own, plays_on=plays_on if plays_on.any() else None)
        for i, row in enumerate(rows):
            end = "truncated" if truncated[i] else "left" if plays_on[i] else "terminated"
            self.reference.end(row, float(own[i]), float(shared[i]), end, (float(seen[i]), self.moment))
        self.memory.end(np.array(rows), known, (seen[:, None],), truncated)

    def abandon(self, rows: list[int]) -> None:
        self.memory.abandon(np.array(rows))
        for row in rows:
            self.reference.open.pop(row, None)

    def take(self, sent: bool) -> tuple[Rollout, list[Decision]]:
        """``sent``: as the work is in another process, after its arrays have served again here."""
        work = self.memory.take()
        if sent:
            facts, arrays = work.sent()
            there = Work.received(facts, {name: values.copy() for name, values in arrays.items()})
            work.release()
            return Rollout(there), self.reference.take()
        return Rollout(work), self.reference.take()


@given(st.lists(_operation, max_size=40))
def test_groups_that_die_in_any_order(happening: list[tuple[Any, ...]]) -> None:
    driver = Driver()
    for kind, *arguments in [*happening, ("take", True)]:
        found = getattr(driver, kind)(*arguments)
        if kind == "take":
            _compare(*found)
        assert driver.memory.open_rows.tolist() == sorted(driver.reference.open)


def _compare(taken: Rollout, wanted: list[Decision]) -> None:
    assert [taken.rows.tolist(), taken.column("moment").tolist() if wanted else []] == [
        [made.row for made in wanted],
        [made.moment for made in wanted],
    ]
    if not wanted:
        return
    assert taken.column("group").tolist() == [made.group for made in wanted]
    assert taken.column("team").tolist() == [made.team for made in wanted]
    assert taken.left.tolist() == [made.end == "left" for made in wanted]
    assert taken.terminated.tolist() == [made.end in ("left", "terminated") for made in wanted]
    assert taken.truncated.tolist() == [made.end == "truncated" for made in wanted]
    own, shared = (np.array([getattr(made, name) for made in wanted], np.float32) for name in ("own", "shared"))
    assert taken.rewards["extrinsic"].tolist() == np.stack((own, -own), axis=1).tolist()
    if taken.group_reward is None:
        assert not shared.any()
    else:
        assert taken.group_reward.tolist() == shared.tolist()
    both = np.stack((own + shared, -own + shared), axis=1)
    assert taken.earned("extrinsic").tolist() == both.tolist()
    position = {id(made): index for index, made in enumerate(wanted)}
    for index, made in enumerate(wanted):
        following = -1 if made.following is None else position.get(id(made.following), -1)
        assert taken.following[index] == following
        place = int(taken.bootstrap[index])
        if following >= 0 or made.after is None:
            assert place == -1
        else:
            seen, moment = float(taken.bootstrap_observations[0][place, 0]), int(taken.bootstrap_moments[place])
            assert (seen, moment) == made.after


@pytest.mark.parametrize("columns", [(), (GROUP,)])
def test_an_agent_that_leaves_its_group_is_over_for_who_learns_alone(columns: tuple[Column, ...]) -> None:
    """What was there last is kept for those alone who read groups, and is worth nothing to the agent's own return."""
    driver = Driver(columns)
    rows = [2, 3, 4, 5]
    driver.append(rows, None)
    driver.end(rows, None, ["left", "", "cut", "cut and left"])
    taken, _ = driver.take(sent=False)
    assert taken.terminated.tolist() == [True, True, False, False]
    assert taken.left.tolist() == [True, False, False, False]
    assert taken.truncated.tolist() == [False, False, True, True]
    assert taken.bootstrapped.tolist() == ([0, 2, 3] if columns else [2, 3])
    values = np.full((len(taken.bootstrapped), 1), 100.0)
    _, returns = taken.gae(np.ones((4, 1)), np.zeros((4, 1)), values, 0.5, 0.9)
    assert returns.tolist() == [[1.0], [1.0], [51.0], [51.0]]


def test_what_nobody_asked_for_is_not_kept() -> None:
    driver = Driver(columns=())
    driver.append([0, 5], None)
    driver.append([0, 5], None)
    work = driver.memory.take()
    assert not {"moment", "group", "team", "group_reward", "final.moment"} & work.keys()
    assert Rollout(work).group_reward is None
    with pytest.raises(KeyError):
        Rollout(work).column("group")


def test_a_group_pays_into_the_extrinsic_stream_alone() -> None:
    memory = RolloutMemory((), (), rewards={"extrinsic": 2, "other": 1}, capacity=1, horizon=5)
    for reward in (0.0, 7.0):
        paid = {"extrinsic": np.array([[reward, 2 * reward]], np.float32), "other": np.ones((1, 1), np.float32)}
        memory.append(np.array([0]), StepFacts(paid, np.array([3.0], np.float32)), {}, version=0)
    rollout = Rollout(memory.take().data)
    assert rollout.earned("extrinsic").tolist() == [[10.0, 17.0]]
    assert rollout.earned("other").tolist() == [[1.0]]


def test_a_group_that_is_paid_late_was_paid_nothing_before() -> None:
    """Also where the memory's arrays have held another rollout's group rewards."""
    driver = Driver()
    for paid in (1.0, 1.0, None):
        driver.append([2, 3], paid)
    driver.memory.take().release()
    for paid in (None, None, 1.0, None):
        driver.append([2, 3], paid)
    work = driver.memory.take()
    shared = Rollout(work).group_reward
    assert shared is not None
    assert [bool(value) for value in shared] == [False, False, False, False, True, True, False, False]


def test_rollouts_with_and_without_group_rewards_are_joined() -> None:
    driver, parts = Driver(), []
    for paid in (None, 1.0):
        driver.append([2, 3], paid)
        driver.append([2, 3], paid)
        parts.append(driver.memory.take().data)
    both = Rollout(joined(*parts))
    assert both.group_reward is not None
    assert [bool(value) for value in both.group_reward] == [False] * 2 + [True] * 4
    assert both.column("moment").tolist() == [1, 1, 2, 2, 3, 3]
    assert both.bootstrap_moments.tolist() == [4, 4]


def test_moments_of_several_collectors_are_different_ones() -> None:
    parts = []
    for source in range(2):
        driver = Driver()
        for _ in range(2):
            driver.append([2, 3], 1.0)
        parts.append(Work(driver.memory.take().data, source=source))
    both = Rollout(gathered(parts))
    first, second = both.column("moment")[:2], both.column("moment")[2:]
    assert first[0] == first[1] != second[0] == second[1]
    assert len({*both.column("moment").tolist(), *both.bootstrap_moments.tolist()}) == 4
