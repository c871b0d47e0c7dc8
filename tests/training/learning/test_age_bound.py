"""How long agents act with an older policy."""

from __future__ import annotations

import asyncio

import pytest

from tau_trainer.algorithms import Counters
from tau_trainer.algorithms.off_policy.sac import SAC
from tau_trainer.memory import Work
from tau_trainer.metrics import MetricsHub, keys
from tau_trainer.training.learning import age_bound
from tau_trainer.training.learning.age_bound import AgeBound
from tests.training.learners import collect
from tests.training.learning.learning import Gate, MakeLoop, gated
from tests.waiting import HANG_S


async def test_collection_goes_on_during_an_update_until_the_bound(
    make_one: MakeLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, learner, gate = gated(make_one, monkeypatch)
    collect(learner)
    await asyncio.wait_for(loop.hand_over(), HANG_S)
    assert loop.bound.outstanding, "an update runs, and nobody waited for it"
    collect(learner)
    waiting = asyncio.create_task(loop.hand_over())
    await asyncio.sleep(0.05)
    assert not waiting.done(), "a second rollout may not pile up"
    assert gate.released == 0, "a rollout that is learned from is not written to"
    gate.open.set()
    await asyncio.wait_for(waiting, HANG_S)
    await loop.drain()
    assert gate.updates == gate.released == 2
    assert loop.bound.held_seconds > 0.03
    assert learner.progress.policy_age == pytest.approx(1.0)


async def test_an_update_under_way_is_no_first_one_to_come(make_one: MakeLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a replay memory would wait for all of buffer_init_steps again before its second update."""
    loop = make_one(most=1)
    learner = loop.learner
    gate, asked, ready = Gate(learner, monkeypatch), list[int](), learner.algorithm.ready

    def noted(counters: Counters) -> Work | None:
        asked.append(counters.updates)
        return ready(counters)

    monkeypatch.setattr(learner.algorithm, "ready", noted)

    collect(learner)
    await loop.hand_over()
    await loop.hand_over()
    gate.open.set()
    await loop.drain()
    await loop.hand_over()
    assert asked == [0, 1, 1]


async def test_agents_go_on_just_in_time_to_fill_the_next_buffer(
    make_one: MakeLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an update takes longer than filling a buffer, what is collected at its begin would only be older."""
    loop, learner, gate = gated(make_one, monkeypatch)
    now = 100.0
    monkeypatch.setattr(age_bound, "_now", lambda: now)

    loop.bound._last_update_seconds, loop.bound._collecting_since = 5.0, now
    now += 2.5  # seconds that filling took, and a tenth more: agents fill the next in the last 2.75 of five
    collect(learner)
    waiting = asyncio.create_task(loop.hand_over())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    now += 2.2
    early = asyncio.create_task(loop.hand_over())
    await asyncio.sleep(0.05)
    assert not early.done()
    now += 0.1
    await asyncio.wait_for(loop.hand_over(), HANG_S)
    assert loop.bound.outstanding, "others that come later do not wait"
    gate.open.set()
    await asyncio.wait_for(asyncio.gather(waiting, early), HANG_S)  # an update that ends early ends the wait
    assert not loop.bound.outstanding
    assert loop.bound._last_update_seconds != 5.0


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


@pytest.mark.parametrize(
    ("on_policy", "collecting_s"),
    [(False, 2.5), (True, 6.0)],
    ids=["experience of an older policy is as good", "filling a buffer takes longer than an update"],
)
async def test_nobody_waits(
    make_one: MakeLoop, monkeypatch: pytest.MonkeyPatch, on_policy: bool, collecting_s: float
) -> None:
    assert not SAC.on_policy
    loop, learner, gate = gated(make_one, monkeypatch)
    monkeypatch.setattr(loop.bound, "_on_policy", on_policy)

    loop.bound._last_update_seconds = 5.0
    loop.bound._collecting_since = age_bound._now() - collecting_s
    collect(learner)
    await asyncio.wait_for(loop.hand_over(), HANG_S)
    assert loop.bound.outstanding
    gate.open.set()
    await loop.drain()


async def test_it_is_planned_anew_when_an_update_begins_that_had_to_wait(
    make_one: MakeLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, learner, gate = gated(make_one, monkeypatch)
    now = 100.0
    monkeypatch.setattr(age_bound, "_now", lambda: now)
    monkeypatch.setattr(loop.bound, "took", lambda seconds: None)

    loop.bound._collecting_since = now
    collect(learner)
    await loop.hand_over()
    now += 2.0
    collect(learner)  # in two seconds, while the first update runs
    waiting = asyncio.create_task(loop.hand_over())
    await asyncio.sleep(0.05)
    now, loop.bound._last_update_seconds = 103.0, 5.0
    gate.open.set()
    await asyncio.wait_for(asyncio.gather(waiting, loop.drain()), HANG_S)
    assert loop.bound._held_until == pytest.approx(103.0 + 5.0 - 1.1 * 2.0)


async def test_time_in_which_several_pairs_wait_counts_once(
    make_one: MakeLoop, monkeypatch: pytest.MonkeyPatch, hub: MetricsHub
) -> None:
    loop, learner, gate = gated(make_one, monkeypatch, 0)
    collect(learner)
    pairs = [asyncio.create_task(loop.hand_over()) for _ in range(3)]
    await asyncio.sleep(0.02)
    assert not any(pair.done() for pair in pairs), "a bound of zero takes turns"
    gate.open.set()
    await asyncio.gather(*pairs)
    assert (loop.bound.outstanding, learner.policy.version) == (0, 1)
    assert hub.flush("Agent", 32).statistics[keys.HELD_SECONDS].count == 1
