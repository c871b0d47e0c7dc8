"""Collects experience from environments in pairs; also connects actors and populations."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from tau_trainer.metrics import BaselineScore, BehaviorSnapshot, PairMetrics, PairState
from tau_trainer.remote.process import Machines
from tau_trainer.runs.collector import Collector, Conclusion
from tau_trainer.runs.run import Run
from tau_trainer.training.actors.link import Board
from tau_trainer.training.actors.manager import ActorManager
from tau_trainer.training.advice import hint
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.pairs import finish
from tau_trainer.training.pairs.overseer import RunOverseer
from tau_trainer.training.pairs.parallel import ParallelTrainer
from tau_trainer.training.pairs.population import PopulationTrainer
from tau_trainer.training.pairs.snapshots import Snapshots
from tau_trainer.training.pairs.watchdog import watch
from tau_trainer.training.plan import RunPlan

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

    def __init__(self, plan: RunPlan, run: Run, machines: Machines | None = None) -> None:
        """``machines``: the nodes for actors and for learners that learn together; None: this machine."""
        self.plan, self.run = plan, run
        self.baselines: Mapping[str, BaselineScore] | None = None
        """Baselines to compare policies with, once they are computed."""
        self._loop = asyncio.Runner()
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        """The tasks that collect, supervise, and compute baselines."""
        if plan.task is not None:
            run.hub.task(plan.task.keys)
        for sentence in (*plan.source.warnings, *(plan.task.warnings if plan.task is not None else ())):
            run.hub.warning(sentence)
        self.overseer = RunOverseer(plan, run, machines)
        """Answers the pairs."""
        self.actors: ActorManager | None = None
        """The actors that play in processes of their own; None: there are none."""
        if plan.asynchronous:
            places = machines.place if machines is not None else None
            self.actors = ActorManager(Board(plan, self.overseer.pool, self.overseer, places))
            self.overseer.trainers = self.actors.board.trainers
        self.parallel = self.actors or self._make_parallel()
        for pair in self.parallel.pairs:
            pair.trainer.decisions = self.overseer.checkpointer.pair_decisions.get(pair.id, 0)
        self.overseer.pairs = self.parallel.pairs
        self._snapshots = Snapshots(self)
        self._looked_back = plan.command != "learn" or plan.inference or plan.asynchronous
        """Whether the hint about speed has been considered."""

    def _make_parallel(self) -> ParallelTrainer:
        plan, hub = self.plan, self.run.hub
        if plan.population:
            return PopulationTrainer(plan, hub, self.overseer.pool, self.overseer)
        return ParallelTrainer(
            [self.overseer.pair(index) for index in range(plan.pairs)],
            plan.max_concurrent,
            hub,
            self.overseer,
            deterministic=plan.deterministic,
            playing=PairState.PLAYING if plan.inference else PairState.TRAINING,
        )

    def close(self) -> None:
        """End the learners' threads and processes, and the event loop."""
        self.overseer.pool.close()
        self._loop.close()

    @property
    def learners(self) -> list[Learner]:
        """All learners so far."""
        return self.overseer.learners

    @property
    @override
    def command(self) -> str:
        return self.plan.command

    @property
    @override
    def steps(self) -> int:
        """Decisions of all pairs, including earlier sessions of a resumed run and pairs that only those had."""
        return self.overseer.gone + sum(pair.trainer.decisions for pair in self.parallel.pairs)

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
        return any(learner.progress.updates for learner in self.learners)

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
                self.run.error = error if isinstance(error, Exception) else None
                await self.parallel.cancel()
            await collecting
            await self._drain_learners()
        finally:
            for task in (supervising, comparing):
                task.cancel()
            await asyncio.gather(supervising, comparing, return_exceptions=True)
            for line in self.overseer.pool.figures():
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
        for learner in self.learners:
            if at_once:
                learner.updates.give_up()
            await learner.updates.drain()
            if learner.updates.error is not None and not self.parallel.failures:
                self.run.error = learner.updates.error
        if self.actors is not None:
            if self.run.asked.is_set() and not at_once:
                await finish.save_early(self)
            await self.actors.judge()

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
        self._loop.run(finish.save(self))

    @override
    def conclude(self) -> Conclusion:
        return self._loop.run(finish.conclude(self))

    async def _supervise(self) -> None:
        """Raises errors that end the whole run: a failed export check, a stall."""
        watching = asyncio.create_task(watch(lambda: self.parallel.active, lambda: self.learners, self.plan.stall_s))
        checks = self.overseer.export_checks
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
        if self._looked_back or len(self.parallel.pairs) > 1:
            return
        lasted, waited = self.parallel.pairs[0].played_s
        if lasted >= _A_MINUTE_S:
            self._looked_back = True
            said = hint(waited / lasted, self.plan.settings)
            if said is not None:
                self.run.hub.event("advice", message=said)

    async def _compare(self) -> None:
        """Compute the baselines that policies are compared with."""
        examiner = self.overseer.examiner
        if examiner is not None:
            try:
                self.baselines = await asyncio.get_running_loop().run_in_executor(None, lambda: examiner.baselines)
                self.run.hub.baselines(self.baselines)
            except Exception as error:
                self.run.hub.warning(f"the run continues without baselines: {type(error).__name__}: {error}")
