"""The coordinator of a run: makes its pairs, decides when they are done, sends parameters, and saves their learners."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from typing_extensions import override

from tau_trainer.bridge.side_channels import Stat
from tau_trainer.envs import EnvironmentSource, Parameters
from tau_trainer.export import check_export
from tau_trainer.metrics import PairState, keys
from tau_trainer.remote.process import Machines
from tau_trainer.runs.callbacks import EvaluationInfo
from tau_trainer.runs.checkpoints import Checkpoint
from tau_trainer.runs.run import Run
from tau_trainer.specs import Aggregation, BehaviorSpec
from tau_trainer.training import behavior_json
from tau_trainer.training.actors.manager import ActorManager
from tau_trainer.training.agents import AgentTrainer
from tau_trainer.training.checkpointing import Checkpointer
from tau_trainer.training.learning.door import Door
from tau_trainer.training.learning.learner import Learner, Shared
from tau_trainer.training.learning.loop import Watcher
from tau_trainer.training.learning.pool import LearnerPool
from tau_trainer.training.lessons import Lessons
from tau_trainer.training.pairs.pair import AgentTrainerPair, Coordinator, Pair
from tau_trainer.training.pairs.parallel import ParallelTrainer
from tau_trainer.training.pairs.population import PopulationTrainer
from tau_trainer.training.pairs.turns import InTurn
from tau_trainer.training.plan import RunPlan
from tau_trainer.training.task import Task


class RunCoordinator(Coordinator, Watcher):
    """Makes the pairs of a run and answers them. Belongs to the event loop.

    Attributes:
        scorer: the task that evaluates policies; None: no evaluation.
        parallel: runs all pairs: in this process, in processes of their own (actors), or as one computation (a
            population).
        actors: the same, if they play in processes of their own; None: they do not.
        here: the pairs that play in this process.
        gone: decisions of pairs that only earlier sessions of this resumed run had.
        accuracies: on validation rows, of each pair's policy when it ended.
        export_checks: by learner, a check during learning whether its policy can be exported.

    Raises:
        DataError, SettingsError, CheckpointError: the run cannot start.
    """

    def __init__(self, plan: RunPlan, run: Run, machines: Machines | None = None) -> None:
        self.plan, self.run = plan, run
        examines = plan.task is not None and plan.task.evaluates and not plan.inference
        self.scorer: Task | None = plan.task if examines else None
        self.accuracies: dict[int, float] = {}
        self.export_checks: dict[str, asyncio.Future[None]] = {}
        self.lessons = Lessons(plan.parameters, self._progress, self._lesson_begins)
        self.evaluates = examines
        validator = self.scorer.quick_scores if self.scorer is not None else None
        self.pool = LearnerPool(plan, Shared(run.hub, validator, run.callbacks), self, machines)
        self.checkpointer = Checkpointer(run, plan.initial_weights)
        saved = self.checkpointer.newest()
        self._earlier = self._restore(saved)
        shown = [behavior_json.from_json(checkpoint.manifest["learner"]["behavior"]) for checkpoint in saved.values()]
        known = {spec.short_name: spec for spec in shown}
        self.door = Door(self.pool, known, self.checkpointer.origin, self._forget)
        self._show_lessons()
        self._learns, self._all_alike = not plan.inference, plan.command == "learn"
        self.here: list[AgentTrainerPair] = []
        places = None if machines is None else machines.place
        self.actors = ActorManager(plan, self.pool, self, places) if plan.asynchronous else None
        self.parallel = self.actors or self._make_parallel()
        for pair in self.parallel.pairs:
            pair.tally.decisions = self._earlier.get(pair.id, 0)
        self.gone = sum(decisions for pair, decisions in self._earlier.items() if pair >= plan.pairs)

    def _restore(self, saved: Mapping[str, Checkpoint]) -> dict[int, int]:
        """Continue with the newest generation, lessons and self-play. Returns each pair's decisions so far."""
        earlier: dict[int, int] = {}
        for checkpoint in () if self.plan.inference else saved.values():
            for pair, decisions in checkpoint.manifest["pairs"].items():
                if _learned_by(checkpoint, int(pair)):
                    earlier[int(pair)] = max(earlier.get(int(pair), 0), int(decisions))
        newest = max(saved.values(), key=lambda saved: (saved.set_id.number, saved.created), default=None)
        if newest is not None:
            self.generation = int(newest.manifest["generation"])
            if "lessons" in newest.manifest:  # older checkpoints have none
                self.lessons.load(newest.manifest["lessons"])
            if "self_play" in newest.manifest:
                self.pool.self_play.load(newest.manifest["self_play"])
        return earlier

    @property
    def learners(self) -> list[Learner]:
        """All learners so far."""
        return list(self.pool.learners.values())

    def _make_parallel(self) -> ParallelTrainer[Pair]:
        plan, hub = self.plan, self.run.hub
        if plan.population:
            return PopulationTrainer(plan, hub, self.pool, self)
        assert plan.source is not None
        self.here += [self._pair(index, plan.source) for index in range(plan.pairs)]
        kind = InTurn if plan.deterministic else ParallelTrainer
        playing = PairState.PLAYING if plan.inference else PairState.TRAINING
        return kind(self.here, plan.max_concurrent, hub, self, playing=playing)

    def _pair(self, index: int, source: EnvironmentSource) -> AgentTrainerPair:
        """A pair that plays in this process."""
        plan, run = self.plan, self.run
        environment = source.make(index, partial(self._stat, index), partial(self.run.hub.warning, pair=index))
        trainer = AgentTrainer(
            index,
            partial(self.pool.agent, index),
            self.pool.rewarder,
            run.hub,
            plan.task.keys if plan.task is not None else None,
            self.lessons.episodes,
            run.callbacks,
        )
        timer = run.hub.timers.part("pairs", parallel=True).part(f"pair {index}")
        return AgentTrainerPair(environment, trainer, self, self.lessons if self._learns else None, timer)

    @override
    def enough(self, pair: Pair) -> bool:
        """Whether a pair has its share of the decisions (`parallel`), or all behaviors are done (`learn`).

        A run that only plays is never done. A learner that has reached its criterion is done too.
        """
        if self.run.stopped is not None:
            return True
        if not self._learns:
            return False
        if self._all_alike:
            learners = self.pool.learners.values()
            trainers = () if self.actors is None else self.actors.context.trainers.values()
            over = all(trainer.over for trainer in trainers) if trainers else all(learner.done for learner in learners)
            return over and bool(learners)
        of_pair = self.pool.of_pair(pair.id)
        if any(learner.stopped for learner in of_pair) and all(learner.done for learner in of_pair):
            return True
        return pair.tally.decisions >= self.plan.quota(self.gone if self.plan.shared else 0)

    @override
    def parameters(self, pair: int) -> Parameters:
        return {**self.lessons.parameters, **self.plan.fresh_seed(pair, self.generation)}

    @override
    def objection(self, pair: AgentTrainerPair) -> str | None:
        name, shown = self.pool.name, list(pair.environment.specs.values())
        playing = {name(spec.short_name, other.id) for other in self.here for spec in other.met.values()}
        return self.door.objection(pair.id, shown, playing, new=not pair.met)

    @override
    def conflict(self, pair: int, shown: Sequence[BehaviorSpec]) -> str | None:
        return self.door.conflict(pair, shown)

    def _forget(self, learner: Learner) -> None:
        """Drop a learner that has not learned and that no pair plays for."""
        self.pool.forget(learner)
        self.export_checks.pop(learner.name, None)
        for pair in self.here:
            pair.trainer.forget(learner)

    def _progress(self, behavior: str) -> float:
        """Finished share of a behavior's ``max_steps``."""
        known = [learner.progress for learner in self.learners if learner.spec.short_name == behavior]
        return sum(progress.decisions for progress in known) / max(1, sum(progress.max_steps for progress in known))

    def _lesson_begins(self, sentence: str) -> None:
        self.run.hub.event("lesson", message=sentence, numbers=dict(self.lessons.numbers))
        self._show_lessons()

    def _show_lessons(self) -> None:
        for name, number in self.lessons.numbers.items():
            self.run.hub.keep(keys.lesson_number(name), number)

    def _stat(self, index: int, stat: Stat) -> None:
        """A value that the game reported; MostRecent counts from engine 0 only, as in ML-Agents."""
        if stat.aggregation is not Aggregation.MOST_RECENT or index == 0:
            for learner in self.pool.of_pair(index):
                self.run.hub.add(learner.name, stat.key, stat.value, stat.aggregation)

    @override
    def appears(self, learner: Learner) -> None:
        """Restore a new learner, and test its export now instead of after hours."""
        plan = self.plan
        if self.scorer is not None:
            self.scorer.check(learner.spec)
        shown = {spec.short_name: None for pair in self.here for spec in pair.environment.specs.values()}
        self.checkpointer.register(learner, shown)
        if plan.inference:
            if plan.settings.checkpoint_settings.export == "best" and learner.tracker.best is not None:
                learner.act_with(learner.tracker.best.policy)
            return
        if not learner.algorithm.exports or (plan.population and self.export_checks):
            return  # members of a population are of one shape
        loop = asyncio.get_running_loop()
        check = loop.run_in_executor(self.pool.executor, check_export, learner.policy, learner.spec)
        # A run that ends earlier does not read the result, and must not log its error either.
        check.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.export_checks[learner.name] = check

    @override
    async def updated(self, name: str) -> None:
        """Save it where that is due; several that are saved together are so after a round."""
        learner = self.pool.learners[name]
        alone = self._learns and not (self.plan.deterministic or self.plan.lock_step)
        if alone and self.checkpointer.due(learner):
            await self.save([learner])

    @override
    async def round_over(self) -> bool:
        """In a deterministic run, engines restart after each checkpoint with a seed that follows from its number.

        So a resumed run is the same as one that was never interrupted.
        """
        due = any(self.checkpointer.due(learner) for learner in self.learners)
        if due:
            for loop in self.pool.loops.values():
                await loop.drain()
                loop.learner.memory.clear()
            self.generation += 1
            await self.save(self.learners)
        return due

    @override
    async def absent(self) -> None:
        """Save all learning, perhaps for today, so that the person can try it in the game."""
        alone = all(pair.absent or pair.state.ended for pair in self.parallel.pairs)
        if alone and self._learns and not self.plan.deterministic:  # their checkpoints depend on the seed alone
            await self.save_better()

    async def save_better(self) -> None:
        """Save the learners that have learned since their last checkpoint."""
        kept = self.checkpointer
        await self.save([learner for learner in self.learners if kept.stale(learner) and kept.better(learner)])

    async def save(self, learners: Sequence[Learner]) -> None:
        """Write checkpoints of these learners, in their thread: of a deterministic run, all or none."""
        now = {pair.id: pair.tally.decisions for pair in self.parallel.pairs}
        task = self.plan.task
        content = {
            "pairs": {str(pair): decisions for pair, decisions in (self._earlier | now).items()},
            "generation": self.generation,
            "task": dict(task.identity) if task is not None else {},
            "lessons": self.lessons.state(),
            "self_play": self.pool.self_play.state(),
        }
        for group in [learners] if self.plan.deterministic and learners else [[learner] for learner in learners]:
            await self.pool.in_thread(self.checkpointer.writing(group, content, self.lessons.numbers))

    @override
    async def evaluate(self, pair: Pair) -> None:
        """Score the pair's current policy."""
        for learner in self.pool.of_pair(pair.id):
            await self.pool.loops[learner.name].drain()
            if self.scorer is not None:
                policy = learner.name, learner.policy.version, learner.decisions
                self.run.callbacks.tell("on_evaluation_begin", EvaluationInfo(*policy))
                scores = await self.pool.in_thread(self.scorer.quick_scores, learner.policy)
                self.run.callbacks.tell("on_evaluation_end", EvaluationInfo(*policy, scores))
                if keys.VALIDATION_ACCURACY in scores:
                    self.accuracies[pair.id] = scores[keys.VALIDATION_ACCURACY]


def _learned_by(checkpoint: Checkpoint, pair: int) -> bool:
    """Whether the learner of a checkpoint learns from ``pair``: it is shared by all pairs, or the pair's own."""
    behavior = str(checkpoint.manifest["learner"]["behavior"]["name"]).split("?")[0]
    suffix = checkpoint.name.removeprefix(f"{behavior}-pair")
    return suffix in (checkpoint.name, str(pair))
