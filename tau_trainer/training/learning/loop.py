"""The loop of a learner: from experience to newer weights that act.

1. Pairs play and fill the memory (:mod:`tau_trainer.training.pairs.pair`); their decisions are counted, and a summary
   is written where one is due. After every step, each of them calls :meth:`UpdateLoop.hand_over`. If the algorithm
   finds enough experience, the work of one update joins the queue.
2. The pair waits there for as long as its agents would act too far ahead of learning (:mod:`.age_bound`).
3. As long as work waits, one update follows another. In the learner's thread, the algorithm learns, publishes weights
   in between, and the policy is validated. If there is time until the next work, gradient steps fill it
   (:mod:`.budget`).
4. After each update: agents act with the new weights, the update is counted and reported, and the watcher may write a
   checkpoint. The next update starts after that.

Work that others collect (actors, a population) enters at step 3, with :meth:`UpdateLoop.update`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tau_trainer.algorithms import Algorithm, Counters, Publish, Setup
from tau_trainer.collection.decisions import Actor, Sink
from tau_trainer.errors import NonFiniteError
from tau_trainer.memory import Work
from tau_trainer.metrics import MetricsHub, PhaseTimer, keys
from tau_trainer.models import Policy
from tau_trainer.runs.callbacks import NOBODY, BatchInfo, Callbacks, UpdateInfo
from tau_trainer.settings import OffPolicyHyperparameters
from tau_trainer.specs import Aggregation, FloatArray
from tau_trainer.training.learning.age_bound import AgeBound
from tau_trainer.training.learning.budget import Filling
from tau_trainer.training.learning.handles import LearnerHandle
from tau_trainer.training.learning.policy_tracker import PolicyTracker, Validator
from tau_trainer.training.learning.progress import Progress
from tau_trainer.training.learning.returns import EpisodeReturns

if TYPE_CHECKING:
    from tau_trainer.training.learning.learner import Learner

_MOST_SKIPPED = 3
"""Number of consecutive updates that may fail on NaN before the run is aborted."""


class Watcher(Protocol):
    """Watches learners: for example, to restore and to save them."""

    def appears(self, learner: Learner) -> None:
        """Called with every new learner before it is used; may restore it from a checkpoint."""

    async def updated(self, name: str) -> None:
        """Called with a learner's name after each of its updates; its next update starts once this returns."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The objects that the learners of a run share."""

    hub: MetricsHub
    """Receives their statistics."""
    executor: Executor
    """The learners' threads."""
    validator: Validator | None = None
    """Scores policies after updates; None: policies are not scored."""
    max_policy_age: int = 1
    """Number of updates whose work may wait while agents still act; 0: learning and collection take turns."""
    callbacks: Callbacks = NOBODY
    """Called for updates, minibatches and evaluations."""
    watcher: Watcher | None = None
    """Restores and saves them; None: they are neither restored nor saved."""


@dataclass(slots=True)
class _Outcome:
    """The results that a turn of the learner's thread returns to the event loop."""

    statistics: Mapping[str, float]
    policy: Policy
    seconds: float
    error: NonFiniteError | None = None


