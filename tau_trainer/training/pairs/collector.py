"""Experience from environments in pairs: what plays beside actors and in a population is wired together here too."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from typing_extensions import override

from tau_trainer.bridge.side_channels import Stat
from tau_trainer.envs import Parameters
from tau_trainer.export import check_export
from tau_trainer.metrics import BaselineScore, BehaviorSnapshot, PairMetrics, PairState, keys
from tau_trainer.runs.callbacks import EvaluationInfo
from tau_trainer.runs.collector import Collector, Conclusion
from tau_trainer.runs.run import Run
from tau_trainer.specs import Aggregation
from tau_trainer.training.actors.manager import ActorManager
from tau_trainer.training.agents import AgentTrainer
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.learning.pool import LearnerPool
from tau_trainer.training.lessons import Lessons
from tau_trainer.training.pairs import finish
from tau_trainer.training.pairs.checkpointing import Checkpointer
from tau_trainer.training.pairs.pair import AgentTrainerPair
from tau_trainer.training.pairs.parallel import ParallelTrainer
from tau_trainer.training.pairs.population import PopulationTrainer
from tau_trainer.training.pairs.snapshots import Snapshots
from tau_trainer.training.pairs.watchdog import watch
from tau_trainer.training.plan import RunPlan
from tau_trainer.training.task import Task

_SLICE_S = 0.25
"""That the event loop runs before the run looks up."""


class PairsCollector(Collector):
    """Plays pairs until they have had their decisions; their learners learn beside them.

    They play in this process, in processes of their own (actors), or as one computation (a population). Everything here
    belongs to one event loop, which runs while the run waits for it.

    Raises:
        DataError, SettingsError, CheckpointError: it cannot begin.
    """

    def __init__(self, plan: RunPlan, run: Run) -> None:
        self.plan, self.run = plan, run
        examines = plan.task is not None and plan.task.evaluates and not plan.inference
        self.examiner: Task | None = plan.task if examines else None
        """Who evaluates policies; None: nobody."""
        self.baselines: Mapping[str, BaselineScore] | None = None
        """What policies are compared with, once it is worked out."""
        self.validation_accuracy: dict[int, float] = {}
        """Of each pair's policy when it ended."""
        self._loop = asyncio.Runner()
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        """What collects, what supervises it, and what works out baselines."""
        self._export_checks: list[asyncio.Future[None]] = []
        hub, folder = run.hub, run.folder
        if plan.task is not None:
            hub.task(plan.task.keys)
        for sentence in (*plan.source.warnings, *(plan.task.warnings if plan.task is not None else ())):
            hub.warning(sentence)
        self.lessons = Lessons(plan.parameters, self._progress, self._lesson_begins)
        self.checkpointer = Checkpointer(
            run.store,
            hub,
            plan.task.identity if plan.task is not None else {},
            self.lessons,
            plan.origins,
            resume=folder.resumed or plan.inference,
            together=plan.deterministic,
            learns=not plan.inference,
        )
        self.checkpointer.prepare()
        self._show_lessons()
        earlier = self.checkpointer.pair_decisions
        self._gone = sum(decisions for pair, decisions in earlier.items() if pair >= plan.pairs)
        validator = self.examiner.quick_scores if self.examiner is not None else None
        self.pool = LearnerPool(plan, hub, validator, self._learner_appears, run.callbacks)
        self.actors = self._make_actors() if plan.asynchronous else None
        """Who plays in processes of their own; None: nobody."""
        self.parallel = self.actors or (self._make_population() if plan.population else self._make_parallel())
        self._snapshots = Snapshots(self)

    def close(self) -> None:
        """End what learners learn in, and the event loop."""
        self.pool.close()
        self._loop.close()

    @property
    def learners(self) -> list[Learner]:
        """All learners so far."""
        return list(self.pool.learners.values())

    @property
    @override
    def command(self) -> str:
        return self.plan.command

    @property
    @override
    def steps(self) -> int:
        """Of all pairs, earlier runs that were resumed included, and pairs that only those had."""
        return self._gone + sum(pair.trainer.decisions for pair in self.parallel.pairs)

    @property
    @override
    def max_steps(self) -> int:
        return self._snapshots.most

    @property
    @override
    def done(self) -> bool:
        return all(pair.trainer.state is PairState.COMPLETED for pair in self.parallel.pairs)

    @property
    @override
    def learned(self) -> bool:
        return any(learner.updates for learner in self.learners)

    @property
    @override
    def subject(self) -> str:
        return self.plan.subject

    @property
    @override
    def behaviors(self) -> tuple[BehaviorSnapshot, ...]:
        return self._snapshots.behaviors

    @property
    @override
    def pairs(self) -> tuple[PairMetrics, ...]:
        return self._snapshots.pairs

    @property
    @override
    def status(self) -> Mapping[str, Any]:
        return self._snapshots.fields

    @property
    @override
    def failure(self) -> Exception | None:
        failures = self.parallel.failures
        return next(iter(failures.values())) if len(failures) == len(self.parallel.pairs) else None

    @property
    @override
    def errors(self) -> Sequence[str]:
        failed = [pair for pair in self.parallel.pairs if pair.trainer.error]
        return [f"pair {pair.id}: {pair.trainer.error}" for pair in failed]

    @override
    def announce(self) -> None:
        if self.plan.source.invitation is not None:
            self.run.hub.event("waiting", message=self.plan.source.invitation)

    @override
    def advance(self) -> bool:
        return self._loop.run(self._advance())

    async def _advance(self) -> bool:
        """Let the event loop run; False: pairs have come to their ends, and learners have learned what they had."""
        begins = not self._tasks
        if begins:
            self.run.callbacks.begin()
            if self.run.asked.is_set() or self.run.error is not None:  # before there was a loop to ask
                self.parallel.finish()
            parts = (self.parallel.run(), self._supervise(), self._compare())
            self._tasks = tuple(asyncio.create_task(part) for part in parts)
        collecting, supervising, comparing = self._tasks
        seconds = 0.0 if begins else _SLICE_S  # the run shows itself before it waits
        done, _ = await asyncio.wait({collecting, supervising}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            return True
        try:
            if collecting not in done:
                error = supervising.exception()
                self.run.error = error if isinstance(error, Exception) else None
                await self.parallel.cancel()
            await collecting
            await self._drain_learners()
        finally:
            for task in (supervising, comparing):
                task.cancel()
            await asyncio.gather(supervising, comparing, return_exceptions=True)
            if self.actors is not None:
                for line in self.actors.figures():
                    self.run.hub.event("actors", message=line)
                self.actors.close()
        return False

    async def _drain_learners(self) -> None:
        """Let learners finish what they were given; what fails now, no pair will hear of."""
        at_once = self.run.hurried.is_set()
        if self.actors is not None:
            await self.actors.join(at_once=at_once)
        for learner in self.learners:
            if at_once:
                learner.shutdown()
            await learner.drain()
            if learner.error is not None and not self.parallel.failures:
                self.run.error = learner.error

    @override
    def interrupt(self) -> None:
        """Pairs end after the exchange they are in, or at once."""
        if self._tasks:
            grace = {"grace_s": 0.0} if self.run.hurried.is_set() else {}
            with contextlib.suppress(RuntimeError):  # it has come to its end meanwhile
                loop = self._loop.get_loop()
                loop.call_soon_threadsafe(lambda: asyncio.ensure_future(self.parallel.cancel(**grace)))

    @override
    def save(self) -> None:
        self._loop.run(finish.save(self))

    @override
    def conclude(self) -> Conclusion:
        return self._loop.run(finish.conclude(self))

    def _make_pair(self, index: int) -> AgentTrainerPair:
        environment = self.plan.source.make(
            index, lambda stat: self._stat(index, stat), lambda message: self._warn(index, message)
        )
        keys_of_task = self.plan.task.keys if self.plan.task is not None else None
        trainer = AgentTrainer(
            index,
            partial(self.pool.agent, index),
            self.pool.rewarder,
            self.run.hub,
            keys_of_task,
            self.lessons.episodes,
            self.run.callbacks,
        )
        trainer.decisions = self.checkpointer.pair_decisions.get(index, 0)
        return AgentTrainerPair(
            environment,
            trainer,
            self._done,
            self._parameters,
            None if self.plan.inference else self.lessons,
            None if self.plan.inference else self._keep,
            self.run.hub.timers.part("pairs", parallel=True).part(f"pair {index}"),
        )

    def _make_parallel(self) -> ParallelTrainer:
        return ParallelTrainer(
            [self._make_pair(i) for i in range(self.plan.pairs)],
            self.plan.max_concurrent,
            self.run.hub,
            deterministic=self.plan.deterministic,
            playing=PairState.PLAYING if self.plan.inference else PairState.TRAINING,
            after_round=self._after_round,
            evaluate=None if self.plan.inference else self._evaluate,
        )

    def _make_population(self) -> PopulationTrainer:
        trainer = PopulationTrainer(
            self.plan,
            self.run.hub,
            self.pool,
            done=self._done,
            after_round=self._after_round,
            evaluate=None if self.plan.inference else self._evaluate,
        )
        for pair in trainer.pairs:
            pair.trainer.decisions = self.checkpointer.pair_decisions.get(pair.id, 0)
        return trainer

    def _make_actors(self) -> ActorManager:
        actors = ActorManager.build(
            self.plan,
            self.run.hub,
            self.pool,
            self.lessons,
            done=self._done,
            parameters=self._parameters,
            after_round=self._after_round,
            generation=lambda: self.checkpointer.generation,
            evaluate=self._evaluate,
        )
        for pair in actors.pairs:
            pair.trainer.decisions = self.checkpointer.pair_decisions.get(pair.id, 0)
        return actors

    def _parameters(self, pair: int) -> Parameters:
        """What the environment of ``pair`` is told now."""
        return {**self.lessons.parameters, **self.plan.fresh_seed(pair, self.checkpointer.generation)}

    def _progress(self, behavior: str) -> float:
        """Share of a behavior's ``max_steps`` that is behind it."""
        known = [learner for learner in self.learners if learner.spec.short_name == behavior]
        return sum(learner.decisions for learner in known) / max(1, sum(learner.max_steps for learner in known))

    def _lesson_begins(self, sentence: str) -> None:
        self.run.hub.event("lesson", message=sentence, numbers=dict(self.lessons.numbers))
        self._show_lessons()

    def _show_lessons(self) -> None:
        for name, number in self.lessons.numbers.items():
            self.run.hub.keep(keys.lesson_number(name), number)

    def _done(self, pair: AgentTrainerPair) -> bool:
        """A pair of `parallel` has its share of the decisions; those of `learn` run until all behaviors are done.

        What only plays never has enough. Whoever has learned enough before is done as well.
        """
        if self.run.stopped is not None:
            return True
        if self.plan.inference:
            return False
        if self.plan.command == "learn":
            actors = self.actors.trainers if self.actors is not None else []
            done = {trainer.learner.name for trainer in actors if trainer.done}
            return bool(self.pool.learners) and all(learner.done or learner.name in done for learner in self.learners)
        learners = self.pool.of_pair(pair.id)
        if any(learner.stopped for learner in learners) and all(learner.done for learner in learners):
            return True
        return pair.trainer.decisions >= self.plan.quota(self._gone if self.plan.shared else 0)

    def _stat(self, index: int, stat: Stat) -> None:
        """A value that the game reported; MostRecent counts from engine 0 only, as in ML-Agents."""
        if stat.aggregation is not Aggregation.MOST_RECENT or index == 0:
            for learner in self.pool.of_pair(index):
                self.run.hub.add(learner.name, stat.key, stat.value, stat.aggregation)

    def _warn(self, pair: int, message: str) -> None:
        self.run.hub.warning(message, pair=pair)

    def _learner_appears(self, learner: Learner) -> None:
        """Restore it, and try its export now rather than after hours."""
        if self.examiner is not None:
            self.examiner.check(learner.spec)
        self.checkpointer.register(learner)
        if self.plan.inference:
            if self.plan.settings.checkpoint_settings.export == "best":
                learner.play_best()
            return
        if not (self.plan.deterministic or self.plan.lock_step):
            learner.after_update = self._after_update
        if not learner.algorithm.exports or (self.plan.population and self._export_checks):
            return  # members of a population are of one shape
        loop = asyncio.get_running_loop()
        check = loop.run_in_executor(self.pool.executor, check_export, learner.policy, learner.spec)
        # A run that ends earlier asks no more what came of it, and must not be told of that either.
        check.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._export_checks.append(check)

    async def _supervise(self) -> None:
        """Raises what the whole run cannot go on with: a failed export check, a stall."""
        watching = asyncio.create_task(watch(lambda: self.parallel.active, lambda: self.learners, self.plan.stall_s))
        checked = 0
        try:
            while True:
                await asyncio.sleep(_SLICE_S)
                while checked < len(self._export_checks) and self._export_checks[checked].done():
                    self._export_checks[checked].result()
                    checked += 1
                if watching.done():
                    watching.result()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _compare(self) -> None:
        """Work out what policies are compared with."""
        if self.examiner is not None:
            examiner = self.examiner
            try:
                self.baselines = await asyncio.get_running_loop().run_in_executor(None, lambda: examiner.baselines)
                self.run.hub.baselines(self.baselines)
            except Exception as error:
                self.run.hub.warning(f"the run goes on without baselines: {type(error).__name__}: {error}")

    async def _after_round(self) -> bool:
        """In a run that can be repeated, whether a checkpoint was written and environments shall begin anew."""
        due = any(self.checkpointer.due(learner) for learner in self.learners)
        if due:
            await self.checkpointer.save_generation(self.learners, self.parallel.pairs)
        return due

    async def _after_update(self, learner: Learner) -> None:
        if self.checkpointer.due(learner):
            await self.checkpointer.save([learner], self.parallel.pairs)

    async def _keep(self) -> None:
        """A person has stopped the game, perhaps for today: write down what was learned, and try it in the game."""
        kept = self.checkpointer
        learned = [learner for learner in self.learners if kept.stale(learner) and kept.better(learner)]
        if not self.plan.deterministic:  # its checkpoints follow from its seed alone
            await self.checkpointer.save(learned, self.parallel.pairs)

    async def _evaluate(self, pair: AgentTrainerPair) -> None:
        """A pair has ended: score its policy as it is now."""
        for learner in self.pool.of_pair(pair.id):
            await learner.drain()
            if self.examiner is not None:
                policy = learner.name, learner.policy.version, learner.decisions
                self.run.callbacks.tell("on_evaluation_begin", EvaluationInfo(*policy))
                scores = await learner.run_in_thread(partial(self.examiner.quick_scores, learner.policy))
                self.run.callbacks.tell("on_evaluation_end", EvaluationInfo(*policy, scores))
                if keys.VALIDATION_ACCURACY in scores:
                    self.validation_accuracy[pair.id] = scores[keys.VALIDATION_ACCURACY]
