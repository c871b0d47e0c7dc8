"""How fast learning may go beside collection."""

from __future__ import annotations

import asyncio

import pytest

from tau_trainer.metrics import keys
from tau_trainer.training.learning.age_bound import AgeBound
from tests.training.actors.stage import FakeLearner, Stage, settle
from tests.waiting import HANG_S, run


async def test_learning_takes_what_the_samples_have_earned_and_waits_for_more() -> None:
    stage = Stage(FakeLearner(steps_per_update=2.0))
    await stage.trainer.put(stage.push(11))
    await settle()
    assert (stage.learner.progress.samples, stage.learner.progress.opts) == (11, 5)
    await stage.trainer.put(stage.push(1))
    await settle()
    assert stage.learner.progress.opts == 5, "(12 - 1) / 2"
    await stage.trainer.finish()
    assert stage.learner.progress.opts == 5


async def test_between_its_bounds_learning_goes_on_without_new_samples_and_never_beyond() -> None:
    """Least 0.5, most 2 samples for each opt, both counted from the warm-up on."""
    stage = Stage(FakeLearner(buffer_init_steps=10), samples_per_update=[0.5, 2.0])
    await stage.trainer.put(stage.push(9))
    await settle()
    assert stage.learner.progress.opts == 0
    await stage.trainer.put(stage.push(101))
    await settle()
    assert stage.learner.progress.opts == 200
    assert stage.learner.taken[2:] == [(None, 0, 36), (None, 0, 64), (None, 0, 36)], "up to each sync_interval"


@pytest.mark.parametrize(("mode", "opts"), [("free", 80), ("lock_step", 10)])
async def test_auto_is_as_many_as_fit_but_in_a_run_that_can_be_repeated(mode: str, opts: int) -> None:
    stage = Stage(FakeLearner(steps_per_update="auto"), mode=mode)
    for samples in (1, 80):
        if mode == "free":
            await stage.trainer.put(stage.push(samples))
            await settle()
        else:
            await stage.trainer.take_in(stage.push(samples), anew=False)
    assert (stage.learner.progress.samples, stage.learner.progress.opts) == (81, opts)
    await stage.trainer.finish()


async def test_the_lag_of_a_transition_is_the_opts_between_its_weights_and_its_learning() -> None:
    stage = Stage(sync_interval=10)
    first = stage.learner.policy.version
    await stage.trainer.put(stage.push(41))
    await settle()
    newest = stage.channel.read()
    assert newest.opts == 40
    await stage.trainer.put(stage.push(9, version=newest.version))
    await stage.trainer.put(stage.push(9, version=first))
    await stage.trainer.finish()
    assert stage.trainer.recorded.lag.most == 49
    assert stage.trainer.recorded.lag.mean == pytest.approx((42 * 0 + 10 * 0 + 10 * 49) / 62)
    summary = stage.hub.flush("Agent", 41)
    assert summary.statistics[keys.POLICY_LAG].max == 49


async def test_learning_waits_for_an_actor_that_is_too_far_behind_and_no_transition_is_older_than_the_bound() -> None:
    """Actor 1 does one thing for long; actor 0 pushes on, until the bounds hold it too."""
    stage = Stage(sync_interval=10, max_policy_lag=50, channel_capacity=2)
    for actor in range(2):
        stage.trainer.begins(actor)
    first = stage.learner.policy.version
    pushing = []
    for _ in range(8):
        newest = stage.channel.read().version
        pushing.append(asyncio.create_task(stage.trainer.put(stage.push(20, 0, newest))))
        await settle()
    assert stage.learner.progress.opts == 50, "of 160 samples"
    assert stage.learner.progress.samples == 60, "samples_per_update holds actor 0"
    assert not pushing[-1].done()
    await asyncio.wait_for(stage.trainer.put(stage.push(5, 1, first)), HANG_S)
    await settle()
    assert stage.trainer.recorded.lag.most == 50
    assert stage.learner.progress.opts == 50, "it has said nothing of newer weights yet"
    stage.trainer.current(1, stage.channel.read().version)
    await settle()
    assert stage.learner.progress.opts == 100
    stage.trainer.leaves(1)
    await asyncio.gather(*pushing)
    await settle()
    assert stage.learner.progress.samples == 165
    assert stage.trainer.recorded.lag.most == 50
    await stage.trainer.finish()


