from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

from tau_trainer.algorithms import Counters, Publish
from tau_trainer.algorithms.off_policy.sac import SAC
from tau_trainer.errors import NonFiniteError
from tau_trainer.memory import Work, WorkData
from tau_trainer.metrics import MetricsHub, keys
from tau_trainer.models import Policy
from tau_trainer.training.learning import age_bound
from tau_trainer.training.learning.age_bound import AgeBound
from tau_trainer.training.learning.learner import Learner
from tests.training.fakes import Memory
from tests.training.learners import collect, make_learner
from tests.waiting import HANG_S

Make = Callable[..., Learner]


@pytest.fixture
def make(hub: MetricsHub, executor: ThreadPoolExecutor) -> Make:
    return partial(make_learner, hub, executor, summary_freq=32, checkpoint_interval=64)


def run(work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    asyncio.run(asyncio.wait_for(work(), HANG_S))


async def learn(learner: Learner) -> None:
    """One rollout, and the update that it makes."""
    collect(learner)
    await learner.hand_over()
    await learner.drain()


class Gate:
    """Holds every update until it is opened."""

    def __init__(self, learner: Learner, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.open = threading.Event()
        self.updates = 0
        self.released = 0
        self.publishes: list[bool] = []
        update, take = learner.algorithm.update, learner.memory.take  # type: ignore[attr-defined]

        def gated(work: WorkData, progress: float, publish: Publish | None) -> dict[str, float]:
            assert self.open.wait(HANG_S)
            self.updates += 1
            self.publishes.append(publish is not None)
            if error is not None:
                raise error
            return update(work, progress, publish)

        def counted() -> Any:
            work = take()

            def release() -> None:
                self.released += 1
                work.release()

            return type(work)(work.data, release)

        monkeypatch.setattr(learner.algorithm, "update", gated)
        monkeypatch.setattr(learner.memory, "take", counted)


def test_an_update_makes_the_next_version(make: Make, memory: Memory, hub: MetricsHub) -> None:
    learner = make(validator=lambda policy: {keys.VALIDATION_ACCURACY: float(policy.version)})
    run(lambda: learn(learner))
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
        run(lambda: learn(learner))
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
            run(lambda learner=learner: learn(learner))  # type: ignore[misc]
        learner.progress.decisions = 32 * 200
        again = make(validator=validator, max_steps=most)
        again.restore(*learner.state())
        for _ in range(9):
            run(lambda again=again: learn(again))  # type: ignore[misc]
    # 2 % of 6,400 decisions are four updates.
    assert scored == {1_000_000: [1, 2, 3, 4, 8, 12], 1_000_000_000: [1, 2, 3, 4, 8, 12]}


def test_the_last_policy_is_scored_like_those_before_it(make: Make) -> None:
    scores = (0.1, 0.0), (0.5, 0.0), (0.5, 0.0), (0.9, 0.0), (0.2, 0.0)
    learner = make(validator=scripted(*scores), max_steps=1_000_000_000)
    for _ in range(3):
        run(lambda: learn(learner))
    assert learner.tracker.best is not None
    assert learner.tracker.best.policy is learner.tracker.last(learner.policy).policy
    assert learner.tracker.validate_last(learner.policy) == {}, "it has been"
    learner.tracker._next = 10**6
    run(lambda: learn(learner))
    before = learner.state()[1]
    assert (learner.tracker.last(learner.policy).scores, learner.tracker.best.policy.version) == ({}, 3)
    assert learner.tracker.validate_last(learner.policy) == {keys.VALIDATION_ACCURACY: 0.9, keys.VALIDATION_REWARD: 0.0}
    assert learner.tracker.last(learner.policy).rank == pytest.approx((1.9 / 3, 0.0)), "a mean of three"
    assert learner.tracker.best.policy.version == 4
    after = learner.state()[1]
    assert before.pop("best") != after.pop("best")
    assert before == after, "a run that goes on validates what it would have"
    run(lambda: learn(learner))
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
        run(lambda learner=learner: learn(learner))  # type: ignore[misc]
        assert learner.tracker.best is None


def test_the_best_policy_goes_through_a_checkpoint_and_is_beaten_only_by_a_better_one(make: Make) -> None:
    learner = make(validator=scripted((0.5, 0.0), (0.1, 0.0)))
    for _ in range(2):
        run(lambda: learn(learner))
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
    run(lambda: learn(again))
    assert again.tracker.best.policy.version == 1, "0.5, 0.1 and 0.8 are no better on average"
    run(lambda: learn(again))
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

    run(work)
    assert not learner.bound.outstanding
    assert learner.progress.updates == 0


def test_collection_goes_on_during_an_update_until_the_bound(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = make(most=1)
    gate = Gate(learner, monkeypatch)

    async def work() -> None:
        collect(learner)
        await asyncio.wait_for(learner.hand_over(), HANG_S)
        assert learner.bound.outstanding, "an update runs, and nobody waited for it"
        collect(learner)
        waiting = asyncio.create_task(learner.hand_over())
        await asyncio.sleep(0.05)
        assert not waiting.done(), "a second rollout may not pile up"
        assert gate.released == 0, "a rollout that is learned from is not written to"
        gate.open.set()
        await asyncio.wait_for(waiting, HANG_S)
        await learner.drain()

    run(work)
    assert gate.updates == gate.released == 2
    assert learner.bound.held_seconds > 0.03
    assert learner.progress.policy_age == pytest.approx(1.0)


def test_an_update_under_way_is_no_first_one_to_come(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a replay memory would wait for all of buffer_init_steps again before its second update."""
    learner = make(most=1)
    gate, asked, ready = Gate(learner, monkeypatch), list[int](), learner.algorithm.ready

    def noted(counters: Counters) -> Work | None:
        asked.append(counters.updates)
        return ready(counters)

    monkeypatch.setattr(learner.algorithm, "ready", noted)

    async def work() -> None:
        collect(learner)
        await learner.hand_over()
        await learner.hand_over()
        gate.open.set()
        await learner.drain()
        await learner.hand_over()

    run(work)
    assert asked == [0, 1, 1]


@pytest.mark.parametrize(("most", "publishes"), [(0, False), (1, True)])
def test_agents_act_with_the_policy_so_far_unless_they_take_turns(
    make: Make, monkeypatch: pytest.MonkeyPatch, most: int, publishes: bool
) -> None:
    learner = make(most=most)
    gate, first = Gate(learner, monkeypatch), learner.policy
    gate.open.set()
    acted_with: list[Policy] = []
    monkeypatch.setattr(learner, "_publish", acted_with.append)
    run(lambda: learn(learner))
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
    run(lambda: learner.update(work, published.append))
    assert {policy.version for policy in published} == {1}
    assert learner.policy.version == 1


def test_agents_go_on_just_in_time_to_fill_the_next_buffer(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an update takes longer than filling a buffer, what is collected at its begin would only be older."""
    learner = make(most=1)
    gate = Gate(learner, monkeypatch)
    now = 100.0
    monkeypatch.setattr(age_bound, "_now", lambda: now)

    async def work() -> None:
        nonlocal now
        learner.bound._last_update_seconds, learner.bound._collecting_since = 5.0, now
        now += 2.5  # seconds that filling took, and a tenth more: agents fill the next in the last 2.75 of five
        collect(learner)
        waiting = asyncio.create_task(learner.hand_over())
        await asyncio.sleep(0.05)
        assert not waiting.done()
        now += 2.2
        early = asyncio.create_task(learner.hand_over())
        await asyncio.sleep(0.05)
        assert not early.done()
        now += 0.1
        await asyncio.wait_for(learner.hand_over(), HANG_S)
        assert learner.bound.outstanding, "others that come later do not wait"
        gate.open.set()
        await asyncio.wait_for(asyncio.gather(waiting, early), HANG_S)  # an update that ends early ends the wait
        assert not learner.bound.outstanding

    run(work)
    assert learner.bound._last_update_seconds != 5.0


def test_of_several_learners_agents_wait_for_the_one_that_is_free_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two that take five seconds each one is free after two and a half; as long as one is idle nobody waits."""
    now = 100.0
    monkeypatch.setattr(age_bound, "_now", lambda: now)
    bound = AgeBound(1, on_policy=True, abreast=2)
    assert bound.most == 2
    bound._last_update_seconds, bound._collecting_since = 5.0, now
    waits: list[bool] = []
    for seconds in (1.0, 1.0, 1.4):
        now += seconds
        if len(waits) < 2:
            bound.comes()
        waits.append(bound.reached)
    assert waits == [False, True, False], "the second fills until 2.5 s, a tenth more than a second before the end"
    bound.comes()
    assert bound.reached, "the third waits for one of two"
    bound.goes(2)
    assert bound.outstanding == 1
    assert waits.count(bound.reached) == 2


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
        run(work)
    assert (learner.policy.version, learner.actor.policy.version) == (2, 2)
    assert (learner.bound.outstanding, learner.progress.updates) == (0, 2)


def test_nobody_waits_where_experience_of_an_older_policy_is_as_good(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not SAC.on_policy
    learner = make(most=1)
    gate = Gate(learner, monkeypatch)
    monkeypatch.setattr(learner.bound, "_on_policy", False)

    async def work() -> None:
        learner.bound._last_update_seconds, learner.bound._collecting_since = 5.0, age_bound._now() - 2.5
        collect(learner)
        await asyncio.wait_for(learner.hand_over(), HANG_S)
        assert learner.bound.outstanding
        gate.open.set()
        await learner.drain()

    run(work)


def test_it_is_planned_anew_when_an_update_begins_that_had_to_wait(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = make(most=1)
    gate = Gate(learner, monkeypatch)
    now = 100.0
    monkeypatch.setattr(age_bound, "_now", lambda: now)
    monkeypatch.setattr(learner, "_report", lambda outcome: None)

    async def work() -> None:
        nonlocal now
        learner.bound._collecting_since = now
        collect(learner)
        await learner.hand_over()
        now += 2.0
        collect(learner)  # in two seconds, while the first update runs
        waiting = asyncio.create_task(learner.hand_over())
        await asyncio.sleep(0.05)
        now, learner.bound._last_update_seconds = 103.0, 5.0
        gate.open.set()
        await asyncio.wait_for(asyncio.gather(waiting, learner.drain()), HANG_S)
        assert learner.bound._held_until == pytest.approx(103.0 + 5.0 - 1.1 * 2.0)

    run(work)


def test_where_filling_a_buffer_takes_longer_nobody_waits(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = make(most=1)
    gate = Gate(learner, monkeypatch)

    async def work() -> None:
        learner.bound._last_update_seconds, learner.bound._collecting_since = 5.0, age_bound._now() - 6.0
        collect(learner)
        await asyncio.wait_for(learner.hand_over(), HANG_S)
        assert learner.bound.outstanding
        gate.open.set()
        await learner.drain()

    run(work)


def test_a_bound_of_zero_takes_turns(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = make(most=0)
    gate = Gate(learner, monkeypatch)

    async def work() -> None:
        collect(learner)
        waiting = asyncio.create_task(learner.hand_over())
        await asyncio.sleep(0.05)
        assert not waiting.done()
        gate.open.set()
        await waiting
        assert not learner.bound.outstanding
        assert learner.policy.version == 1

    run(work)


def test_time_in_which_several_pairs_wait_counts_once(
    make: Make, monkeypatch: pytest.MonkeyPatch, hub: MetricsHub
) -> None:
    learner = make(most=0)
    gate = Gate(learner, monkeypatch)

    async def work() -> None:
        collect(learner)
        pairs = [asyncio.create_task(learner.hand_over()) for _ in range(3)]
        await asyncio.sleep(0.02)
        gate.open.set()
        await asyncio.gather(*pairs)

    run(work)
    assert hub.flush("Agent", 32).statistics[keys.HELD_SECONDS].count == 1


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

    run(work)
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
    run(lambda: learn(learner))
    assert acted_with[0] is not before
    assert learner.actor.policy is learner.policy is before


def test_a_real_nan_in_the_rewards_keeps_the_weights(make: Make) -> None:
    learner = make(most=0)
    before = {name: values.copy() for name, values in learner.state()[0].items()}

    async def work() -> None:
        collect(learner, reward=float("nan"))
        await learner.hand_over()

    run(work)
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

    run(work)
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

    run(work)
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

    run(work)
    assert versions == [1, 2, 3]


def test_a_summary_every_so_many_decisions(make: Make, memory: Memory, hub: MetricsHub) -> None:
    learner = make()
    for _ in range(10):
        learner.count(10)
    hub.drain(5.0)
    assert [summary.step for summary in memory.summaries] == [40, 70, 100]
    assert all(summary.training for summary in memory.summaries)


def test_done_after_max_steps_and_not_before(make: Make) -> None:
    learner = make()
    learner.count(999)
    almost = learner.done
    learner.count(1)
    assert (almost, learner.done) == (False, True)
    assert learner.progress.max_steps == 1000


def test_a_learner_that_is_done_learns_no_more(make: Make) -> None:
    learner = make()
    learner.count(1000)
    run(lambda: learn(learner))
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

    run(work)


def test_forget_open_leaves_nothing(make: Make) -> None:
    learner = make()
    collect(learner)
    learner.memory.clear()
    assert len(learner.memory.open_rows) == 0
    assert learner.algorithm.memory.completed == 0  # type: ignore[attr-defined]
    assert len(learner.algorithm.memory) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("max_steps", "given", "points"), [(40, "auto", 20), (400, "auto", 20), (7, "auto", 7), (40, 32, 2), (400, 100, 4)]
)
def test_a_short_run_has_a_curve_too_and_one_that_is_asked_for_is_kept(
    make: Make, memory: Memory, hub: MetricsHub, max_steps: int, given: int | str, points: int
) -> None:
    learner = make(max_steps=max_steps, summary_freq=given)
    while not learner.done:
        learner.count(1)
    learner.flush()
    hub.drain(5.0)
    assert len(memory.summaries) == points
    assert memory.summaries[-1].step == max_steps


def test_a_learner_that_is_done_is_measured_up_to_its_last_decision(
    make: Make, hub: MetricsHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, rested = make(max_steps=40), list[int]()
    monkeypatch.setattr(hub, "rest", lambda name: rested.append(learner.decisions))
    for _ in range(5):
        learner.count(16)
    assert rested == [48, 64, 80], "its agents may go on while others are not done"


def test_the_last_word_is_that_of_the_last_summary_and_goes_on_with_the_run(make: Make, hub: MetricsHub) -> None:
    """What has ended since the last summary is in a checkpoint too, and counts in the next."""
    whole, cut = make(name="whole", summary_freq=100), make(name="cut", summary_freq=100)
    for learner in (whole, cut):
        hub.episode(learner.name, 0, [0.0] * 50, [1] * 50)
        learner.count(100)
        hub.episode(learner.name, 0, [20.0, 10.0], [1, 1], [3.0, 5.0])
    assert (whole.progress.rewards.mean, whole.progress.rewards.group_mean, whole.progress.rewards.episodes) == (
        0.0,
        None,
        50,
    )
    arrays, values = cut.state()
    resumed = make(name="resumed", summary_freq=100)
    resumed.restore(arrays, json.loads(json.dumps(values)))
    assert (resumed.progress.rewards.mean, resumed.progress.rewards.episodes) == (0.0, 50)
    for learner in (whole, resumed):
        hub.episode(learner.name, 0, [0.0], [1], [1.0])
        learner.count(100)
        rewards = learner.progress.rewards
        assert (rewards.mean, rewards.group_mean, rewards.episodes) == (10.0, 3.0, 3)


def test_why_it_was_never_updated_where_agents_act_elsewhere(make: Make) -> None:
    learner = make()
    learner.progress.decisions, learner.progress.samples = 200, 200
    assert "200 decisions did not fill" in learner.why_never(here=False)
    learner.progress.samples = 20
    assert "180 of 200 decisions have no outcome" in learner.why_never(here=False)
    assert "200 decisions did not fill" in learner.why_never(here=True), "its own memory has lost none"