class UpdateLoop(Sink):
    """Collects the experience of one behavior and learns from it, one update after another.

    All methods belong to the event loop, except those that run in the learner's thread.

    Attributes:
        name: its key in metrics and files.
        setup: what its algorithm was made from.
        spec: the behavior with the sensors that the policy sees.
        settings: of the behavior.
        handle: where it learns.
        policy: the newest whole policy.
        actor: acts with the newest policy from its next forward pass on, including policies from the middle of an
            update.
        progress: how far it has come.
        tracker: what its policies are worth.
        bound: how far agents may act ahead.
        filling: gradient steps that fill the time of the game; None: only the steps that the algorithm finds due.
        stopped: whether it is done before max_steps.
        error: the error that ended learning for good.
        skipped: number of updates since this process started that met NaN or infinity.
    """

    def __init__(self, name: str, setup: Setup, algorithm: Algorithm, handle: LearnerHandle, shared: Shared) -> None:
        """``algorithm`` collects, ``handle`` runs the updates; ``shared``: its thread, and those who get results."""
        super().__init__(algorithm)
        settings, decisions = setup.settings, setup.decisions
        self.name, self.setup, self.spec, self.settings, self.handle = name, setup, setup.spec, settings, handle
        self.policy = handle.policy()
        rng = np.random.default_rng([setup.seed, 1])
        self.actor = Actor(self.policy, rng, deterministic=settings.network_settings.deterministic)
        summary_freq, signals = settings.summary_every(decisions), settings.reward_signals
        self.progress = Progress(name, shared.hub, decisions, summary_freq, signals)
        self.progress.replays = isinstance(settings.hyperparameters, OffPolicyHyperparameters)
        self.tracker = PolicyTracker(self.progress, EpisodeReturns(settings), shared.validator, shared.callbacks)
        self.bound = AgeBound(shared.max_policy_age, on_policy=algorithm.on_policy, abreast=handle.abreast)
        self.filling: Filling | None = None
        self.stopped = False
        self.error: Exception | None = None
        self.skipped = 0
        self._shared = shared
        self._queue: list[Work] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._saving, self._judging = asyncio.Lock(), threading.Lock()
        self._skipped_in_a_row = self._drains = 0
        if {"on_batch_begin", "on_batch_end"} & shared.callbacks.wanted:
            handle.watch(self._batch)

    @property
    def done(self) -> bool:
        """Whether it has reached max_steps or its criterion. Its policy keeps acting."""
        return self.stopped or self.progress.decisions >= self.progress.max_steps

    @property
    def decisions(self) -> int:
        """Decisions made for it so far, including earlier sessions of a resumed run."""
        return self.progress.decisions

    def count(self, decisions: int) -> None:
        """Count decisions; write a summary if one is due."""
        progress, before = self.progress, self.done
        progress.decisions += decisions
        if self.done and not before:
            progress.rest()
            return
        if progress.decisions >= progress.next_summary:
            self.flush()
        if before:
            progress.hub.rest(self.name)

    def ended(self, returns: FloatArray) -> None:
        """Count the returns [k] of episodes that ended, as any sink does; this may reach the criterion."""
        if not self.done and self.tracker.returns.add(returns.tolist()):
            self.stopped = True
            self.progress.rest()
            self.progress.hub.event(
                "criterion",
                behavior=self.name,
                step=self.decisions,
                message=self.tracker.returns.sentence(self.name, self.decisions),
            )

    def flush(self) -> None:
        """Write a summary now."""
        self.progress.flush(training=not self.done)

    async def hand_over(self) -> None:
        """Hand over experience that is enough for an update; wait as long as agents would act too far ahead.

        Every pair calls this after it has recorded a step and before its environment gets the next answer. Once
        learning has failed for good, it raises the error: NonFiniteError after several updates that met NaN,
        LearnerError, or a defect.
        """
        if not self.done:
            idle = self.filling is not None and not self._under_way and self.filling.spent
            updates = self.policy.version + self.bound.outstanding
            work = self.algorithm.ready(Counters(self.progress.decisions, updates, idle=idle))
            if work is not None:
                self._enqueue(work)
        if self.bound.outstanding and self.bound.reached:
            held = await self.bound.wait(lambda: self.error is not None)
            if held is not None:
                self.progress.hub.add(self.name, keys.HELD_SECONDS, held, Aggregation.SUM)
        if self.error is not None:
            raise self.error

    def _enqueue(self, work: Work) -> None:
        self.bound.comes()
        if self.filling is not None:
            self.filling.comes()
        self._queue.append(work)
        if len(self._under_way) < self.handle.abreast:
            self._begin(self._run())

    async def _run(self) -> None:
        """Update from the work that waits; then, as long as ``filling`` allows it, from earlier experience."""
        while True:
            while self._queue:
                work = self._queue.pop(0)
                await self._turn(work if self.filling is None else self.filling.taken_in(work))
            resting = self.filling is None or self._drains or self._skipped_in_a_row or self.error is not None
            spare = None if resting or self.filling is None else self.filling.between()
            if spare is None:
                return
            await self._turn(spare, spare=True)

    async def update(self, work: Work, publish: Publish | None = None) -> None:
        """One update from ``work`` of any collector, in parallel with running ones. Raises as :meth:`hand_over`.

        ``publish``: called in the learner's thread with policies in the middle of the update; None: ``actor`` acts with
        them.
        """
        self.bound.comes()
        await self._begin(self._turn(work, publish))
        if self.error is not None:
            raise self.error

    async def _turn(self, work: Work, publish: Publish | None = None, *, spare: bool = False) -> None:
        """One update and all that follows from it; ``spare``: it fills spare time, so no agents wait for it."""
        progress, callbacks, watcher = self.progress, self._shared.callbacks, self._shared.watcher
        try:
            if "on_update_begin" in callbacks.wanted:
                callbacks.tell("on_update_begin", UpdateInfo(self.name, self.policy.version, progress.decisions))
            # If agents act during the update, their weights are only a little behind; if they take turns, none are
            # published.
            publish = (publish or self._publish) if self.bound.most else None
            outcome = await self.in_thread(self._compute, work, progress.share, publish)
            self._report(outcome)
            if self.filling is not None and outcome.error is None:
                self.filling.took(work, outcome.seconds)
            async with self._saving:
                if watcher is not None:
                    await watcher.updated(self.name)
        except Exception as error:  # callers that wait for the learner must get every error
            self.error = error
        finally:
            if not spare:
                self.bound.goes(more=bool(self._queue))

    def _compute(self, work: Work, progress: float, publish: Publish | None) -> _Outcome:
        """Learn and validate, in the learner's thread; ``progress``: finished share of the decisions."""
        begin, phases = time.perf_counter(), self.phases
        phases.begin()
        try:
            statistics = self.handle.submit(work, progress, publish)
        except NonFiniteError as error:
            return _Outcome({}, self.policy, time.perf_counter() - begin, error)
        policy = self.handle.policy()
        phases.end("update")
        with self._judging:
            scores = self.tracker.validate_if_due(policy)
        if scores:
            statistics.update(scores)
            phases.end("validate")
        return _Outcome(statistics, policy, time.perf_counter() - begin)

    def _publish(self, policy: Policy) -> None:
        """Let the next forward pass use ``policy``. Callable from any thread."""
        self.actor.policy = policy

    def _report(self, outcome: _Outcome) -> None:
        """Act with the new weights, count the update, and tell hub and callbacks of it."""
        callbacks, progress, error = self._shared.callbacks, self.progress, outcome.error
        self.bound.took(outcome.seconds)
        if outcome.policy.version >= self.policy.version:  # with several updates at a time, the last may arrive first
            self.act_with(outcome.policy)
        progress.took(outcome.seconds, outcome.statistics if error is None else None)
        self._skipped_in_a_row = 0 if error is None else self._skipped_in_a_row + 1
        self.skipped += error is not None
        if error is not None:  # the weights are those from before it; repeated failures end the run
            message = f"an update was skipped and the weights kept: {error}"
            progress.hub.warning(message, behavior=self.name, skipped=self._skipped_in_a_row)
            if self._skipped_in_a_row >= _MOST_SKIPPED:
                self.error = error
        if "on_update_end" in callbacks.wanted:
            steps, reason = (outcome.policy.version, progress.decisions), None if error is None else str(error)
            info = UpdateInfo(self.name, *steps, outcome.statistics, outcome.seconds, reason)
            callbacks.tell("on_update_end", info)

    def _batch(self, minibatches: int, statistics: Mapping[str, float] | None) -> None:
        """Minibatches were learned from (called in the thread, or by a message of its process); None: they start."""
        if statistics is None:
            self._shared.callbacks.soon("on_batch_begin", BatchInfo(self.name, minibatches))
        else:
            self._shared.callbacks.soon("on_batch_end", BatchInfo(self.name, minibatches, statistics))

    def act_with(self, policy: Policy) -> None:
        """Act with ``policy`` from now on."""
        self.policy = self.actor.policy = policy

    async def in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run ``work`` in the learner's thread, after earlier calls."""
        return await asyncio.get_running_loop().run_in_executor(self._shared.executor, work, *arguments)

    @property
    def phases(self) -> PhaseTimer:
        """Measures the time of a thread by phase, from now."""
        return PhaseTimer(self.progress.hub.timers.part("learners", parallel=True).part(self.name))

    async def drain(self) -> None:
        """Wait until all handed-over work has been learned from. Until then, no filling steps start."""
        self._drains += 1
        try:
            while tasks := self._under_way:
                await asyncio.gather(*tasks)
        finally:
            self._drains -= 1

    def give_up(self) -> None:
        """Drop all waiting work; a running update completes."""
        waiting, self._queue[:] = self._queue[:], []
        for work in waiting:
            work.release()
        self.bound.goes(len(waiting))

    def _begin(self, updates: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(updates)
        self._tasks = [*self._under_way, task]
        return task

    @property
    def _under_way(self) -> list[asyncio.Task[None]]:
        return [task for task in self._tasks if not task.done()]