def test_a_run_that_goes_on_without_its_experience_is_warmed_up_anew_and_owes_nothing() -> None:
    async def scenario(remembers: bool, opts: int) -> None:
        learner = FakeLearner(buffer_init_steps=20)
        learner.progress.samples, learner.progress.opts, learner.remembers = 1000, 700, remembers
        stage = Stage(learner)
        await stage.trainer.put(stage.push(19))
        await settle()
        assert learner.progress.opts == (999 if remembers else 700)
        await stage.trainer.put(stage.push(11))
        await stage.trainer.finish()
        assert learner.progress.opts == opts
        assert stage.trainer.recorded.lines()[2].startswith(f"{opts:,} opts")

    run(scenario(remembers=True, opts=1010))
    run(scenario(remembers=False, opts=710))


async def test_new_samples_come_before_steps_that_are_allowed_but_not_owed() -> None:
    stage = Stage(samples_per_update=[0.5, 2.0])
    await stage.trainer.put(stage.push(101, actor=0))
    await stage.trainer.put(stage.push(10, actor=1))
    await settle()
    assert stage.learner.taken[:2] == [(0, 101, 64), (1, 10, 36)]
    assert stage.learner.progress.opts == 220


async def test_at_the_end_only_what_is_owed_is_still_learned() -> None:
    stage = Stage(samples_per_update=[0.5, 2.0])
    await stage.trainer.put(stage.push(101))
    await stage.trainer.finish()
    assert stage.learner.progress.opts == 50


async def test_rollouts_are_learned_from_whole_and_what_makes_none_is_left_out() -> None:
    stage = Stage(FakeLearner(rollout_size=20), sync_interval=1000)
    learner = stage.learner
    for samples, actor, version in ((8, 1, 5), (8, 0, 6), (3, 1, 7)):
        await stage.trainer.put(stage.push(samples, actor, version))
    await settle()
    assert learner.taken == []
    await stage.trainer.put(stage.push(2, 1, 7))
    await settle()
    assert learner.taken == [(0, 21, 3)]
    assert learner.versions == [6] * 9 + [5] * 9 + [7] * 4 + [7] * 3, "actor by actor, with what is open in each"
    assert stage.channel.read().version == 8, "actors act with the new weights at once"
    await stage.trainer.put(stage.push(19))
    await stage.trainer.finish()
    assert (len(learner.taken), learner.progress.samples) == (1, 21)


async def test_as_many_rollouts_are_learned_from_at_a_time_as_there_are_learners() -> None:
    """Of a parameter server: what comes then waits, and figures count every update once."""
    stage = Stage(FakeLearner(rollout_size=20), eval_interval=4)
    stage.learner.bound = AgeBound(1, on_policy=True, abreast=2)
    stage.learner.free.clear()
    for _ in range(2):
        await asyncio.wait_for(stage.trainer.put(stage.push(20)), HANG_S)
        await settle()
    waits = asyncio.create_task(stage.trainer.put(stage.push(20)))
    await settle()
    assert not waits.done()
    stage.learner.free.set()
    await asyncio.wait_for(waits, HANG_S)
    await stage.trainer.finish()
    assert stage.learner.steps == [3, 3, 3]
    assert stage.evaluated == [6, 9], "one for every fourth, whoever was under way meanwhile"
    assert stage.trainer.recorded._cost.opts == 0, "written down"


async def test_no_rollout_is_learned_from_beyond_max_opts() -> None:
    stage = Stage(FakeLearner(rollout_size=20), max_opts=3)
    for _ in range(2):
        await stage.trainer.put(stage.push(20))
        await settle()
    await stage.trainer.finish()
    assert [rows for _, rows, _ in stage.learner.taken] == [20]
