"""One forward pass for everything that is ready, and what is carried from decision to decision."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.collection.decisions import Actor, DecisionBatcher
from tau_trainer.columns import Arrays, Column, Rows
from tau_trainer.models import ActorCritic, Decision, Policy
from tau_trainer.specs import BoolArray, Observations
from tests.waiting import run

KEY = "Agent"
TEAM = 0


class RulePolicy(Policy):
    """Decides by a rule that can be read off the decision: the sum of what an agent sees, and what is forbidden.

    With ``remembers`` it counts each agent's decisions, from 5 on.
    """

    def __init__(self, version: int = 0, then: Callable[[], None] = lambda: None, *, remembers: bool = False) -> None:
        self.version = version
        self.state_columns = (Column("count", (1,), np.int64, fill=5),) if remembers else ()
        self.sizes: list[int] = []
        self.masks: list[BoolArray | None] = []
        self._then = then

    def act(
        self,
        obs: Observations,
        mask: BoolArray | None,
        rng: np.random.Generator,
        *,
        state: Arrays | None = None,
        deterministic: bool = False,
    ) -> Decision:
        n = len(obs[0])
        self.sizes.append(n)
        self.masks.append(mask)
        forbidden = np.zeros((n, 2), np.bool_) if mask is None else mask
        total = np.asarray(obs[0].sum(axis=1) + obs[1].sum(axis=1), np.float32)
        before = dict(state or {})
        extras = {"log_prob": np.full((n, 3), float(deterministic), np.float32), **before}
        after = {name: values + 1 for name, values in before.items()}
        self._then()
        return Decision(total[:, None], forbidden.astype(np.int32), self.version, extras, after)

    def network(self) -> ActorCritic:
        raise NotImplementedError


class Bench:
    """A batcher with one actor that several environments ask."""

    def __init__(self, policy: Policy, *, deterministic: bool = False, parties: int = 2) -> None:
        self.batcher = DecisionBatcher()
        self.actor = self.add(KEY, TEAM, policy, deterministic=deterministic, parties=parties)
        self._rows = 0

    def add(self, behavior: str, team: int, policy: Policy, *, deterministic: bool = False, parties: int = 2) -> Actor:
        actor = Actor(policy, np.random.default_rng(0), deterministic=deterministic)
        actor.parties = parties
        self.batcher.actors[behavior, team] = actor
        return actor

    def ask(
        self,
        *values: float,
        mask: BoolArray | None = None,
        rows: list[int] | None = None,
        behavior: str = KEY,
        team: int = TEAM,
    ) -> asyncio.Future[Decision]:
        """Agents whose two sensors show each its value once and twice; in rows of their own if none are given."""
        where = self.new_rows(len(values)) if rows is None else np.array(rows, np.intp)
        return self.batcher.decide(behavior, team, where, agents(*values), mask)

    def new_rows(self, count: int) -> Rows:
        self._rows += count
        return np.arange(self._rows - count, self._rows)


def agents(*values: float) -> Observations:
    column = np.array(values, np.float32)
    return column[:, None], np.repeat(column, 2).reshape(-1, 2)


@given(st.lists(st.lists(st.integers(0, 100), max_size=4), min_size=1, max_size=5))
def test_all_ready_requests_share_a_pass_and_each_gets_its_own_part(requests: list[list[int]]) -> None:
    policy = RulePolicy(version=7)
    bench = Bench(policy)

    async def asked() -> list[Decision]:
        return await asyncio.gather(*(bench.ask(*values) for values in requests))

    for values, decision in zip(requests, run(asked()), strict=True):
        assert decision.continuous[:, 0].tolist() == [3.0 * value for value in values]
        assert decision.discrete.shape == (len(values), 2)
        assert decision.extras["log_prob"].shape == (len(values), 3)
        assert decision.version == 7
    assert policy.sizes == [sum(map(len, requests))]


async def test_one_alone_is_answered_at_once() -> None:
    answer = Bench(RulePolicy(version=3), parties=1).ask(1.0, 2.0)
    assert answer.done()
    assert (answer.result().continuous.tolist(), answer.result().version) == ([[3.0], [6.0]], 3)


async def test_every_behavior_and_team_is_decided_by_its_own_actor_once_a_turn() -> None:
    """Two environments that show two behaviors, one of them with two teams."""
    first, opponent, other = RulePolicy(1), RulePolicy(2), RulePolicy(3)
    bench = Bench(first)
    bench.add(KEY, 1, opponent)
    bench.add("Other", 0, other)
    asked = [(KEY, 0), (KEY, 1), ("Other", 0)]
    for _ in range(2):
        answers = await asyncio.gather(
            *(bench.ask(1.0, behavior=name, team=team) for _ in range(2) for name, team in asked)
        )
        assert [decision.version for decision in answers] == [1, 2, 3, 1, 2, 3]
    assert first.sizes == opponent.sizes == other.sizes == [2, 2]


async def test_masks_are_joined_and_a_request_without_one_forbids_nothing() -> None:
    policy = RulePolicy()
    bench = Bench(policy)
    masks: list[BoolArray | None] = [None, np.array([[True, False], [False, True]]), None]
    answers = await asyncio.gather(*(bench.ask(1.0, 2.0, mask=mask) for mask in masks))
    assert [decision.discrete.tolist() for decision in answers] == [
        [[0, 0], [0, 0]],
        [[1, 0], [0, 1]],
        [[0, 0], [0, 0]],
    ]
    await asyncio.gather(*(bench.ask(1.0) for _ in range(2)))
    assert policy.masks[1] is None


async def test_an_exception_reaches_everyone_who_waits_and_the_next_pass_is_sound() -> None:
    bench = Bench(RulePolicy())
    wide = (np.ones((1, 9), np.float32), np.ones((1, 2), np.float32))
    waiting = [bench.batcher.decide(KEY, TEAM, bench.new_rows(1), seen, None) for seen in (agents(1), wide)]
    waiting.append(bench.ask(2.0))
    failures = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(failure) for failure in failures] == [ValueError] * 3
    alone = Bench(RulePolicy(), parties=1)
    with pytest.raises(ValueError, match="broadcast"):
        await alone.batcher.decide(KEY, TEAM, alone.new_rows(1), (np.ones((3, 9)), np.ones((2, 1))), None)
    assert (await bench.ask(1.0)).continuous.tolist() == [[3.0]]


async def test_requests_that_were_given_up_are_left_out() -> None:
    policy = RulePolicy()
    bench = Bench(policy)
    first, second = bench.ask(1.0), bench.ask(2.0, 3.0)
    first.cancel()
    assert (await second).continuous.tolist() == [[6.0], [9.0]]
    assert policy.sizes == [2]
    bench.ask(1.0).cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert policy.sizes == [2]


async def test_the_version_told_is_that_of_the_policy_that_decided() -> None:
    """Learning runs in another thread: it may hand over its policy in the middle of a pass."""

    def swap() -> None:
        bench.actor.policy = RulePolicy(2)

    bench = Bench(RulePolicy(0))
    answers = [bench.ask(1.0) for _ in range(2)]
    bench.actor.policy = RulePolicy(1, then=swap)  # before the pass
    assert [decision.version for decision in await asyncio.gather(*answers)] == [1, 1]
    assert (await bench.ask(1.0)).version == 2


@pytest.mark.parametrize("parties", [1, 2])
async def test_state_is_carried_by_row_and_forgotten_where_that_is_said(parties: int) -> None:
    """Rows come in any order, alone or with others, with a policy that was replaced meanwhile."""
    bench = Bench(RulePolicy(remembers=True), parties=parties)

    async def before(*rows: int) -> list[int]:
        decision = await bench.ask(*[1.0] * len(rows), rows=list(rows))
        return [int(count) for count in decision.extras["count"][:, 0]]

    assert await before(0, 700) == [5, 5]
    assert await before(700, 3) == [6, 5]
    bench.actor.policy = RulePolicy(1, remembers=True)
    assert list(await asyncio.gather(before(0, 3), before(700))) == [[6, 6], [7]]
    bench.actor.forget(np.array([3, 700]))
    assert await before(0, 3, 700) == [7, 5, 5]
    bench.actor.forget(np.array([9000]))
