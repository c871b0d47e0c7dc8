"""Independent pairs as one computation: all environments are copies of one, all policies one stack of weights.

To the rest of a run this is a :class:`ParallelTrainer` with pairs, learners, checkpoints and a report as ever; what the
pairs do is done here for all of them at once: a rollout, then an update, in turns, so nothing depends on timing. Each
pair has copies of the environment of its own. Rewards are those of the task's rewarder, worked out once a rollout.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from typing_extensions import override

from tau_trainer.algorithms import State
from tau_trainer.algorithms.batched import TensorRollout
from tau_trainer.algorithms.batched.population import Population
from tau_trainer.algorithms.parameters import fitting
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.columns import Arrays, Rows
from tau_trainer.envs import Environment
from tau_trainer.envs.batched.draws import seeds_of
from tau_trainer.errors import CheckpointError, NonFiniteError, sentence_of
from tau_trainer.memory import Work
from tau_trainer.metrics import Laps, MetricsHub, PairState, keys
from tau_trainer.models import Policy
from tau_trainer.rewards import RewardResult
from tau_trainer.rewards.streams import EXTRINSIC
from tau_trainer.specs import Actions, BoolArray, FloatArray, IntArray
from tau_trainer.training.actors.manager import DistantTrainer
from tau_trainer.training.learning.handles import MemberLearner
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.learning.pool import LearnerPool
from tau_trainer.training.pairs.pair import AgentTrainerPair
from tau_trainer.training.pairs.parallel import ParallelTrainer
from tau_trainer.training.plan import RunPlan

_WORLD = "world."
"""What the names of a pair's copies begin with in its checkpoints."""
_SUMS = "own", "paid", "length"
"""Of each copy's running episode: sums of the environment's reward and of what is learned from, and its decisions."""
_NOTHING = Work({})
"""An update's work is with the population already."""


class Copies:
    """The pairs' environment, as whoever watches pairs sees it: nothing that starts, fails or ends."""

    restarts = 0
    waits_for: str | None = "the population"
    absent: str | None = None

    def __init__(self, moves: Callable[[], int]) -> None:
        self._moves = moves

    @property
    def exchanges(self) -> int:
        """Something that grows as long as the population moves."""
        return self._moves()

    async def close(self) -> None:
        """There is nothing to close."""

    async def kill(self) -> None:
        """There is nothing to end."""


@dataclass(frozen=True, slots=True)
class _Played:
    """A rollout of all pairs, and what it told: [T, P E]."""

    rollout: TensorRollout
    reward: FloatArray
    """The environment's."""
    paid: FloatArray
    """What is learned from, the mean over components."""
    ended: BoolArray
    scores: list[RewardResult]
    """Of each step."""


