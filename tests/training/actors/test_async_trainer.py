"""AsyncTrainer, fed by hand: how much is learned from how much, who waits, and what is due when."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tau_trainer.algorithms import Publish
from tau_trainer.errors import NonFiniteError
from tau_trainer.memory import Rollout, RolloutMemory, StepFacts, Work
from tau_trainer.metrics import MetricsHub, keys
from tau_trainer.remote.channel import SharedBytes
from tau_trainer.remote.weights import WeightMemory, layout_of
from tau_trainer.settings import AsyncTrainerSettings, SACTrainerSettings
from tau_trainer.training.actors.async_trainer import AsyncTrainer
from tau_trainer.training.actors.pace import Push
from tau_trainer.training.learning.age_bound import AgeBound
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.learning.progress import Progress
from tests.memory.test_rollout import SENSORS
from tests.training.fakes import Memory
from tests.waiting import HANG_S

WEIGHTS = {"w": np.zeros(3, np.float32)}


class Policy:
    def __init__(self, version: int) -> None:
        self.version = version
        self.weights = WEIGHTS


class FakeLearner:
    """Counts what it is given; every gradient step takes no time."""

    def __init__(self, *, rollout_size: int = 0, **hyperparameters: Any) -> None:
        numbers = {"batch_size": 1, "buffer_size": 1000, **hyperparameters}
        self.settings = SACTrainerSettings.model_validate({"hyperparameters": numbers})
        self.algorithm = SimpleNamespace(rollout_size=rollout_size)
        self.name = "Agent"
        self.policy = Policy(7)
        self.progress = Progress("Agent", MetricsHub(), 100, 1000)
        self.error: Exception | None = None
        self.publish: Publish | None = None
        """Of the newest update."""
        self.bound = AgeBound(1, on_policy=True)
        self.done = False
        self.remembers = True
        self.taken: list[tuple[int | None, int, int]] = []
        """Source, transitions, gradient steps."""
        self.flushes = 0
        self.free = asyncio.Event()
        self.free.set()

    async def update(self, work: Work, publish: Publish | None = None) -> None:
        self.publish = publish
        await self.free.wait()
        if self.error is not None:
            raise self.error
        rows, steps = len(Rollout(work)), 3 if self.algorithm.rollout_size else work.gradient_steps
        assert steps is not None
        self.versions = work["version"][1:].tolist() if rows else []
        self.taken.append((work.source if rows else None, rows, steps))
        self.policy = Policy(self.policy.version + 1)
        statistics = {"Losses/Some": float(self.progress.opts + steps), keys.MINIBATCHES: float(steps)}
        self.progress.took(0.002 * steps, statistics if steps else None)

    def count(self, decisions: int) -> None:
        self.progress.decisions += decisions
        self.done = self.progress.decisions >= self.progress.max_steps

    def flush(self) -> None:
        self.flushes += 1
        assert self.progress.figures is not None
        self.progress.figures.record()

    @property
    def steps(self) -> list[int]:
        return [steps for _, _, steps in self.taken]


class Stage:
    """An AsyncTrainer with a fake learner, and what it asks for."""

    def __init__(self, learner: FakeLearner | None = None, **settings: Any) -> None:
        self.learner = learner or FakeLearner()
        self.shown = Memory()
        self.hub = self.learner.progress.hub = MetricsHub([self.shown])
        self.evaluated: list[int] = []
        self.done = 0
        self.channel = WeightMemory(SharedBytes(), layout_of(WEIGHTS))
        self.trainer = AsyncTrainer(
            cast(Learner, self.learner),
            AsyncTrainerSettings.model_validate(settings),
            self.channel,
            self,
        )

    async def request_evaluation(self, learner: Learner, opts: int) -> None:
        self.evaluated.append(opts)

    def wake(self) -> None:
        self.done += 1

    def push(self, samples: int, actor: int = 0, version: int | None = None) -> Push:
        """Transitions of one agent."""
        memory = RolloutMemory(SENSORS, (), rewards={"extrinsic": 1}, capacity=8, horizon=100)
        values: dict[str, Any] = {"obs_0": np.zeros((1, 1), np.float32), "obs_1": np.zeros((1, 2, 3), np.uint8)}
        acted = self.learner.policy.version if version is None else version
        for _ in range(samples + 1):
            memory.append(np.zeros(1, np.intp), StepFacts({"extrinsic": np.zeros((1, 1), np.float32)}), values, acted)
        return Push(Work(memory.take().data, source=actor), samples)


async def settle() -> None:
    """Let everything happen that can happen now."""
    for _ in range(300):
        await asyncio.sleep(0)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, HANG_S))


def test_learning_takes_what_the_samples_have_earned_and_waits_for_more() -> None:
    async def scenario() -> None:
        stage = Stage(FakeLearner(steps_per_update=2.0))
        await stage.trainer.put(stage.push(11))
        await settle()
        assert (stage.learner.progress.samples, stage.learner.progress.opts) == (11, 5)
        await stage.trainer.put(stage.push(1))
        await settle()
        assert stage.learner.progress.opts == 5, "(12 - 1) / 2"
        await stage.trainer.finish()
        assert stage.learner.progress.opts == 5

    run(scenario())


def test_between_its_bounds_learning_goes_on_without_new_samples_and_never_beyond() -> None:
    """Least 0.5, most 2 samples for each opt, both counted from the warm-up on."""

    async def scenario() -> None:
        stage = Stage(FakeLearner(buffer_init_steps=10), samples_per_update=[0.5, 2.0])
        await stage.trainer.put(stage.push(9))
        await settle()
        assert stage.learner.progress.opts == 0
        await stage.trainer.put(stage.push(101))
        await settle()
        assert stage.learner.progress.opts == 200
        assert stage.learner.taken[2:] == [(None, 0, 36), (None, 0, 64), (None, 0, 36)], "up to each sync_interval"

    run(scenario())


@pytest.mark.parametrize(("mode", "opts"), [("free", 80), ("lock_step", 10)])
def test_auto_is_as_many_as_fit_but_in_a_run_that_can_be_repeated(mode: str, opts: int) -> None:
    async def scenario() -> None:
        stage = Stage(FakeLearner(steps_per_update="auto"), mode=mode)
        for samples in (1, 80):
            if mode == "free":
                await stage.trainer.put(stage.push(samples))
                await settle()
            else:
                await stage.trainer.take_in(stage.push(samples), anew=False)
        assert (stage.learner.progress.samples, stage.learner.progress.opts) == (81, opts)
        await stage.trainer.finish()

    run(scenario())


def test_actors_wait_once_the_channel_is_full_and_nothing_is_lost() -> None:
    async def scenario() -> None:
        stage = Stage(channel_capacity=2)
        stage.learner.free.clear()
        waiting = [asyncio.create_task(stage.trainer.put(stage.push(5, actor))) for actor in range(6)]
        await settle()
        assert [one.done() for one in waiting] == [True, True, False, False, False, False]
        stage.learner.free.set()
        await asyncio.gather(*waiting)
        await stage.trainer.finish()
        assert sorted(source for source, rows, _ in stage.learner.taken if rows == 5 and source is not None) == [
            *range(6)
        ]
        assert stage.learner.progress.samples == 30
        assert stage.learner.progress.opts == 29

    run(scenario())


def test_a_stop_lets_everything_in_at_once() -> None:
    async def scenario() -> None:
        stage = Stage(channel_capacity=1)
        stage.learner.free.clear()
        waiting = [asyncio.create_task(stage.trainer.put(stage.push(5, actor))) for actor in range(4)]
        await settle()
        stage.trainer.open()
        await asyncio.wait_for(asyncio.gather(*waiting), HANG_S)
        stage.learner.free.set()
        await stage.trainer.finish()
        assert stage.learner.progress.samples == 20

    run(scenario())


def test_at_max_opts_learning_ends_to_the_step_and_what_still_comes_is_taken_in() -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_everything_is_due_at_the_multiples_of_its_interval() -> None:
    async def scenario() -> None:
        stage = Stage(sync_interval=20, eval_interval=40, max_opts=220)
        for _ in range(10):
            await stage.trainer.put(stage.push(30))
            await settle()
        assert stage.evaluated == [40, 80, 120, 160, 200], "floor(max_opts / eval_interval) of them"
        assert stage.channel.written == 1 + 11
        await stage.trainer.finish()

    run(scenario())


def test_losses_are_recorded_as_means_and_none_is_lost_between_two_records() -> None:
    async def scenario() -> None:
        stage = Stage(sync_interval=10)
        await stage.trainer.put(stage.push(41))
        await settle()
        await stage.trainer.finish()
        summary = stage.hub.flush("Agent", 41)
        assert summary.values["Losses/Some"] == pytest.approx(25.0), "of 10, 20, 30 and 40, ten opts each"
        assert summary.values[keys.AVERAGE_OPT_TIME] == pytest.approx(2.0)
        assert summary.values[keys.SAMPLES_PER_OPT] == pytest.approx(41 / 40)

    run(scenario())


def test_costs_of_nothing_are_minus_one() -> None:
    async def scenario() -> None:
        stage = Stage(FakeLearner(buffer_init_steps=100))
        await stage.trainer.put(stage.push(41))
        await settle()
        await stage.trainer.finish()
        summary = stage.hub.flush("Agent", 41)
        assert summary.values[keys.AVERAGE_OPT_TIME] == -1.0
        assert summary.values[keys.AVERAGE_SAMPLE_TIME] == 0.0

    run(scenario())


def test_the_lag_of_a_transition_is_the_opts_between_its_weights_and_its_learning() -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_learning_waits_for_an_actor_that_is_too_far_behind_and_no_transition_is_older_than_the_bound() -> None:
    """Actor 1 does one thing for long; actor 0 pushes on, until the bounds hold it too."""

    async def scenario() -> None:
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

    run(scenario())


def test_what_ends_learning_is_told_to_whoever_pushes() -> None:
    async def scenario() -> None:
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

    run(scenario())


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
        assert stage.trainer.figures[2].startswith(f"{opts:,} opts")

    run(scenario(remembers=True, opts=1010))
    run(scenario(remembers=False, opts=710))


def test_new_samples_come_before_steps_that_are_allowed_but_not_owed() -> None:
    async def scenario() -> None:
        stage = Stage(samples_per_update=[0.5, 2.0])
        await stage.trainer.put(stage.push(101, actor=0))
        await stage.trainer.put(stage.push(10, actor=1))
        await settle()
        assert stage.learner.taken[:2] == [(0, 101, 64), (1, 10, 36)]
        assert stage.learner.progress.opts == 220

    run(scenario())


def test_at_the_end_only_what_is_owed_is_still_learned() -> None:
    async def scenario() -> None:
        stage = Stage(samples_per_update=[0.5, 2.0])
        await stage.trainer.put(stage.push(101))
        await stage.trainer.finish()
        assert stage.learner.progress.opts == 50

    run(scenario())


def test_rollouts_are_learned_from_whole_and_what_makes_none_is_left_out() -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_while_a_rollout_is_learned_from_the_next_comes_in_and_no_further_one() -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_while_an_update_runs_actors_hear_as_late_as_pairs_act_on() -> None:
    async def scenario() -> None:
        stage = Stage(FakeLearner(rollout_size=20))
        bound = stage.learner.bound = AgeBound(0, on_policy=True)
        bound.comes()
        waits = asyncio.create_task(stage.trainer.put(stage.push(5)))
        await settle()
        assert not waits.done()
        bound.goes()
        await asyncio.wait_for(waits, HANG_S)

    run(scenario())


def test_as_many_rollouts_are_learned_from_at_a_time_as_there_are_learners() -> None:
    """Of a parameter server: what comes then waits, and figures count every update once."""

    async def scenario() -> None:
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

    run(scenario())


@pytest.mark.parametrize(("mode", "rollout_size", "published"), [("free", 20, 9), ("free", 0, 7), ("lock_step", 20, 7)])
def test_actors_get_policies_in_the_middle_of_an_update_from_a_rollout_but_in_lock_step(
    mode: str, rollout_size: int, published: int
) -> None:
    async def scenario() -> None:
        stage = Stage(FakeLearner(rollout_size=rollout_size, steps_per_update=1.0), mode=mode)
        if mode == "lock_step":
            await stage.trainer.take_in(stage.push(20), anew=False)
        else:
            await stage.trainer.put(stage.push(20))
            await settle()
        if stage.learner.publish is not None:
            stage.learner.publish(cast(Any, Policy(9)))
        assert stage.channel.read().version == published

    run(scenario())


def test_no_rollout_is_learned_from_beyond_max_opts() -> None:
    async def scenario() -> None:
        stage = Stage(FakeLearner(rollout_size=20), max_opts=3)
        for _ in range(2):
            await stage.trainer.put(stage.push(20))
            await settle()
        await stage.trainer.finish()
        assert [rows for _, rows, _ in stage.learner.taken] == [20]

    run(scenario())
