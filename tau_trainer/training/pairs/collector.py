"""Collects experience from environments in pairs; also connects actors and populations."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from typing_extensions import override

from tau_trainer.evaluation.candidates import Candidate, best_of, make_candidate, still_rises
from tau_trainer.export import export_onnx
from tau_trainer.metrics import BaselineScore, BehaviorSnapshot, PairMetrics, PairState, keys
from tau_trainer.remote.process import Machines
from tau_trainer.runs.callbacks import EvaluationInfo
from tau_trainer.runs.collector import Collector, Conclusion, Export
from tau_trainer.runs.run import Run
from tau_trainer.specs import Json
from tau_trainer.training.advice import hint
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.pairs.coordinator import RunCoordinator
from tau_trainer.training.pairs.pair import Pair
from tau_trainer.training.pairs.speeds import Speeds
from tau_trainer.training.pairs.watchdog import watch
from tau_trainer.training.plan import RunPlan

_ACTING = (PairState.TRAINING, PairState.PLAYING)
_SLICE_S = 0.25
"""Seconds that the event loop runs between two checks of the run."""
_A_MINUTE_S = 60.0
"""Seconds of play after which it is clear what takes the time."""


class PairsCollector(Collector):
    """Plays pairs until they have made their decisions, while their learners learn.

    Pairs play in this process, in processes of their own (actors), or as one computation (a population). Everything
    here belongs to one event loop, which runs while the run waits for it.

    Raises:
        DataError, SettingsError, CheckpointError: it cannot start.
    """

    command = subject = ""  # the plan's, see below

    def __init__(self, plan: RunPlan, run: Run, machines: Machines | None = None) -> None:
        """``machines``: the nodes for actors and for learners that learn together; None: this machine."""
        self.plan, self.run = plan, run
        self.command, self.subject = plan.command, plan.subject
        self.baselines: Mapping[str, BaselineScore] | None = None
        """Baselines to compare policies with, once they are computed."""
        self._loop = asyncio.Runner()
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        """The tasks that collect, supervise, and compute baselines."""
        if plan.task is not None:
            run.hub.task(plan.task.keys)
        for sentence in plan.warnings:
            run.hub.warning(sentence)
        self.coordinator = RunCoordinator(plan, run, machines)
        """Answers the pairs."""
        self.pool = self.coordinator.pool
        self.actors, self.parallel = self.coordinator.actors, self.coordinator.parallel
        self._speeds = Speeds(self.steps, [pair.tally.decisions for pair in self.parallel.pairs])
        self._looked_back = plan.command != "learn" or plan.inference or plan.asynchronous
        """Whether the hint about speed has been considered."""

    def close(self) -> None:
        """End the learners' threads and processes, and the event loop."""
        self.pool.close()
        self._loop.close()

    @property
    def learners(self) -> list[Learner]:
        """All learners so far."""
        return self.coordinator.learners

    @property
    @override
    def steps(self) -> int:
        """Decisions of all pairs, including earlier sessions of a resumed run and pairs that only those had."""
        return self.coordinator.gone + sum(pair.tally.decisions for pair in self.parallel.pairs)

    @property
    @override
    def max_steps(self) -> int:
        """Status of the whole run. Pairs that have not started have no own learner yet."""
        pairs = self.parallel.pairs
        most = sum(learner.progress.max_steps for learner in self.learners)
        if self.plan.shared or not self.learners:
            return most
        return most * len(pairs) // sum(bool(self.pool.of_pair(pair.id)) for pair in pairs)

    @property
    @override
    def done(self) -> bool:
        return all(pair.state is PairState.COMPLETED for pair in self.parallel.pairs)

    @property
    @override
    def learned(self) -> bool:
        return any(learner.progress.updates for learner in self.learners)

    @property
    @override
    def behaviors(self) -> tuple[BehaviorSnapshot, ...]:
        return tuple(self._behavior(learner) for learner in self.learners)

    def _behavior(self, learner: Learner) -> BehaviorSnapshot:
        rewards = learner.progress.rewards
        return BehaviorSnapshot(
            name=learner.name,
            step=learner.decisions,
            max_steps=learner.progress.max_steps,
            episodes=sum(pair.tally.episodes[learner.name] for pair in self.parallel.pairs),
            mean_reward=rewards.mean,
            mean_length=rewards.mean_of(keys.EPISODE_LENGTH),
            mean_group_reward=rewards.mean_of(keys.GROUP_CUMULATIVE_REWARD),
            window_episodes=rewards.episodes,
            steps_per_decision=learner.progress.steps_per_decision,
            elo=None if learner.opponents is None else learner.opponents.rating.value,
            games=self.pool.self_play.table(learner.name),
        )

    @property
    @override
    def pairs(self) -> tuple[PairMetrics, ...]:
        return tuple(self._pair(pair) for pair in self.parallel.pairs)

    def _pair(self, pair: Pair) -> PairMetrics:
        """Status of a pair. Its mean reward is per decision if the task counts those, else per episode."""
        names = self.plan.task.keys if self.plan.task is not None else None
        rewards = [learner.progress.rewards for learner in self.pool.of_pair(pair.id)]

        def mean(key: str) -> float | None:
            """The mean over its behaviors."""
            known = [value for of_learner in rewards if (value := of_learner.of_pair(pair.id, key)) is not None]
            return sum(known) / len(known) if known else None

        metrics = pair.metrics()
        speed = self._speeds.of_pair(pair.id, metrics.decisions)
        return replace(
            metrics,
            mean_reward=mean(keys.CUMULATIVE_REWARD if names is None else names.reward),
            mean_group_reward=mean(keys.GROUP_CUMULATIVE_REWARD),
            success_rate=None if names is None else mean(names.success),
            validation_accuracy=self.coordinator.accuracies.get(pair.id),
            decisions_per_second=speed if metrics.state in _ACTING else 0.0,
        )

    @property
    @override
    def status(self) -> Json:
        learners = self.learners
        accuracies = [learner.tracker.scores.get(keys.VALIDATION_ACCURACY) for learner in learners]
        actors = self.actors.trainers if self.actors is not None else []
        return {
            "decisions_per_second": self._speeds.of_run(self.steps),
            "policy_version": sum(learner.progress.updates for learner in learners),
            "policy_age": max((learner.progress.policy_age for learner in learners), default=0.0),
            "held_seconds": sum(loop.bound.held_seconds for loop in self.pool.loops.values()),
            "update_seconds": sum(learner.progress.update_seconds for learner in learners),
            "columns": self.plan.task.columns if self.plan.task is not None else (),
            "validation_accuracy": max((accuracy for accuracy in accuracies if accuracy is not None), default=None),
            "baselines": self.baselines,
            "lessons": self.coordinator.lessons.sentences,
            "figures": tuple(figure for trainer in actors for figure in trainer.recorded.lines()),
            "message": next((pair.absent for pair in self.parallel.pairs if pair.absent), None),
        }

    @property
    @override
    def failure(self) -> Exception | None:
        failures = self.parallel.failures
        return next(iter(failures.values())) if len(failures) == len(self.parallel.pairs) else None

    @property
    @override
    def errors(self) -> Sequence[str]:
        failed = [pair for pair in self.parallel.pairs if pair.error]
        return [f"pair {pair.id}: {pair.error}" for pair in failed]

    @override
    def announce(self) -> None:
        if self.plan.invitation is not None:
            engine = "any" if self.plan.settings.env_settings.attached else "editor"
            self.run.hub.event("waiting", message=self.plan.invitation, engine=engine)

    @override
    def advance(self) -> bool:
        return self._loop.run(self._advance())

    async def _advance(self) -> bool:
        """Run the event loop for a while.

        False: all pairs have ended, and learners have learned from all their work.
        """
        begins = not self._tasks
        if begins:
            self.run.callbacks.begin()
            if self.run.asked.is_set() or self.run.error is not None:  # asked before the loop existed
                self.parallel.finish()
            parts = (self.parallel.run(), self._supervise(), self._compare())
            self._tasks = tuple(asyncio.create_task(part) for part in parts)
        collecting, supervising, comparing = self._tasks
        seconds = 0.0 if begins else _SLICE_S  # show the run before it waits
        done, _ = await asyncio.wait({collecting, supervising}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            return True
        try:
            if collecting not in done:
                error = supervising.exception()
                if isinstance(error, Exception):
                    self.run.fail(error)
                await self.parallel.cancel()
            await collecting
            await self._drain_learners()
        finally:
            for task in (supervising, comparing):
                task.cancel()
            await asyncio.gather(supervising, comparing, return_exceptions=True)
            for line in self.pool.figures():
                self.run.hub.event("learners", message=line)
            if self.actors is not None:
                for line in self.actors.figures():
                    self.run.hub.event("actors", message=line)
                self.actors.close()
        return False

    async def _drain_learners(self) -> None:
        """Let learners finish their work. Errors from here on do not reach any pair."""
        at_once = self.run.hurried.is_set()
        if self.actors is not None:
            await self.actors.join(at_once=at_once)
        for loop in self.pool.loops.values():
            if at_once:
                loop.give_up()
            await loop.drain()
            if loop.learner.error is not None and not self.parallel.failures:
                self.run.fail(loop.learner.error)
        if self.actors is not None:
            if self.run.asked.is_set() and not at_once:
                # Before the last policies are played: the user may not wait for that.
                await self.coordinator.save_better()
            await self.actors.evaluate_last()

    @override
    def interrupt(self) -> None:
        """Let pairs end after their current exchange, or at once."""
        if self._tasks:
            grace = {"grace_s": 0.0} if self.run.hurried.is_set() else {}
            with contextlib.suppress(RuntimeError):  # it has ended in the meantime
                loop = self._loop.get_loop()
                loop.call_soon_threadsafe(lambda: asyncio.ensure_future(self.parallel.cancel(**grace)))

    @override
    def save(self) -> None:
        self._loop.run(self._save_last())

    async def _save_last(self) -> None:
        """Validate the last policies, write the last summaries and checkpoints; say what learned nothing, and why."""
        for learner in self.learners:
            await self._validate_last(learner)
            learner.flush()
            if learner.policy.version == 0:
                why = learner.why_never(here=self.actors is None)
                self.run.hub.warning(f"'{learner.name}' was never updated: {why}")
        self._tell_of_absent()
        unsaved = self.coordinator.checkpointer.unsaved(self.learners, together=self.plan.deterministic)
        await self.coordinator.save(unsaved)

    def _tell_of_absent(self) -> None:
        """Warn of behaviors in the settings that no environment has shown."""
        shown = {learner.spec.short_name for learner in self.learners}
        absent = [f"'{name}'" for name in self.plan.settings.behaviors if name not in shown]
        if absent:
            met = ", ".join(f"'{name}'" for name in sorted(shown)) or "none"
            self.run.hub.warning(
                f"behaviors of the settings that never appeared: {', '.join(absent)}; those that did: {met}; correct "
                "or remove the names that do not match"
            )

    async def _validate_last(self, learner: Learner) -> None:
        """Validate the last policy, so that the best is chosen from all. A failure here does not end the run."""
        if self.run.hurried.is_set() or self.coordinator.scorer is None:
            return
        try:
            scores = await self.pool.in_thread(learner.tracker.validate_last, learner.policy)
            self.run.hub.add_all(learner.name, scores)
        except Exception as error:
            name = type(error).__name__
            self.run.hub.warning(f"the last policy of '{learner.name}' was not validated: {name}: {error}")

    @override
    def conclude(self) -> Conclusion:
        return self._loop.run(self._conclude())._replace(lessons=self.coordinator.lessons.numbers)

    async def _conclude(self) -> Conclusion:
        """Scores of the policies, and the policies to export."""
        candidates = await self._evaluate()
        best = best_of(candidates)
        scores = best.evaluation if best is not None else None
        if best is None or scores is None:
            return Conclusion(self._exports(candidates), chosen=self._chosen(candidates))
        return Conclusion(
            self._exports(candidates),
            evaluation={**best.to_dict(), "pairs": self._accuracies()},
            verdict=" ".join([scores.sentence(), *self._more(best.name)]),
            chosen={best.name: best.described()},
            baselines=scores.baselines,
        )

    def _chosen(self, candidates: Sequence[Candidate]) -> dict[str, str]:
        """The exported policy of each learner, in words; of independent policies, only the best is named."""
        best = best_of(candidates)
        named = candidates if self.plan.shared or best is None else [best]
        learners = self.pool.learners
        return {chosen.name: chosen.described() for chosen in named if learners[chosen.name].algorithm.exports}

    def _more(self, name: str) -> list[str]:
        """An advice if the learner of that name has made all its decisions and its accuracy still rose."""
        learner = next(learner for learner in self.learners if learner.name == name)
        if not (learner.decisions >= learner.progress.max_steps and still_rises(learner.tracker.accuracies)):
            return []
        twice = 2 * learner.progress.max_steps
        return [f"Validation accuracy still rose at the end, so more decisions would help: --max-steps {twice}."]

    async def _evaluate(self) -> list[Candidate]:
        """Every learner's policies, with their scores if the task has an evaluation."""
        scorer = None if self.run.hurried.is_set() else self.coordinator.scorer
        wanted, tell = self.plan.settings.checkpoint_settings.export, self.run.callbacks.tell
        candidates = []
        for learner in self.learners:
            last, best = learner.tracker.last(learner.policy), learner.tracker.best
            work = partial(make_candidate, learner.name, learner.spec, last, best, wanted, scorer)
            policy = learner.name, learner.policy.version, learner.decisions
            if scorer is not None:
                tell("on_evaluation_begin", EvaluationInfo(*policy))
            candidates.append(await self.pool.in_thread(work))
            if scorer is not None:
                found = candidates[-1].evaluation
                scores = {} if found is None else {"accuracy": found.accuracy, "reward": found.reward}
                tell("on_evaluation_end", EvaluationInfo(*policy, scores))
        return candidates

    def _exports(self, candidates: Sequence[Candidate]) -> list[Export]:
        """Every policy under its learner's name; the best of independent ones also under the behavior's name, first."""

        def export(candidate: Candidate, name: str) -> Export:
            scored = candidate.policies[candidate.exported]
            steps = scored.decisions if name == candidate.name else None
            return Export(name, partial(export_onnx, candidate.policy, candidate.spec), steps, scored.reward)

        learners = self.pool.learners
        candidates = [candidate for candidate in candidates if learners[candidate.name].algorithm.exports]
        best = best_of(candidates)
        first = [] if best is None or self.plan.shared else [export(best, best.spec.short_name)]
        return first + [export(candidate, candidate.name) for candidate in candidates]

    def _accuracies(self) -> Json:
        """The part of ``evaluation.json`` on every pair."""
        return {
            str(pair.id): {
                "decisions": pair.tally.decisions,
                "validation_accuracy": self.coordinator.accuracies.get(pair.id),
            }
            for pair in self.parallel.pairs
        }

    async def _supervise(self) -> None:
        """Raises errors that end the whole run: a failed export check, a stall."""
        loops = self.pool.loops
        watching = asyncio.create_task(
            watch(lambda: self.parallel.active, lambda: list(loops.values()), self.plan.stall_s)
        )
        checks = self.coordinator.export_checks
        try:
            while True:
                await asyncio.sleep(_SLICE_S)
                self._look_back()
                for check in [check for check in checks.values() if check.done()]:
                    check.result()
                if watching.done():
                    watching.result()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    def _look_back(self) -> None:
        """After a minute of play of the only pair, print a hint if other settings could be much faster."""
        if self._looked_back or len(self.coordinator.here) > 1:
            return
        lasted, waited = self.coordinator.here[0].played_s
        if lasted >= _A_MINUTE_S:
            self._looked_back = True
            said = hint(waited / lasted, self.plan.settings)
            if said is not None:
                self.run.hub.event("advice", message=said)

    async def _compare(self) -> None:
        """Compute the baselines that policies are compared with."""
        scorer = self.coordinator.scorer
        if scorer is not None:
            try:
                self.baselines = await asyncio.get_running_loop().run_in_executor(None, lambda: scorer.baselines)
                self.run.hub.baselines(self.baselines)
            except Exception as error:
                self.run.hub.warning(f"the run continues without baselines: {type(error).__name__}: {error}")
