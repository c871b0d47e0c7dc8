from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tau_trainer.algorithms import Counters, Publish
from tau_trainer.errors import NonFiniteError
from tau_trainer.memory import Work, WorkData
from tau_trainer.metrics import MetricsHub, keys
from tau_trainer.models import Policy
from tau_trainer.training.learning.learner import Learner
from tests.training.fakes import Memory
from tests.training.learners import collect, make_learner
from tests.training.learning.learning import Gate, Make
from tests.waiting import HANG_S, run


async def learn(learner: Learner) -> None:
    """One rollout, and the update that it makes."""
    collect(learner)
    await learner.hand_over()
    await learner.drain()


def test_an_update_makes_the_next_version(make: Make, memory: Memory, hub: MetricsHub) -> None:
    learner = make(validator=lambda policy: {keys.VALIDATION_ACCURACY: float(policy.version)})
    run(learn(learner))
    assert (learner.progress.updates, learner.policy.version, learner.actor.policy.version) == (1, 1, 1)
    assert learner.actor.policy is learner.policy
    assert not learner.bound.outstanding
    assert learner.progress.update_seconds > 0
    assert learner.tracker.scores == {keys.VALIDATION_ACCURACY: 1.0}
    learner.flush()
    hub.drain(5.0)
    values = memory.summaries[-1].values
    assert values[keys.VALIDATION_ACCURACY] == 1.0
    assert values[keys.POLICY_AGE] == 0.0


def scripted(*scores: tuple[float, float]) -> Callable[[Policy], Mapping[str, float]]:
    """A validator that gives the policy of version i the i-th accuracy and reward."""

    def validator(policy: Policy) -> Mapping[str, float]:
        accuracy, reward = scores[policy.version - 1]
        return {keys.VALIDATION_ACCURACY: accuracy, keys.VALIDATION_REWARD: reward}

    return validator


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ([(0.1, 0.0), (0.5, 0.0), (0.0, 9.0)], 2),
        ([(0.5, 0.0), (0.5, 0.3), (0.5, -9.0)], 2),
        ([(0.5, 0.3), (0.5, 0.3), (0.4, 0.9)], 1),
        ([(0.0, -1.0), (0.0, -2.0), (0.0, -3.0)], 1),
        ([(0.1, 0.0), (0.5, 0.0), (0.4, 0.0)], 3),
        ([(0.0, 0.0), (0.6, 0.0), (0.3, 0.0), (0.2, 0.0)], 4),
        ([(0.1, 0.0), (0.2, 0.0), (0.9, 0.0), (0.1, 0.0), (0.3, 0.0)], 5),
    ],
    ids=[
        "accuracy",
        "reward where accuracies are equal",
        "the first of equals",
        "from the first update on",
        "a mean over updates",
        "of three in a row",
        "not of all",
    ],
)
def test_the_best_policy_is_kept(make: Make, scores: list[tuple[float, float]], best: int) -> None:
    learner = make(validator=scripted(*scores))
    for _ in scores:
        run(learn(learner))
    assert learner.tracker.best is not None
    assert learner.tracker.best.policy.version == best
    assert tuple(learner.tracker.best.scores.values()) == scores[best - 1]
    assert learner.tracker.best.decisions == 32 * best
    assert learner.tracker.accuracies == [accuracy for accuracy, _ in scores]
    again = make(validator=scripted(*scores))
    again.restore(*learner.state())
    assert again.tracker.accuracies == learner.tracker.accuracies


def test_policies_are_scored_at_decisions_that_grow_whatever_the_end_is(make: Make) -> None:
    """An update every 32 decisions; a checkpoint in between changes nothing."""
    scored: dict[int, list[int]] = {}
    for most in (1_000_000, 1_000_000_000):
        found = scored.setdefault(most, [])

        def validator(policy: Policy, found: list[int] = found) -> Mapping[str, float]:
            found.append(policy.version)
            return {}

        learner = make(validator=validator, max_steps=most)
        for _ in range(3):
            run(learn(learner))
        learner.progress.decisions = 32 * 200
        again = make(validator=validator, max_steps=most)
        again.restore(*learner.state())
        for _ in range(9):
            run(learn(again))
    # 2 % of 6,400 decisions are four updates.
    assert scored == {1_000_000: [1, 2, 3, 4, 8, 12], 1_000_000_000: [1, 2, 3, 4, 8, 12]}


