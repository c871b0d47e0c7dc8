"""One forward pass for everything that is ready."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.collection.decisions import Decision, DecisionBatcher, Observations
from tau_trainer.specs import BoolArray, FloatArray, IntArray


@dataclass
class Parts:
    """A decision."""

    continuous: FloatArray
    discrete: IntArray
    log_prob: FloatArray


class Policy:
    """Decides by a rule that can be read off the decision: the sum of what an agent sees, and what is forbidden."""

    def __init__(self, version: int = 0, then: Callable[[], None] = lambda: None) -> None:
        self.version = version
        self.sizes: list[int] = []
        self.masks: list[BoolArray | None] = []
        self._then = then

    def act(
        self, obs: Observations, mask: BoolArray | None, rng: np.random.Generator, deterministic: bool = False
    ) -> Parts:
        n = len(obs[0])
        self.sizes.append(n)
        self.masks.append(mask)
        forbidden = np.zeros((n, 2), np.bool_) if mask is None else mask
        total: FloatArray = np.asarray(obs[0].sum(axis=1) + obs[1].sum(axis=1), np.float32)
        self._then()
        return Parts(total[:, None], forbidden.astype(np.int32), np.full((n, 3), float(deterministic), np.float32))


def batcher(policy: Policy, *, deterministic: bool = False) -> DecisionBatcher:
    made = DecisionBatcher(policy, Parts, np.random.default_rng(0), deterministic=deterministic)
    made.parties = 2
    return made


def agents(*values: float) -> Observations:
    """Two sensors that show each agent its value once and twice."""
    column = np.array(values, np.float32)
    return column[:, None], np.repeat(column, 2).reshape(-1, 2)


def run(work: Awaitable[None]) -> None:
    async def main() -> None:
        await asyncio.wait_for(work, 10)

    asyncio.run(main())


@given(st.lists(st.lists(st.integers(0, 100), max_size=4), min_size=1, max_size=5))
def test_all_ready_requests_share_a_pass_and_each_gets_its_own_part(requests: list[list[int]]) -> None:
    async def main() -> None:
        policy = Policy(version=7)
        decisions = batcher(policy)
        answers = await asyncio.gather(*(decisions.decide(agents(*values), None) for values in requests))
        for values, (decision, version) in zip(requests, answers, strict=True):
            assert decision.continuous[:, 0].tolist() == [3.0 * value for value in values]
            assert decision.discrete.shape == (len(values), 2)
            assert decision.log_prob.shape == (len(values), 3)
            assert version == 7
        assert policy.sizes == [sum(map(len, requests))]
        assert (decisions.passes, decisions.decisions) == (1, sum(map(len, requests)))

    run(main())


def test_one_alone_is_answered_at_once() -> None:
    async def main() -> None:
        decisions = batcher(Policy(version=3))
        decisions.parties = 1
        answer = decisions.decide(agents(1.0, 2.0), None)
        assert answer.done()
        decision, version = answer.result()
        assert (decision.continuous.tolist(), version) == ([[3.0], [6.0]], 3)

    run(main())


def test_requests_of_another_turn_get_another_pass() -> None:
    async def main() -> None:
        policy = Policy()
        decisions = batcher(policy)
        for _ in range(3):
            await asyncio.gather(*(decisions.decide(agents(1.0, 2.0), None) for _ in range(2)))
        assert policy.sizes == [4, 4, 4]
        assert decisions.passes == 3

    run(main())


@pytest.mark.parametrize("deterministic", [False, True])
def test_the_policy_is_told_whether_to_explore(deterministic: bool) -> None:
    async def main() -> None:
        decision, _ = await batcher(Policy(), deterministic=deterministic).decide(agents(1.0), None)
        assert decision.log_prob.tolist() == [[float(deterministic)] * 3]

    run(main())


def test_masks_are_joined_and_a_request_without_one_forbids_nothing() -> None:
    async def main() -> None:
        policy = Policy()
        decisions = batcher(policy)
        masks: list[BoolArray | None] = [None, np.array([[True, False], [False, True]]), None]
        answers = await asyncio.gather(
            *(decisions.decide(agents(1.0, 2.0), mask) for mask in masks),
        )
        assert [decision.discrete.tolist() for decision, _ in answers] == [
            [[0, 0], [0, 0]],
            [[1, 0], [0, 1]],
            [[0, 0], [0, 0]],
        ]
        await asyncio.gather(*(decisions.decide(agents(1.0), None) for _ in range(2)))
        assert policy.masks[1] is None

    run(main())


def test_an_exception_reaches_everyone_who_waits_and_the_next_pass_is_sound() -> None:
    async def main() -> None:
        policy = Policy()
        decisions = batcher(policy)
        wide = (np.ones((1, 9), np.float32), np.ones((1, 2), np.float32))
        waiting = [decisions.decide(seen, None) for seen in (agents(1.0), wide, agents(2.0))]
        failures = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(failure) for failure in failures] == [ValueError] * 3
        decision, _ = await decisions.decide(agents(1.0), None)
        assert decision.continuous.tolist() == [[3.0]]

    run(main())


def test_requests_that_were_given_up_are_left_out() -> None:
    async def main() -> None:
        policy = Policy()
        decisions = batcher(policy)
        first, second = decisions.decide(agents(1.0), None), decisions.decide(agents(2.0, 3.0), None)
        first.cancel()
        decision, _ = await second
        assert decision.continuous.tolist() == [[6.0], [9.0]]
        assert policy.sizes == [2]
        decisions.decide(agents(1.0), None).cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert policy.sizes == [2]
        assert (decisions.passes, decisions.decisions) == (1, 2)

    run(main())


def test_a_new_policy_decides_from_the_next_pass_on() -> None:
    async def main() -> None:
        old, new = Policy(1), Policy(2)
        decisions = batcher(old)
        waiting = decisions.decide(agents(1.0), None)
        decisions.policy = new
        assert (await waiting)[1] == 2
        assert (old.sizes, new.sizes) == ([], [1])

    run(main())


def test_the_version_told_is_that_of_the_policy_that_decided() -> None:
    """Learning runs in another thread: it may hand over its policy in the middle of a pass."""

    async def main() -> None:
        def swap() -> None:
            decisions.policy = Policy(2)

        decisions = batcher(Policy(1, then=swap))
        answers: list[tuple[Decision, int]] = list(
            await asyncio.gather(*(decisions.decide(agents(1.0), None) for _ in range(2)))
        )
        assert [version for _, version in answers] == [1, 1]
        assert (await decisions.decide(agents(1.0), None))[1] == 2

    run(main())
