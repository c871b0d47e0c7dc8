"""AsyncTrainer, fed by hand: how much is learned from how much, who waits, and what is due when."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tau_trainer.errors import NonFiniteError
from tau_trainer.metrics import keys
from tau_trainer.training.learning.age_bound import AgeBound
from tests.training.actors.stage import FakeLearner, Policy, Stage, settle
from tests.waiting import HANG_S


async def test_actors_wait_once_the_channel_is_full_and_nothing_is_lost() -> None:
    stage = Stage(channel_capacity=2)
    stage.learner.free.clear()
    waiting = [asyncio.create_task(stage.trainer.put(stage.push(5, actor))) for actor in range(6)]
    await settle()
    assert [one.done() for one in waiting] == [True, True, False, False, False, False]
    stage.learner.free.set()
    await asyncio.gather(*waiting)
    await stage.trainer.finish()
    assert sorted(source for source, rows, _ in stage.learner.taken if rows == 5 and source is not None) == [*range(6)]
    assert stage.learner.progress.samples == 30
    assert stage.learner.progress.opts == 29


async def test_a_stop_lets_everything_in_at_once() -> None:
    stage = Stage(channel_capacity=1)
    stage.learner.free.clear()
    waiting = [asyncio.create_task(stage.trainer.put(stage.push(5, actor))) for actor in range(4)]
    await settle()
    stage.trainer.open()
    await asyncio.wait_for(asyncio.gather(*waiting), HANG_S)
    stage.learner.free.set()
    await stage.trainer.finish()
    assert stage.learner.progress.samples == 20


async def test_at_max_opts_learning_ends_to_the_step_and_what_still_comes_is_taken_in() -> None:
    stage = Stage(max_opts=30)
    await stage.trainer.put(stage.push(20))
    await settle()
    assert (stage.learner.progress.opts, stage.trainer.done, stage.done) == (19, False, 0)
    await stage.trainer.put(stage.push(20))
    await settle()
    assert (stage.learner.progress.opts, stage.trainer.done, stage.done) == (30, True, 1)
    await stage.trainer.put(stage.push(20))
    await stage.trainer.finish()
    assert (stage.learner.progress.opts, stage.learner.progress.samples) == (30, 60)
    assert stage.channel.read().opts == 30, "the newest weights are there at the end"


async def test_everything_is_due_at_the_multiples_of_its_interval() -> None:
    stage = Stage(sync_interval=20, eval_interval=40, max_opts=220)
    for _ in range(10):
        await stage.trainer.put(stage.push(30))
        await settle()
    assert stage.evaluated == [40, 80, 120, 160, 200], "floor(max_opts / eval_interval) of them"
    assert stage.channel.written == 1 + 11
    await stage.trainer.finish()


async def test_losses_are_recorded_as_means_and_none_is_lost_between_two_records() -> None:
    stage = Stage(sync_interval=10)
    await stage.trainer.put(stage.push(41))
    await settle()
    await stage.trainer.finish()
    summary = stage.hub.flush("Agent", 41)
    assert summary.values["Losses/Some"] == pytest.approx(25.0), "of 10, 20, 30 and 40, ten opts each"
    assert summary.values[keys.AVERAGE_OPT_TIME] == pytest.approx(2.0)
    assert summary.values[keys.SAMPLES_PER_OPT] == pytest.approx(41 / 40)


async def test_costs_of_nothing_are_minus_one() -> None:
    stage = Stage(FakeLearner(buffer_init_steps=100))
    await stage.trainer.put(stage.push(41))
    await settle()
    await stage.trainer.finish()
    summary = stage.hub.flush("Agent", 41)
    assert summary.values[keys.AVERAGE_OPT_TIME] == -1.0
    assert summary.values[keys.AVERAGE_SAMPLE_TIME] == 0.0


async def test_what_ends_learning_is_told_to_whoever_pushes() -> None:
    stage = Stage(channel_capacity=1)
    stage.learner.free.clear()
    waiting = [asyncio.create_task(stage.trainer.put(stage.push(5))) for _ in range(3)]
    await settle()
    stage.learner.error = NonFiniteError("NaN three times")
    stage.learner.free.set()
    results = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), HANG_S)
    assert [type(one) for one in results] == [type(None), NonFiniteError, NonFiniteError]
    assert stage.done == 1
    await stage.trainer.finish()


async def test_while_a_rollout_is_learned_from_the_next_comes_in_and_no_further_one() -> None:
    stage = Stage(FakeLearner(rollout_size=20))
    stage.learner.free.clear()
    for _ in range(3):
        await asyncio.wait_for(stage.trainer.put(stage.push(10)), HANG_S)
        await settle()
    waits = [asyncio.create_task(stage.trainer.put(stage.push(10))) for _ in range(2)]
    await settle()
    assert not any(task.done() for task in waits), "who is told now goes on with weights that are too old"
    stage.learner.free.set()
    await asyncio.wait_for(asyncio.gather(*waits), HANG_S)
    await settle()
    assert [rows for _, rows, _ in stage.learner.taken] == [20, 30]


async def test_while_an_update_runs_actors_hear_as_late_as_pairs_act_on() -> None:
    stage = Stage(FakeLearner(rollout_size=20))
    bound = stage.learner.bound = AgeBound(0, on_policy=True)
    bound.comes()
    waits = asyncio.create_task(stage.trainer.put(stage.push(5)))
    await settle()
    assert not waits.done()
    bound.goes()
    await asyncio.wait_for(waits, HANG_S)


@pytest.mark.parametrize(("mode", "rollout_size", "published"), [("free", 20, 9), ("free", 0, 7), ("lock_step", 20, 7)])
async def test_actors_get_policies_in_the_middle_of_an_update_from_a_rollout_but_in_lock_step(
    mode: str, rollout_size: int, published: int
) -> None:
    stage = Stage(FakeLearner(rollout_size=rollout_size, steps_per_update=1.0), mode=mode)
    if mode == "lock_step":
        await stage.trainer.take_in(stage.push(20), anew=False)
    else:
        await stage.trainer.put(stage.push(20))
        await settle()
    if stage.learner.publish is not None:
        stage.learner.publish(cast(Any, Policy(9)))
    assert stage.channel.read().version == published