def test_the_last_policy_is_scored_like_those_before_it(make: Make) -> None:
    scores = (0.1, 0.0), (0.5, 0.0), (0.5, 0.0), (0.9, 0.0), (0.2, 0.0)
    learner = make(validator=scripted(*scores), max_steps=1_000_000_000)
    for _ in range(3):
        run(learn(learner))
    assert learner.tracker.best is not None
    assert learner.tracker.best.policy is learner.tracker.last(learner.policy).policy
    assert learner.tracker.validate_last(learner.policy) == {}, "it has been"
    learner.tracker._next = 10**6
    run(learn(learner))
    before = learner.state()[1]
    assert (learner.tracker.last(learner.policy).scores, learner.tracker.best.policy.version) == ({}, 3)
    assert learner.tracker.validate_last(learner.policy) == {keys.VALIDATION_ACCURACY: 0.9, keys.VALIDATION_REWARD: 0.0}
    assert learner.tracker.last(learner.policy).rank == pytest.approx((1.9 / 3, 0.0)), "a mean of three"
    assert learner.tracker.best.policy.version == 4
    after = learner.state()[1]
    assert before.pop("best") != after.pop("best")
    assert before == after, "a run that goes on validates what it would have"
    run(learn(learner))
    learner.tracker.validate_last(learner.policy)
    assert learner.tracker.last(learner.policy).rank == pytest.approx((1.2 / 3, 0.0)), "with the two that were due"
    assert learner.tracker.best.policy.version == 4


def test_what_an_earlier_version_found_due_is_not_waited_for(make: Make) -> None:
    learner = make(max_steps=1_000_000_000)
    learner.progress.decisions = 6400
    arrays, values = learner.state()
    again = make(validator=scripted((0.1, 0.0)), max_steps=1_000_000_000)
    again.restore(arrays, values | {"next_evaluation": 5_000_000})
    assert 6400 < again.tracker._next <= 6400 * 1.02


def test_without_validation_scores_there_is_no_best(make: Make) -> None:
    for validator in (None, lambda policy: {}, lambda policy: {"Task/Other": 1.0}):
        learner = make(validator=validator)
        run(learn(learner))
        assert learner.tracker.best is None


def test_the_best_policy_goes_through_a_checkpoint_and_is_beaten_only_by_a_better_one(make: Make) -> None:
    learner = make(validator=scripted((0.5, 0.0), (0.1, 0.0)))
    for _ in range(2):
        run(learn(learner))
    arrays, values = learner.state()
    again = make(validator=scripted((0.0, 0.0), (0.0, 0.0), (0.8, 0.0), (0.7, 0.0)))
    again.restore(arrays, json.loads(json.dumps(values)))
    assert learner.tracker.best is not None
    assert again.tracker.best is not None
    assert (again.tracker.best.decisions, again.tracker.best.rank, again.tracker.best.policy.version) == (
        32,
        (0.5, 0.0),
        1,
    )
    for name, weights in learner.tracker.best.policy.weights.items():
        np.testing.assert_array_equal(again.tracker.best.policy.weights[name], weights)
    best = learner.tracker.best.policy.weights
    assert any((again.policy.weights[name] != weights).any() for name, weights in best.items())
    run(learn(again))
    assert again.tracker.best.policy.version == 1, "0.5, 0.1 and 0.8 are no better on average"
    run(learn(again))
    assert again.tracker.best.policy.version == 4


def test_a_checkpoint_from_before_there_was_a_best_policy(make: Make) -> None:
    learner = make()
    arrays, values = learner.state()
    del values["best"]
    again = make(validator=scripted((0.1, 0.0)))
    again.restore(arrays, values)
    assert again.tracker.best is None


