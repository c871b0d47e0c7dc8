"""Independent pairs as one computation: all environments are copies of one, all policies one stack of weights.

To the rest of a run this is a :class:`ParallelTrainer` with the usual pairs, learners, checkpoints and report. The work
of all pairs happens here at once: a rollout, then an update, in turns, so nothing depends on timing. Each pair has its
own copies of the environment. Rewards come from the task's rewarder, computed once per rollout.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch
from typing_extensions import override

from tau_trainer.algorithms import State
from tau_trainer.algorithms.batched.population import Population
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.columns import EXTRINSIC, Arrays
from tau_trainer.envs.batched.draws import seeds_of
from tau_trainer.errors import CheckpointError, NonFiniteError, sentence_of
from tau_trainer.memory import TensorRollout, Work
from tau_trainer.metrics import MetricsHub, PairState, PhaseTimer, keys
from tau_trainer.specs import FloatArray
from tau_trainer.training.agents import Tally
from tau_trainer.training.learning.handles import MemberLearner
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.learning.pool import LearnerPool
from tau_trainer.training.pairs.pair import Coordinator, Pair
from tau_trainer.training.pairs.parallel import ParallelTrainer
from tau_trainer.training.pairs.world import Payment, PlayedRollout, World
from tau_trainer.training.plan import RunPlan

_NOTHING = Work({})
"""Placeholder: the population has an update's work already."""


