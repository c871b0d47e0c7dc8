"""One run from its settings to its report: the folder, the pairs, the learners, and everything beside them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tau_trainer.bridge.side_channels import Stat
from tau_trainer.collection.restarts import RestartBudget
from tau_trainer.collection.worker import EngineWorker
from tau_trainer.metrics import (
    Aggregation,
    BehaviorSnapshot,
    MetricsHub,
    PairSnapshot,
    RateMeter,
    RunSnapshot,
    keys,
)
from tau_trainer.training.agent_trainer import AgentTrainer
from tau_trainer.training.checkpointing import Checkpointer
from tau_trainer.training.exporting import check_export
from tau_trainer.training.learner import Learner
from tau_trainer.training.pair import AgentTrainerPair
from tau_trainer.training.parallel import ParallelTrainer
from tau_trainer.training.plan import RunPlan
from tau_trainer.training.pool import LearnerPool
from tau_trainer.training.states import PairState
from tau_trainer.training.tau_task import TauTask
from tau_trainer.training.watchdog import watch

_SNAPSHOT_S = 0.25


class TrainingRun:
    """Wires a run together and trains it to its end; the report is made by :mod:`~tau_trainer.training.finish`.

    Everything here belongs to one event loop. ``request_finish`` and ``request_cancel`` may be called from any thread.
    """

    def __init__(self, plan: RunPlan, run_id: str, folder: Path, hub: MetricsHub, *, resume: bool) -> None:
        """``folder``: the run's own, which exists. Raises DataError, SettingsError."""
        self.plan = plan
        self.run_id = run_id
        self.folder = folder
        self.hub = hub
        self.task = TauTask(plan.tau) if plan.tau is not None and plan.tau.evaluate else None
        if plan.engine.listen:
            how, can = "without encryption or password", "can"
            if plan.engine.tls is not None:
                how, can = "with TLS, which asks no client who it is", "can still"
            hub.warning(
                f"listening on {plan.engine.listen}, {how}: whoever reaches it {can} act as an engine; "
                "leave --listen out where the engines run on this machine"
            )
        skipped = self.task.dataset.skipped_sentence() if self.task is not None else None
        if skipped:
            hub.warning(skipped)
        self.checkpointer = Checkpointer(folder / "checkpoints", hub, resume=resume)
        evaluator = self.task.quick_scores if self.task is not None else None
        self.pool = LearnerPool(plan, hub, evaluator, self._learner_appears)
        self.accuracy: dict[int, float] = {}
        """Held-out accuracy of each pair's policy when it ended."""
        self.error: Exception | None = None
        """What ended the whole run, if something did."""
        self.cancelled = False
        self.hurried = False
        """Save and go: no evaluation and no export."""
        self.training_seconds = 0.0
        self._started = time.monotonic()
        self._rates = [RateMeter() for _ in range(plan.pairs)]
        self._export_checks: list[asyncio.Future[None]] = []
        self._first_decisions: list[int] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self.checkpointer.prepare()
        self.pairs = [self._make_pair(i) for i in range(plan.pairs)]
        self.parallel = ParallelTrainer(
            self.pairs,
            plan.max_concurrent,
            hub,
            deterministic=plan.deterministic,
            after_round=self._after_round,
            evaluate=self._evaluate,
        )

    @property
    def learners(self) -> list[Learner]:
        """All learners so far."""
        return list(self.pool.learners.values())

    @property
    def decisions(self) -> int:
        """Decisions of all pairs, earlier runs that were resumed included."""
        return sum(pair.trainer.decisions for pair in self.pairs)

    @property
    def new_decisions(self) -> int:
        """Decisions made by this process."""
        return self.decisions - sum(self._first_decisions)

    @property
    def elapsed_seconds(self) -> float:
        """Since the run was made."""
        return time.monotonic() - self._started

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

    def _make_pair(self, index: int) -> AgentTrainerPair:
        env = self.plan.settings.env_settings
        worker = EngineWorker(
            index,
            self.plan.ports[index],
            self.plan.launch[index],
            self.plan.engine,
            RestartBudget(env.max_lifetime_restarts, env.restarts_rate_limit_n, env.restarts_rate_limit_period_s),
            fixed_port=self.plan.fixed_ports,
            on_stat=lambda stat: self._stat(index, stat),
            on_event=lambda message: self._warn(index, message),
        )
        trainer = AgentTrainer(index, lambda spec: self.pool.agent(index, spec), self.pool.reward, self.hub)
        trainer.decisions = self.checkpointer.pair_decisions.get(index, 0)
        self._first_decisions.append(trainer.decisions)
        return AgentTrainerPair(
            worker, trainer, self._done, lambda pair: self.plan.engine_parameters(pair, self.checkpointer.generation)
        )

    def _done(self, pair: AgentTrainerPair) -> bool:
        """A pair of `parallel` has its share of the decisions; engines of `learn` run until all behaviors are done."""
        if self.plan.command == "learn":
            return bool(self.pool.learners) and all(learner.done for learner in self.learners)
        return pair.trainer.decisions >= self.plan.quota

    def _stat(self, index: int, stat: Stat) -> None:
        """A value that the game reported; MostRecent counts from engine 0 only, as in ML-Agents."""
        aggregation = Aggregation(int(stat.aggregation))
        if aggregation is not Aggregation.MOST_RECENT or index == 0:
            for learner in self.pool.of_pair(index):
                self.hub.add(learner.name, stat.key, stat.value, aggregation)

    def _warn(self, pair: int, message: str) -> None:
        self.hub.warning(message, pair=pair)

    def _learner_appears(self, learner: Learner) -> None:
        """Restore it, and try its export now rather than after hours."""
        if self.task is not None:
            self.task.check(learner.spec)
        self.checkpointer.register(learner)
        if not self.plan.deterministic:
            learner.after_update = self._after_update
        loop = asyncio.get_running_loop()
        self._export_checks.append(loop.run_in_executor(self.pool.executor, check_export, learner.policy, learner.spec))

    async def train(self) -> None:
        """Run all pairs to their ends. What ends the whole run is in :attr:`error`."""
        self._loop = asyncio.get_running_loop()
        if self.cancelled:  # asked before there was a loop to ask
            self.parallel.finish()
        self._say_what_to_expect()
        begin = time.monotonic()
        training = asyncio.create_task(self.parallel.run())
        beside = [asyncio.create_task(work) for work in (self._show(), self._supervise())]
        try:
            done, _ = await asyncio.wait({training, beside[1]}, return_when=asyncio.FIRST_COMPLETED)
            if training not in done:
                await self._give_up(beside[1].exception())
            await training
            await self._settle()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            self.training_seconds = time.monotonic() - begin
            self.hub.snapshot(self.snapshot())

    def _say_what_to_expect(self) -> None:
        if self.plan.launch[0] is None:
            port = self.plan.ports[0]
            self.hub.event("waiting", message=f"waiting for the Unity editor on port {port}: press Play in the editor")
        if not self.cancelled and all(pair.finished for pair in self.pairs):
            self.hub.warning(
                f"run '{self.run_id}' has had its {self.decisions} decisions already; raise --max-steps to go on"
            )

    async def _settle(self) -> None:
        """Let learners finish what they were given; what fails now, no pair will hear of."""
        for learner in self.learners:
            if self.hurried:
                learner.hurry()
            await learner.settle()
            if learner.error is not None and not self.parallel.failures:
                self.error = learner.error

    async def _give_up(self, error: BaseException | None) -> None:
        """The supervisor has ended the run: keep why, and let the pairs go."""
        if isinstance(error, Exception):
            self.error = error
        await self.parallel.cancel()

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

    async def _after_round(self) -> bool:
        """In a deterministic run, whether a checkpoint was written and engines shall begin anew."""
        due = any(self.checkpointer.due(learner) for learner in self.learners)
        if due:
            await self.checkpointer.save_generation(self.learners, self.pairs)
        return due

    async def _after_update(self, learner: Learner) -> None:
        if self.checkpointer.due(learner):
            await self.checkpointer.save([learner], self.pairs)

    async def _evaluate(self, pair: AgentTrainerPair) -> None:
        """A pair has ended: score its policy as it is now."""
        for learner in self.pool.of_pair(pair.id):
            await learner.settle()
            if self.task is not None:
                scores = await learner.run_in_thread(partial(self.task.quick_scores, learner.policy))
                self.accuracy[pair.id] = scores[keys.HELD_OUT_ACCURACY]

    def request_finish(self) -> None:
        """Ask all pairs to end after the exchange they are in; save, evaluate and export follow."""
        self.cancelled = True
        self._call(lambda: asyncio.ensure_future(self.parallel.cancel()))

    def request_cancel(self) -> None:
        """End all pairs at once; what was learned is saved, and nothing else is done."""
        self.cancelled = self.hurried = True
        self._call(lambda: asyncio.ensure_future(self.parallel.cancel(grace_s=0)))

    def _call(self, work: Callable[[], object]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work)

    async def _show(self) -> None:
        """Hand the run's picture to the recorders a few times a second."""
        if self.task is not None:
            task = self.task
            self.hub.baselines(await asyncio.get_running_loop().run_in_executor(None, lambda: task.baselines))
        while True:
            self.hub.snapshot(self.snapshot())
            await asyncio.sleep(_SNAPSHOT_S)

    def snapshot(self) -> RunSnapshot:
        """The run now."""
        now = time.monotonic()
        pairs = tuple(self._pair_snapshot(pair, now) for pair in self.pairs)
        learners = self.learners
        rate = sum(pair.decisions_per_second for pair in pairs)
        most = sum(learner.max_steps for learner in learners)
        left = max(most - self.decisions, 0)
        accuracies = [learner.evaluation.get(keys.HELD_OUT_ACCURACY) for learner in learners]
        known = [accuracy for accuracy in accuracies if accuracy is not None]
        baselines = self.task.__dict__.get("baselines") if self.task is not None else None
        return RunSnapshot(
            run_id=self.run_id,
            command=self.plan.command,
            elapsed_s=now - self._started,
            decisions=self.decisions,
            max_decisions=most,
            decisions_per_second=rate,
            eta_s=left / rate if rate > 0 and most else None,
            policy_version=sum(learner.updates for learner in learners),
            policy_age=max((learner.policy_age for learner in learners), default=0.0),
            held_seconds=sum(learner.held_seconds for learner in learners),
            update_seconds=sum(learner.update_seconds for learner in learners),
            pairs=pairs,
            behaviors=tuple(self._behavior_snapshot(learner) for learner in learners),
            accuracy=max(known) if known else None,
            baselines=baselines,
        )

    def _pair_snapshot(self, pair: AgentTrainerPair, now: float) -> PairSnapshot:
        metrics = pair.metrics(per_decision=self.plan.tau is not None)
        meter = self._rates[pair.id]
        meter.add(metrics.decisions - self._first_decisions[pair.id] - meter.total)
        training = metrics.state is PairState.TRAINING
        return PairSnapshot(
            id=pair.id,
            state=metrics.state.value,
            decisions=metrics.decisions,
            mean_reward=metrics.mean_reward,
            success_rate=metrics.success_rate,
            decisions_per_second=meter.rate() if training else 0.0,
            error=metrics.error,
        )

    def _behavior_snapshot(self, learner: Learner) -> BehaviorSnapshot:
        feeding = [p for p in self.pairs if any(agent.learner is learner for agent in p.trainer.agents)]
        returns = [p.trainer.mean_return for p in feeding if p.trainer.mean_return is not None]
        return BehaviorSnapshot(
            name=learner.name,
            step=learner.decisions,
            max_steps=learner.max_steps,
            episodes=sum(p.trainer.episodes for p in feeding),
            mean_reward=sum(returns) / len(returns) if returns else None,
        )
