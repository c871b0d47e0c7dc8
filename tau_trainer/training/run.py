"""The parts of one run, wired together: pairs, learners, checkpoints, and whoever watches them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from tau_trainer.bridge.side_channels import Stat
from tau_trainer.envs import Parameters
from tau_trainer.errors import CallbackError
from tau_trainer.export import check_export
from tau_trainer.metrics import BaselineScore, MetricsHub, PairState, RunReport, RunSnapshot, keys
from tau_trainer.specs import Aggregation
from tau_trainer.training.actors import ActorManager
from tau_trainer.training.agents import AgentTrainer
from tau_trainer.training.callbacks import Callback, Callbacks, EvaluationInfo, TrainInfo
from tau_trainer.training.checkpointing import Checkpointer
from tau_trainer.training.learner import Learner
from tau_trainer.training.lessons import Lessons
from tau_trainer.training.pair import AgentTrainerPair
from tau_trainer.training.parallel import ParallelTrainer
from tau_trainer.training.plan import RunPlan
from tau_trainer.training.pool import LearnerPool
from tau_trainer.training.population import PopulationTrainer
from tau_trainer.training.snapshots import Snapshots
from tau_trainer.training.task import Task
from tau_trainer.training.watchdog import watch

_SNAPSHOT_S = 0.25


class TrainingRun:
    """Trains to the end of its plan; :func:`tau_trainer.training.runner.run_to_end` tells the whole story.

    Everything here belongs to one event loop. ``request_finish`` and ``request_cancel`` may be called from any thread.
    """

    def __init__(
        self,
        plan: RunPlan,
        run_id: str,
        folder: Path,
        hub: MetricsHub,
        *,
        resume: bool,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        """``folder``: the run's own, which exists. Raises DataError, SettingsError."""
        self.plan = plan
        self.run_id = run_id
        self.folder = folder
        self.hub = hub
        examines = plan.task is not None and plan.task.evaluates and not plan.inference
        self.examiner: Task | None = plan.task if examines else None
        """Who evaluates policies; None: nobody."""
        self.baselines: Mapping[str, BaselineScore] | None = None
        """What policies are compared with, once it is worked out."""
        self.validation_accuracy: dict[int, float] = {}
        """Of each pair's policy when it ended."""
        self.error: Exception | None = None
        """What ended the whole run, if something did."""
        self.callbacks = Callbacks(callbacks, self._stop, self._fail)
        self.stopped: str | None = None
        """Why a callback wants the run to be done; None: none does."""
        self.cancelled = False
        self.at_once = False
        """Save and go: no evaluation and no export."""
        self.training_seconds = 0.0
        self.started = time.monotonic()
        self._export_checks: list[asyncio.Future[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        if plan.task is not None:
            hub.task(plan.task.keys)
        for sentence in (*plan.source.warnings, *(plan.task.warnings if plan.task is not None else ())):
            hub.warning(sentence)
        agreed = plan.task.identity if plan.task is not None else {}
        self.lessons = Lessons(plan.parameters, self._progress, self._lesson_begins)
        self.checkpointer = Checkpointer(
            folder / "checkpoints",
            hub,
            agreed,
            self.lessons,
            plan.origins,
            resume=resume,
            together=plan.deterministic,
            learns=not plan.inference,
            callbacks=self.callbacks,
        )
        self.checkpointer.prepare()
        self._show_lessons()
        earlier = self.checkpointer.pair_decisions
        self._gone = sum(decisions for pair, decisions in earlier.items() if pair >= plan.pairs)
        validator = self.examiner.quick_scores if self.examiner is not None else None
        self.pool = LearnerPool(plan, hub, validator, self._learner_appears, self.callbacks)
        self.actors = self._make_actors() if plan.asynchronous else None
        """Who plays in processes of their own; None: nobody."""
        self.parallel = self.actors or (self._make_population() if plan.population else self._make_parallel())
        self.pairs = self.parallel.pairs
        self._first_decisions = self.decisions
        self._snapshots = Snapshots(self)
        self.seen = self._snapshots.take()
        """The run as it was a moment ago, for any thread to look at."""

    @property
    def learners(self) -> list[Learner]:
        """All learners so far."""
        return list(self.pool.learners.values())

    @property
    def decisions(self) -> int:
        """Decisions of all pairs, earlier runs that were resumed included, and pairs that only those had."""
        return self._gone + sum(pair.trainer.decisions for pair in self.pairs)

    @property
    def new_decisions(self) -> int:
        """Decisions made by this process."""
        return self.decisions - self._first_decisions

    @property
    def elapsed_seconds(self) -> float:
        """Since the run was made."""
        return time.monotonic() - self.started

    @property
    def nothing_learned(self) -> bool:
        """Whether the run ended before a single update."""
        return all(learner.updates == 0 for learner in self.learners)

    @property
    def first_error(self) -> Exception | None:
        """What ended the run, or the first pair that failed where all did."""
        if self.error is not None:
            return self.error
        failures = self.parallel.failures
        return next(iter(failures.values())) if len(failures) == len(self.pairs) else None

    def snapshot(self) -> RunSnapshot:
        """The run now; what other threads see as :attr:`seen` from then on. Belongs to the event loop."""
        self.seen = self._snapshots.take()
        return self.seen

    def told(self, report: RunReport | None = None) -> TrainInfo:
        """What callbacks hear of the whole run; ``report``: how it ended."""
        return TrainInfo(self.run_id, self.folder, self.plan.seed, self.decisions, report)

    def announce(self) -> None:
        """Say what a person has to do."""
        if self.plan.source.invitation is not None:
            self.hub.event("waiting", message=self.plan.source.invitation)

    async def collect_and_learn(self) -> None:
        """Run all pairs to their ends; learners learn beside them. What ends the whole run is in :attr:`error`."""
        self._loop = asyncio.get_running_loop()
        if self.cancelled or self.error is not None:  # asked before there was a loop to ask
            self.parallel.finish()
        begin = time.monotonic()
        collecting = asyncio.create_task(self.parallel.run())
        supervising, showing = asyncio.create_task(self._supervise()), asyncio.create_task(self._show())
        try:
            done, _ = await asyncio.wait({collecting, supervising}, return_when=asyncio.FIRST_COMPLETED)
            if collecting not in done:
                error = supervising.exception()
                self.error = error if isinstance(error, Exception) else None
                await self.parallel.cancel()
            await collecting
            await self._drain_learners()
        finally:
            for task in (supervising, showing):
                task.cancel()
            await asyncio.gather(supervising, showing, return_exceptions=True)
            self.training_seconds = time.monotonic() - begin
            self.hub.snapshot(self.snapshot())
            if self.actors is not None:
                for line in self.actors.figures():
                    self.hub.event("actors", message=line)
                self.actors.close()

    async def _drain_learners(self) -> None:
        """Let learners finish what they were given; what fails now, no pair will hear of."""
        if self.actors is not None:
            await self.actors.join(at_once=self.at_once)
        for learner in self.learners:
            if self.at_once:
                learner.shutdown()
            await learner.drain()
            if learner.error is not None and not self.parallel.failures:
                self.error = learner.error

    def request_finish(self) -> None:
        """Ask all pairs to end after the exchange they are in; save, evaluate and export follow."""
        self.cancelled = True
        self._call(lambda: asyncio.ensure_future(self.parallel.cancel()))

    def request_cancel(self) -> None:
        """End all pairs at once; what was learned is saved, and nothing else is done."""
        self.cancelled = self.at_once = True
        self._call(lambda: asyncio.ensure_future(self.parallel.cancel(grace_s=0)))

    def _stop(self, reason: str) -> None:
        """A callback wants the run to be done."""
        if self.stopped is None:
            self.stopped = reason
            self.hub.event("stopped", message=f"the run ends after {self.decisions:,} decisions: {reason}")

    def _fail(self, error: CallbackError) -> None:
        """A callback has failed: the run ends as if it were cancelled."""
        if self.error is None:
            self.error = error
        self._call(lambda: asyncio.ensure_future(self.parallel.cancel()))

    def _call(self, work: Callable[[], object]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work)

    def _make_pair(self, index: int) -> AgentTrainerPair:
        environment = self.plan.source.make(
            index, lambda stat: self._stat(index, stat), lambda message: self._warn(index, message)
        )
        keys_of_task = self.plan.task.keys if self.plan.task is not None else None
        trainer = AgentTrainer(
            index,
            partial(self.pool.agent, index),
            self.pool.rewarder,
            self.hub,
            keys_of_task,
            self.lessons.episodes,
            self.callbacks,
        )
        trainer.decisions = self.checkpointer.pair_decisions.get(index, 0)
        return AgentTrainerPair(
            environment,
            trainer,
            self._done,
            self._parameters,
            None if self.plan.inference else self.lessons,
            None if self.plan.inference else self._keep,
            self.hub.timers.part("pairs", parallel=True).part(f"pair {index}"),
        )

    def _make_parallel(self) -> ParallelTrainer:
        return ParallelTrainer(
            [self._make_pair(i) for i in range(self.plan.pairs)],
            self.plan.max_concurrent,
            self.hub,
            deterministic=self.plan.deterministic,
            playing=PairState.PLAYING if self.plan.inference else PairState.TRAINING,
            after_round=self._after_round,
            evaluate=None if self.plan.inference else self._evaluate,
        )

    def _make_population(self) -> PopulationTrainer:
        trainer = PopulationTrainer(
            self.plan, self.hub, self.pool, done=self._done, after_round=self._after_round, evaluate=self._evaluate
        )
        for pair in trainer.pairs:
            pair.trainer.decisions = self.checkpointer.pair_decisions.get(pair.id, 0)
        return trainer

    def _make_actors(self) -> ActorManager:
        actors = ActorManager.build(
            self.plan,
            self.hub,
            self.pool,
            self.lessons,
            done=self._done,
            parameters=self._parameters,
            save=lambda learner: self.checkpointer.save([learner], self.pairs),
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
        return sum(one.decisions for one in known) / max(1, sum(one.max_steps for one in known))

    def _lesson_begins(self, sentence: str) -> None:
        self.hub.event("lesson", message=sentence, numbers=dict(self.lessons.numbers))
        self._show_lessons()

    def _show_lessons(self) -> None:
        for name, number in self.lessons.numbers.items():
            self.hub.keep(keys.lesson_number(name), number)

    def _done(self, pair: AgentTrainerPair) -> bool:
        """A pair of `parallel` has its share of the decisions; those of `learn` run until all behaviors are done.

        What only plays never has enough. Whoever has learned enough before is done as well.
        """
        if self.stopped is not None:
            return True
        if self.plan.inference:
            return False
        if self.plan.command == "learn":
            done = {one.learner.name for one in self.actors.trainers if one.done} if self.actors is not None else set()
            return bool(self.pool.learners) and all(one.done or one.name in done for one in self.learners)
        learners = self.pool.of_pair(pair.id)
        if any(learner.stopped for learner in learners) and all(learner.done for learner in learners):
            return True
        return pair.trainer.decisions >= self.plan.quota(self._gone if self.plan.shared else 0)

    def _stat(self, index: int, stat: Stat) -> None:
        """A value that the game reported; MostRecent counts from engine 0 only, as in ML-Agents."""
        if stat.aggregation is not Aggregation.MOST_RECENT or index == 0:
            for learner in self.pool.of_pair(index):
                self.hub.add(learner.name, stat.key, stat.value, stat.aggregation)

    def _warn(self, pair: int, message: str) -> None:
        self.hub.warning(message, pair=pair)

    def _learner_appears(self, learner: Learner) -> None:
        """Restore it, and try its export now rather than after hours."""
        if self.examiner is not None:
            self.examiner.check(learner.spec)
        self.checkpointer.register(learner)
        if self.plan.inference:
            if self.plan.settings.checkpoint_settings.export == "best":
                learner.play_best()
            return
        if not self.plan.deterministic:
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
                await asyncio.sleep(_SNAPSHOT_S)
                while checked < len(self._export_checks) and self._export_checks[checked].done():
                    self._export_checks[checked].result()
                    checked += 1
                if watching.done():
                    watching.result()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _show(self) -> None:
        """Hand the run's picture to the recorders a few times a second. What goes wrong there costs no run."""
        try:
            if self.examiner is not None:
                examiner = self.examiner
                self.baselines = await asyncio.get_running_loop().run_in_executor(None, lambda: examiner.baselines)
                self.hub.baselines(self.baselines)
            while True:
                self.hub.snapshot(self.snapshot())
                await asyncio.sleep(_SNAPSHOT_S)
        except Exception as error:
            self.hub.warning(f"the run goes on, but is shown no longer: {type(error).__name__}: {error}")

    async def _after_round(self) -> bool:
        """In a deterministic run, whether a checkpoint was written and environments shall begin anew."""
        due = any(self.checkpointer.due(learner) for learner in self.learners)
        if due:
            await self.checkpointer.save_generation(self.learners, self.pairs)
        return due

    async def _after_update(self, learner: Learner) -> None:
        if self.checkpointer.due(learner):
            await self.checkpointer.save([learner], self.pairs)

    async def _keep(self) -> None:
        """A person has stopped the game, perhaps for today: write down what was learned, and try it in the game."""
        kept = self.checkpointer
        learned = [learner for learner in self.learners if kept.stale(learner) and kept.better(learner)]
        if not self.plan.deterministic:  # its checkpoints follow from its seed alone
            await self.checkpointer.save(learned, self.pairs)

    async def _evaluate(self, pair: AgentTrainerPair) -> None:
        """A pair has ended: score its policy as it is now."""
        for learner in self.pool.of_pair(pair.id):
            await learner.drain()
            if self.examiner is not None:
                told = learner.name, learner.policy.version, learner.decisions
                self.callbacks.tell("on_evaluation_begin", EvaluationInfo(*told))
                scores = await learner.run_in_thread(partial(self.examiner.quick_scores, learner.policy))
                self.callbacks.tell("on_evaluation_end", EvaluationInfo(*told, scores))
                if keys.VALIDATION_ACCURACY in scores:
                    self.validation_accuracy[pair.id] = scores[keys.VALIDATION_ACCURACY]