class PopulationTrainer(ParallelTrainer):
    """Runs all pairs side by side: a :class:`ParallelTrainer` whose pairs are members of one population.

    Args:
        plan: of the run.
        hub: where numbers go.
        pool: makes the learners.
        done: whether a pair has had its decisions.
        after_round: awaited after every update; whether checkpoints were written.
        evaluate: awaited as each pair ends.
    """

    def __init__(
        self,
        plan: RunPlan,
        hub: MetricsHub,
        pool: LearnerPool,
        *,
        done: Callable[[AgentTrainerPair], bool],
        after_round: Callable[[], Awaitable[bool]],
        evaluate: Callable[[AgentTrainerPair], Awaitable[None]] | None = None,
    ) -> None:
        self._stack: Population | None = None
        self._mirrors = [DistantTrainer(index, hub) for index in range(plan.pairs)]
        copies = cast(Environment, Copies(lambda: 0 if self._stack is None else self._stack.moves))
        pairs = [AgentTrainerPair(copies, mirror, done, lambda pair: {}) for mirror in self._mirrors]
        playing = PairState.PLAYING if plan.inference else PairState.TRAINING
        super().__init__(pairs, plan.pairs, hub, deterministic=True, playing=playing, evaluate=evaluate)
        assert plan.task is not None
        self._plan, self._pool, self._task = plan, pool, plan.task
        self._written = after_round
        self._laps = Laps(hub.timers.part("population"))
        self._thread = ThreadPoolExecutor(1, "population", torch.set_num_threads, (1,))
        self._learners: list[Learner] = []
        self._members: list[MemberLearner] = []

    @property
    def population(self) -> Population:
        """All policies, once there are some."""
        assert self._stack is not None
        return self._stack

    @override
    async def run(self) -> None:
        self._tasks = [asyncio.create_task(self._all())]
        await asyncio.gather(*self._tasks)

    async def _all(self) -> None:
        """All pairs' whole run. What ends all of them is the error of each."""
        self.peak = len(self.pairs)
        for pair in self.pairs:
            pair.trainer.enter(PairState.PREPARING)
        try:
            self._begin()
            for pair in self.pairs:
                pair.trainer.enter(self._playing)
            await self._fail_frozen()
            while any(not pair.finished for pair in self.active):
                await self._round()
            for pair in self.active:
                await self._conclude(pair)
        except Exception as error:
            for pair in self.active:
                self.failures[pair.id] = error
                pair.trainer.error = sentence_of(error)
                self._end(pair, PairState.FAILED)
        finally:
            self._thread.shutdown()
            if self._stack is not None:
                self._stack.close()

    def _begin(self) -> None:
        """Make the learners, and the stack and the copies of all. Raises SettingsError, DataError, CheckpointError."""
        spec, seed = self._task.batched_spec, self._plan.seed
        self._learners = [self._pool.learner(pair.id, spec) for pair in self.pairs]
        members = self._members = [cast(MemberLearner, self._pool.handles[learner.name]) for learner in self._learners]
        self._rewarder = self._pool.rewarder(spec)
        visible = self._learners[0].spec.observations
        self._hidden = [sensor not in visible for sensor in spec.observations]
        device = self._plan.settings.torch_settings.device or "cpu"
        copies = self._task.copies
        self._env = self._task.batched_env(torch.cat([seeds_of(seed + pair.id, copies) for pair in self.pairs]), device)
        self._copies = copies
        self._stack = Population([cast(PPO, one.algorithm) for one in members], copies, os.cpu_count() or 1)
        self._observations = self._env.reset()
        self._sums = {name: np.zeros(len(self._observations)) for name in _SUMS}
        horizon = self.population.horizon
        self._seen = torch.empty((horizon, *self._observations.shape), device=self._env.device)
        state = {name: values.clone() for name, values in self._env.state.items()}
        for index, one in enumerate(members):
            if one.loaded is not None:
                self.population.load_of(index, *one.loaded)
                if "version" in one.loaded[1]:
                    self._restore(index, one.loaded[0], state)
            one.join(partial(self._policy_of, index), partial(self._state_of, index))
        self._env.state, self._observations = state, self._env.observe(state)
        self._check_level()

    def _check_level(self) -> None:
        """Pairs learn in step. Raises CheckpointError where they stand elsewhere."""
        frozen = self.population.frozen.tolist()
        stands = {
            learner.decisions
            for learner, is_frozen in zip(self._learners, frozen, strict=True)
            if not is_frozen and not learner.stopped
        }
        if len(stands) > 1:
            raise CheckpointError(
                f"the pairs of a population learn in step, and these stand at {' and '.join(map(str, sorted(stands)))} "
                "decisions; resume it with as many pairs as it had, or begin a new run with another --run-id"
            )

    def _restore(self, index: int, arrays: Arrays, state: dict[str, torch.Tensor]) -> None:
        """Put a pair's copies where they stood. Raises CheckpointError."""
        own = slice(index * self._copies, (index + 1) * self._copies)
        for name, values in state.items():
            found = fitting(arrays, f"{_WORLD}{name}", tuple(values[own].shape))
            values[own] = torch.from_numpy(np.array(found)).to(values)
        for name, sums in self._sums.items():
            sums[own] = fitting(arrays, f"{_WORLD}sum.{name}", (self._copies,))

    def _policy_of(self, index: int) -> Policy:
        return self.population.members[index].snapshot()

    def _state_of(self, index: int) -> State:
        """What a checkpoint keeps of a pair: its learner's state, and where its copies stand."""
        arrays, facts = self.population.state_of(index)
        own = slice(index * self._copies, (index + 1) * self._copies)
        world = {name: values[own].cpu().numpy() for name, values in self._env.state.items()}
        world |= {f"sum.{name}": sums[own] for name, sums in self._sums.items()}
        # Whose copies met NaN is frozen, and what it has learned is worth keeping all the same.
        return arrays | {f"{_WORLD}{name}": np.nan_to_num(values, nan=0.0) for name, values in world.items()}, facts

    @override
    async def cancel(self, grace_s: float = 0.0) -> None:
        """End all pairs and wait for them: an update that runs comes to its end, a rollout is given up."""
        self._cancelled = True
        self.finish()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def _learning(self) -> list[AgentTrainerPair]:
        """Pairs that have not learned enough."""
        return [pair for pair in self.active if not self._learners[pair.id].done]

    async def _round(self) -> None:
        """A rollout and an update of all pairs; nothing, where the run is to end before they are whole."""
        learning = [self._learners[pair.id] for pair in self._learning]
        # Those that play alone have no end; pairs learn in step, so all have the same decisions left.
        left = max((-(-(learner.max_steps - learner.decisions) // self._copies) for learner in learning), default=None)
        steps = self.population.horizon if left is None else min(self.population.horizon, left)
        self._laps.begin()
        played = await self._in_thread(partial(self._play, steps))
        self._laps.lap("act and step")
        if played is None:
            return
        episodes = self._episodes(played)
        for pair in self.active if self._plan.inference else self._learning:
            self._count(pair, played, episodes)
        self._laps.lap("count")
        if steps == self.population.horizon and self._learning:
            await self._learn(played.rollout)
            if await self._written():
                self._rewarder.clear()
            self._laps.lap("checkpoint")

    async def _learn(self, rollout: TensorRollout) -> None:
        begin = time.perf_counter()
        first = self._learners[self._learning[0].id]
        progress = min(first.decisions / first.max_steps, 1.0)
        self.population.resting |= torch.tensor(
            [learner.stopped for learner in self._learners], device=self.population.resting.device
        )
        stats = await self._in_thread(partial(self.population.learn, rollout, progress))
        numbers = {name: values.tolist() for name, values in stats.items()}
        self._laps.lap("learn")
        await self._fail_frozen()
        share = (time.perf_counter() - begin) / len(self.pairs)
        learners = [self._learners[pair.id] for pair in self._learning]
        for pair in self._learning:
            own = {name: values[pair.id] for name, values in numbers.items()}
            self._members[pair.id].stats = own | {keys.TRAIN_SECONDS: share, keys.POLICY_AGE: 0.0}
        await asyncio.gather(*(learner.learn(_NOTHING) for learner in learners))
        self._laps.lap("policies and validation")

    async def _fail_frozen(self) -> None:
        """Pairs that met NaN learn no more; the others go on."""
        frozen = self.population.frozen.tolist()
        for pair in self._learning:
            if frozen[pair.id]:
                learner = self._learners[pair.id]
                error = NonFiniteError(
                    f"'{learner.name}' met NaN or infinity, in what it saw, in its rewards or in its weights, after "
                    f"{learner.decisions:,} decisions; it keeps the weights from before and learns no more"
                )
                await self._fail(pair, error)

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    @torch.no_grad()
    def _play(self, steps: int) -> _Played | None:
        """So many decisions of all copies; None: the run was to end meanwhile, and everything is as before."""
        env, population = self._env, self.population
        before = env.state, self._observations, population.steps
        foresees, likeliest = population.foresees, self._learners[0].settings.network_settings.deterministic
        columns: dict[str, list[torch.Tensor]] = {}
        kept: dict[str, list[torch.Tensor]] = {}
        for step in range(steps):
            if self._cancelled:
                env.state, self._observations, population.steps = before
                return None
            self._seen[step] = self._observations
            acted = population.act(self._observations, None, deterministic=likeliest)
            row = {"target": self._task.batched_target(env)} if any(self._hidden) else {}
            found = env.step(acted.actions)
            row |= {"actions": acted.actions, "rewards": found.rewards}
            row |= {"terminated": found.terminated, "truncated": found.truncated}
            row |= {"final": found.final_observations} if foresees and env.truncates else {}
            for columns_of, values in ((columns, row), (kept, acted.kept)):
                for name, value in values.items():
                    columns_of.setdefault(name, []).append(value)
            self._observations = found.observations
        lived = {name: torch.stack(values) for name, values in columns.items()}
        paid, scores = self._pay(lived)
        rollout = TensorRollout(
            observations=self._seen[:steps],
            actions=lived["actions"],
            mask=None,
            rewards=paid,
            terminated=lived["terminated"],
            truncated=lived["truncated"],
            present=torch.ones_like(lived["terminated"]),
            final=lived.get("final"),
            after=self._observations,
            after_mask=None,
            kept={name: torch.stack(values) for name, values in kept.items()},
        )
        ended = (lived["terminated"] | lived["truncated"])[..., 0].cpu().numpy()
        reward, mean = lived["rewards"][..., 0].cpu().numpy(), paid[:, :, 0].mean(dim=2).cpu().numpy()
        return _Played(rollout, reward, mean, ended, scores)

    def _pay(self, lived: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, list[RewardResult]]:
        """Rewards [T, P E, 1, R] by the task's rewarder, as an AgentTrainer would ask it, and what it scored."""
        actions, engine = lived["actions"][:, :, 0].cpu().numpy(), lived["rewards"][:, :, 0].cpu().numpy()
        wrong = ~np.isfinite(engine)
        engine = np.where(wrong, np.float32(0.0), engine)
        targets = lived["target"][:, :, 0].cpu().numpy() if "target" in lived else None
        ended = (lived["terminated"] | lived["truncated"])[:, :, 0].cpu().numpy()
        rows = np.arange(actions.shape[1])
        none: IntArray = np.zeros((len(rows), 0), np.int32)
        rewards = np.empty((*ended.shape, self._rewarder.width), np.float32)
        scores: list[RewardResult] = []
        for step, over in enumerate(ended):
            shown = tuple(targets[step] if hidden and targets is not None else none for hidden in self._hidden)
            scored = [self._rewarder.decided(rows, Actions(actions[step], none), shown)]
            for some, ends in ((np.flatnonzero(~over), False), (np.flatnonzero(over), True)):
                if len(some):
                    acted = np.ones(len(some), np.bool_)
                    answer = self._rewarder.answered(some, engine[step, some], acted=acted, ended=ends)
                    rewards[step, some] = answer[0]
                    scored.append(None if answer[1] is None else _spread(answer[1], some, len(rows)))
            scores += [one for one in scored if one is not None]
        rewards[wrong] = np.nan
        return torch.from_numpy(rewards).to(self._env.device).unsqueeze(2), scores

    def _count(self, pair: AgentTrainerPair, played: _Played, episodes: Mapping[str, FloatArray]) -> None:
        """Decisions, scores and episodes of one pair."""
        own = slice(pair.id * self._copies, (pair.id + 1) * self._copies)
        learner, mirror, names = self._learners[pair.id], self._mirrors[pair.id], self._task.keys
        decisions = played.ended[:, own].size
        mirror.decisions += decisions
        for key, values in (
            (names.reward, [one.mean for one in played.scores]),
            (names.success, [one.success for one in played.scores]),
            (names.aggregated, [one.aggregated for one in played.scores]),
        ):
            told_of = [one[own] for one in values if one is not None]
            known = np.concatenate(told_of) if told_of else np.zeros(0, np.float32)
            known = known[~np.isnan(known)]
            if len(known):
                self._hub.add(learner.name, key, known, pair=pair.id)
        mine = episodes["copy"] // self._copies == pair.id
        returns, lengths = episodes["own"][mine].astype(np.float32), episodes["length"][mine]
        self._hub.episode(learner.name, pair.id, returns, lengths)
        if len(returns):
            self._hub.add(learner.name, keys.episode_reward(EXTRINSIC), episodes["paid"][mine])
        mirror.ended(learner, returns)
        learner.count(decisions)

    def _episodes(self, played: _Played) -> dict[str, FloatArray]:
        """Episodes that ended, in order: their ``copy``, and what :data:`_SUMS` names."""
        found = {name: [np.zeros(0)] for name in (*_SUMS, "copy")}
        strength = self._learners[0].settings.reward_signals[EXTRINSIC].strength
        for reward, paid, ended in zip(played.reward, played.paid, played.ended, strict=True):
            self._sums["own"] += reward
            self._sums["paid"] += paid * strength
            self._sums["length"] += 1.0
            if ended.any():
                found["copy"].append(np.flatnonzero(ended).astype(np.float64))
                for name, sums in self._sums.items():
                    found[name].append(sums[ended])
                    sums[ended] = 0.0
        return {name: np.concatenate(parts) for name, parts in found.items()}


def _spread(some: RewardResult, rows: Rows, count: int) -> RewardResult:
    """Of ``count`` agents what is known of those in ``rows``; NaN: nothing."""

    def wide(values: FloatArray | None) -> FloatArray | None:
        if values is None:
            return None
        spread = np.full((count, *values.shape[1:]), np.nan, np.float32)
        spread[rows] = values
        return spread

    mean, reward = wide(some.mean), wide(some.reward)
    assert mean is not None
    assert reward is not None
    return RewardResult(reward, mean, wide(some.success), wide(some.aggregated))