def test_nothing_is_learned_before_the_memory_is_full(make: Make) -> None:
    learner = make()

    async def work() -> None:
        collect(learner, 0)
        await learner.hand_over()

    run(work())
    assert not learner.bound.outstanding
    assert learner.progress.updates == 0


@pytest.mark.parametrize(("most", "publishes"), [(0, False), (1, True)])
def test_agents_act_with_the_policy_so_far_unless_they_take_turns(
    make: Make, monkeypatch: pytest.MonkeyPatch, most: int, publishes: bool
) -> None:
    learner = make(most=most)
    gate, first = Gate(learner, monkeypatch), learner.policy
    gate.open.set()
    acted_with: list[Policy] = []
    monkeypatch.setattr(learner, "_publish", acted_with.append)
    run(learn(learner))
    assert gate.publishes == [publishes]
    assert bool(acted_with) == publishes
    assert learner.actor.policy is learner.policy
    assert first not in acted_with


def test_work_of_others_is_published_where_they_say(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    learner, published = make(most=1), list[Policy]()
    monkeypatch.setattr(learner, "_publish", lambda policy: pytest.fail("nobody acts here"))
    collect(learner)
    work = learner.algorithm.ready(Counters(0, 0))
    assert work is not None
    run(learner.update(work, published.append))
    assert {policy.version for policy in published} == {1}
    assert learner.policy.version == 1


def test_several_learn_abreast_and_the_newest_policy_acts(hub: MetricsHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that came first may be heard last."""
    threads = ThreadPoolExecutor(2)
    learner = make_learner(hub, threads)
    policies = [learner.policy] + [learner.algorithm.policy(learner.algorithm.weights(), number) for number in (1, 2)]
    inside, order = [threading.Event(), threading.Event()], iter(range(2))
    ends = threading.Event()

    def submit(work: Work, progress: float, publish: object) -> dict[str, float]:
        number = next(order)
        inside[number].set()
        assert inside[1 - number].wait(HANG_S), "both are under way"
        if number == 0:
            assert ends.wait(HANG_S)
        return {}

    heard = iter((2, 1))
    monkeypatch.setattr(learner.handle, "submit", submit)
    monkeypatch.setattr(learner.handle, "policy", lambda: policies[next(heard)])
    monkeypatch.setattr(learner.handle, "abreast", 2)

    async def work() -> None:
        first, second = (asyncio.create_task(learner.update(Work({}))) for _ in range(2))
        await asyncio.wait((first, second), return_when=asyncio.FIRST_COMPLETED)
        assert learner.policy.version == 2
        ends.set()
        await asyncio.gather(first, second)

    with threads:
        run(work())
    assert (learner.policy.version, learner.actor.policy.version) == (2, 2)
    assert (learner.bound.outstanding, learner.progress.updates) == (0, 2)


def test_one_nan_is_skipped_and_three_in_a_row_are_the_end(
    make: Make, monkeypatch: pytest.MonkeyPatch, memory: Memory, hub: MetricsHub
) -> None:
    learner = make(most=0)
    gate = Gate(learner, monkeypatch, NonFiniteError("behavior 'Agent': the loss is NaN"))
    gate.open.set()
    before = learner.policy

    async def work() -> None:
        for _ in range(2):
            await learn(learner)
        collect(learner)
        with pytest.raises(NonFiniteError, match="the loss is NaN"):
            await learner.hand_over()

    run(work())
    hub.drain(5.0)
    assert learner.policy is learner.actor.policy is before
    assert learner.progress.updates == 0
    assert gate.released == 3
    assert len(memory.warnings) == 3


def test_a_policy_that_came_before_nan_acts_no_more(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    learner, acted_with = make(most=1), list[Policy]()

    def published(work: WorkData, progress: float, publish: Publish | None) -> dict[str, float]:
        assert publish is not None
        publish(make(seed=5).policy)
        acted_with.append(learner.actor.policy)
        raise NonFiniteError("behavior 'Agent': the loss is NaN")

    monkeypatch.setattr(learner.algorithm, "update", published)
    before = learner.policy
    run(learn(learner))
    assert acted_with[0] is not before
    assert learner.actor.policy is learner.policy is before


def test_a_real_nan_in_the_rewards_keeps_the_weights(make: Make) -> None:
    learner = make(most=0)
    before = {name: values.copy() for name, values in learner.state()[0].items()}

    async def work() -> None:
        collect(learner, reward=float("nan"))
        await learner.hand_over()

    run(work())
    after = learner.state()[0]
    assert all(np.array_equal(after[name], values) for name, values in before.items())
    assert learner.error is None


def test_a_defect_reaches_those_who_wait(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = make(most=0)
    gate = Gate(learner, monkeypatch, RuntimeError("shapes differ"))
    gate.open.set()

    async def work() -> None:
        collect(learner)
        with pytest.raises(RuntimeError, match="shapes differ"):
            await learner.hand_over()
        await learner.drain()

    run(work())
    assert not learner.bound.outstanding
    assert gate.released == 1


def test_shutdown_gives_up_what_waits(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = make(most=2)
    gate = Gate(learner, monkeypatch)

    async def work() -> None:
        for _ in range(2):
            collect(learner)
            await learner.hand_over()
        collect(learner)
        waiting = asyncio.create_task(learner.hand_over())
        await asyncio.sleep(0.02)
        assert not waiting.done()
        learner.give_up()
        await asyncio.wait_for(waiting, HANG_S)
        assert not gate.open.is_set(), "who waited is free before the update has come to its end"
        gate.open.set()
        await learner.drain()

    run(work())
    assert gate.updates == 1
    assert gate.released == 3, "what was given up is given back too"
    assert not learner.bound.outstanding


def test_after_update_is_awaited_before_the_next(make: Make) -> None:
    versions: list[int] = []

    async def note(name: str) -> None:
        await asyncio.sleep(0.01)
        assert name == learner.name
        versions.append(learner.policy.version)

    learner = make(most=2, after=note)

    async def work() -> None:
        for _ in range(3):
            collect(learner)
            await learner.hand_over()
        await learner.drain()

    run(work())
    assert versions == [1, 2, 3]


def test_a_learner_that_is_done_learns_no_more(make: Make) -> None:
    learner = make()
    learner.count(1000)
    run(learn(learner))
    assert learner.progress.updates == 0


def test_rows_are_given_once(make: Make) -> None:
    learner = make()
    assert learner.new_rows(3).tolist() == [0, 1, 2]
    assert learner.new_rows(2).tolist() == [3, 4]


def test_a_restored_learner_goes_on_to_the_bit(make: Make) -> None:
    """Two updates against one, a checkpoint, and one more in another learner."""

    async def work() -> None:
        one = make(most=0)
        await learn(one)
        one.memory.clear()
        arrays, values = one.state()
        two = make(most=0, seed=99)
        two.restore(arrays, values)
        assert (two.decisions, two.policy.version, two.actor.policy.version) == (one.decisions, 1, 1)
        await learn(one)
        await learn(two)
        for name, array in one.state()[0].items():
            assert np.array_equal(array, two.state()[0][name]), name
        assert one.actor.rng.bit_generator.state == two.actor.rng.bit_generator.state

    run(work())


def test_forget_open_leaves_nothing(make: Make) -> None:
    learner = make()
    collect(learner)
    learner.memory.clear()
    assert len(learner.memory.open_rows) == 0
    assert learner.algorithm.memory.completed == 0  # type: ignore[attr-defined]
    assert len(learner.algorithm.memory) == 0  # type: ignore[arg-type]


def test_why_it_was_never_updated_where_agents_act_elsewhere(make: Make) -> None:
    learner = make()
    learner.progress.decisions, learner.progress.samples = 200, 200
    assert "200 decisions did not fill" in learner.why_never(here=False)
    learner.progress.samples = 20
    assert "180 of 200 decisions have no outcome" in learner.why_never(here=False)
    assert "200 decisions did not fill" in learner.why_never(here=True), "its own memory has lost none"