class PopulationTrainer(ParallelTrainer[Pair]):
    """Runs all pairs side by side: a :class:`ParallelTrainer` whose pairs are members of one population.

    To the code that watches pairs, it is the environment of them all.

    Args:
        plan: of the run.
        hub: receives all numbers.
        pool: makes the learners.
        coordinator: answers the pairs.
    """

    restarts = 0
    waits_for = "the population"
    absent = None

    def __init__(self, plan: RunPlan, hub: MetricsHub, pool: LearnerPool, coordinator: Coordinator) -> None:
        self._stack: Population | None = None
        pairs = [Pair(index, self, Tally(), coordinator) for index in range(plan.pairs)]
        playing = PairState.PLAYING if plan.inference else PairState.TRAINING
        super().__init__(pairs, plan.pairs, hub, coordinator, playing=playing)
        assert plan.task is not None
        self._plan, self._pool, self._task = plan, pool, plan.task
        self._phases = PhaseTimer(hub.timers.part("population"))
        self._thread = ThreadPoolExecutor(1, "population", torch.set_num_threads, (1,))
        self._learners: list[Learner] = []
        self._members: list[MemberLearner] = []

    @property
    def population(self) -> Population:
        """All policies, once there are some."""
        assert self._stack is not None
        return self._stack

    @property
    def exchanges(self) -> int:
        """A counter that grows as long as the population moves."""
        return 0 if self._stack is None else self._stack.moves

    @override
    def _begin(self) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self._all())]

    async def _all(self) -> None:
        """The whole run of all pairs. An error that ends all of them is recorded for each."""
        for pair in self.pairs:
            self._enter(pair, PairState.PREPARING)
        try:
            self._make()
            for pair in self.pairs:
                self._enter(pair, self._playing)
            await self._fail_frozen()
            while any(not pair.finished for pair in self.active):
                await self._round()
            for pair in self.active:
                await self._conclude(pair)
        except Exception as error:
            for pair in self.active:
                self.failures[pair.id] = error
                pair.error = sentence_of(error)
                self._end(pair, PairState.FAILED)
        finally:
            self._thread.shutdown()
            if self._stack is not None:
                self._stack.close()

    def _make(self) -> None:
        """Make the learners, and the stack and the copies of all. Raises SettingsError, DataError, CheckpointError."""
        spec, seed = self._task.batched_spec, self._plan.seed
        self._learners = [self._pool.learner(pair.id, spec) for pair in self.pairs]
        members = self._members = [
            learner.handle for learner in self._learners if isinstance(learner.handle, MemberLearner)
        ]
        device, copies = self._plan.settings.device, self._task.copies
        env = self._task.batched_env(torch.cat([seeds_of(seed + pair.id, copies) for pair in self.pairs]), device)
        algorithms = [member.algorithm for member in members if isinstance(member.algorithm, PPO)]
        assert len(algorithms) == len(self._learners)
        self._stack = Population(algorithms, copies, os.cpu_count() or 1)
        visible = self._learners[0].spec.observations
        hidden = [sensor not in visible for sensor in spec.observations]
        self._world = World(self._task, env, self._stack, Payment(self._pool.rewarder(spec), hidden))
        stood: dict[int, Arrays] = {}
        for index, member in enumerate(members):
            if member.loaded is not None:
                arrays, metadata, fresh = member.loaded
                self._stack.load_of(index, arrays, metadata, fresh=fresh)
                if not fresh:
                    stood[index] = arrays
            member.join(algorithms[index].snapshot, partial(self._state_of, index))
        self._world.go_on(stood)
        self._check_level()

    def _check_level(self) -> None:
        """Raises CheckpointError if pairs have different numbers of decisions: they learn in step."""
        frozen = self.population.frozen.tolist()
        stands = {
            learner.decisions
            for learner, is_frozen in zip(self._learners, frozen, strict=True)
            if not is_frozen and not learner.stopped
        }
        if len(stands) > 1:
            raise CheckpointError(
                f"the pairs of a population learn in step, but these made {' and '.join(map(str, sorted(stands)))} "
                "decisions; resume it with as many pairs as it had, or start a new run with another --run-id"
            )

    def _state_of(self, index: int) -> State:
        """The checkpoint's state of a pair: its learner's state, and the state of its copies."""
        arrays, metadata = self.population.state_of(index)
        return arrays | self._world.state_of(index), metadata

    @override
    async def cancel(self, grace_s: float = 0.0) -> None:
        """End all pairs and wait for them: a running update completes, a rollout is dropped."""
        self._cancelled = True
        self.finish()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def _learning(self) -> list[Pair]:
        """Pairs that are still learning."""
        return [pair for pair in self.active if not self._learners[pair.id].done]

    async def _round(self) -> None:
        """A rollout and an update of all pairs; nothing if the run is to end before the rollout is complete."""
        learning = [self._learners[pair.id].progress for pair in self._learning]
        # Pairs that only play never end; pairs learn in step, so all have the same number of decisions left.
        left = max((-(-(its.max_steps - its.decisions) // self._task.copies) for its in learning), default=None)
        steps = self.population.horizon if left is None else min(self.population.horizon, left)
        self._phases.begin()
        likeliest = self._learners[0].settings.network_settings.deterministic  # also during learning
        play = partial(self._world.play, steps, lambda: self._cancelled, deterministic=likeliest)
        played = await self._in_thread(play)
        self._phases.end("act and step")
        if played is None:
            return
        episodes = self._world.episodes(played)
        for pair in self.active if self._plan.inference else self._learning:
            self._count(pair, played, episodes)
        self._phases.end("count")
        if steps == self.population.horizon and self._learning:
            await self._learn(played.rollout)
            if await self._coordinator.round_over():
                self._world.payment.rewarder.clear()
            self._phases.end("checkpoint")

    async def _learn(self, rollout: TensorRollout) -> None:
        begin = time.perf_counter()
        first = self._learners[self._learning[0].id]
        progress = first.progress.share
        self.population.resting |= torch.tensor(
            [learner.stopped for learner in self._learners], device=self.population.resting.device
        )
        stats = await self._in_thread(partial(self.population.learn, rollout, progress))
        numbers = {name: values.tolist() for name, values in stats.items()}
        self._phases.end("learn")
        await self._fail_frozen()
        share = (time.perf_counter() - begin) / len(self.pairs)
        learners = [self._learners[pair.id] for pair in self._learning]
        for pair in self._learning:
            statistics = {name: values[pair.id] for name, values in numbers.items()}
            self._members[pair.id].stats = statistics | {keys.TRAIN_SECONDS: share, keys.POLICY_AGE: 0.0}
        await asyncio.gather(*(self._pool.loops[learner.name].update(_NOTHING) for learner in learners))
        self._phases.end("policies and validation")

    async def _fail_frozen(self) -> None:
        """End pairs that met NaN; the others continue."""
        frozen = self.population.frozen.tolist()
        for pair in self._learning:
            if frozen[pair.id]:
                learner = self._learners[pair.id]
                error = NonFiniteError(
                    f"'{learner.name}' met NaN or infinity in its observations, rewards or weights after "
                    f"{learner.decisions:,} decisions; it keeps its last good weights and stops training"
                )
                await self._fail(pair, error)

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _count(self, pair: Pair, played: PlayedRollout, episodes: Mapping[str, FloatArray]) -> None:
        """Decisions, scores and episodes of one pair."""
        rows = self._world.rows(pair.id)
        learner, names = self._learners[pair.id], self._task.keys
        decisions = played.ended[:, rows].size
        pair.tally.decisions += decisions
        for key, values in (
            (names.reward, [result.mean for result in played.results]),
            (names.success, [result.success for result in played.results]),
            (names.aggregated, [result.aggregated for result in played.results]),
        ):
            of_pair = [scores[rows] for scores in values if scores is not None]
            known = np.concatenate(of_pair) if of_pair else np.zeros(0, np.float32)
            known = known[~np.isnan(known)]
            if len(known):
                self._hub.add(learner.name, key, known, pair=pair.id)
        mine = episodes["copy"] // self._task.copies == pair.id
        returns, lengths = episodes["own"][mine].astype(np.float32), episodes["length"][mine]
        self._hub.episode(learner.name, pair.id, returns, lengths)
        if len(returns):
            self._hub.add(learner.name, keys.episode_reward(EXTRINSIC), episodes["paid"][mine])
        pair.tally.episodes[learner.name] += len(returns)
        learner.ended(returns)
        learner.count(decisions)
