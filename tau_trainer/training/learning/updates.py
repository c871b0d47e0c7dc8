"""The updates of one learner: work waits in a queue, and the learner's thread learns from it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from tau_trainer.collection.decisions import Actor
from tau_trainer.errors import NonFiniteError
from tau_trainer.memory import Work
from tau_trainer.metrics import Laps, MetricsHub
from tau_trainer.models import Policy
from tau_trainer.runs.callbacks import NOBODY, BatchInfo, Callbacks, UpdateInfo
from tau_trainer.training.learning.age_bound import AgeBound
from tau_trainer.training.learning.budget import Filling
from tau_trainer.training.learning.handles import LearnerHandle
from tau_trainer.training.learning.judge import Judge, Validator
from tau_trainer.training.learning.progress import Progress

_MOST_SKIPPED = 3
"""Number of consecutive updates that may fail on NaN before the run is aborted."""


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
    after: Callable[[str], Awaitable[None]] | None = None
    """Awaited with a learner's name after each of its updates, before the next starts (for example, to save it)."""


@dataclass(slots=True)
class _Outcome:
    """The results that a turn of the learner's thread returns to the event loop."""

    statistics: Mapping[str, float]
    policy: Policy
    seconds: float
    error: NonFiniteError | None = None


class Updates:
    """Learns from the work that is handed over, one update after another.

    Belongs to the event loop, except for its thread.

    Attributes:
        policy: the newest whole policy.
        actor: acts with the newest policy from its next forward pass on, including policies from the middle of an
        update.
        error: the error that ended learning for good.
        skipped: number of updates since this process started that met NaN or infinity.
        shown: called with policies in the middle of an update, in its thread.
        filling: gradient steps that fill the time of the game; None: only the steps that the algorithm finds due.
    """

    def __init__(
        self, handle: LearnerHandle, actor: Actor, progress: Progress, judge: Judge, bound: AgeBound, shared: Shared
    ) -> None:
        """``handle``: runs the updates; ``shared``: its thread, and the receivers of its results."""
        self.policy = handle.policy()
        self.actor = actor
        self.error: Exception | None = None
        self.skipped = 0
        self.shown: Callable[[Policy], None] | None = None
        self.filling: Filling | None = None
        self._handle, self._progress, self._judge, self._bound = handle, progress, judge, bound
        self._shared = shared
        self._queue: list[Work] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._afterwards, self._judging = asyncio.Lock(), threading.Lock()
        self._skipped_in_a_row = self._drains = 0
        if {"on_batch_begin", "on_batch_end"} & shared.callbacks.wanted:
            handle.watch(self._batch)

    @property
    def laps(self) -> Laps:
        """Laps that measure the time of a thread, from now."""
        return Laps(self._shared.hub.timers.part("learners", parallel=True).part(self._progress.name))

    def hand_over(self, work: Work) -> None:
        """Learn from ``work`` after the work that waits already."""
        self._bound.comes()
        if self.filling is not None:
            self.filling.comes()
        self._queue.append(work)
        if len(self._under_way) < self._handle.abreast:
            self._begin(self._learn_all())

    async def learn(self, work: Work) -> None:
        """Learn from ``work`` in parallel with running updates, and wait for the end of this update."""
        self._bound.comes()
        await self._begin(self._learn_from(work))

    def _begin(self, learning: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(learning)
        self._tasks = [*self._under_way, task]
        return task

    @property
    def _under_way(self) -> list[asyncio.Task[None]]:
        return [task for task in self._tasks if not task.done()]

    @property
    def idle(self) -> bool:
        """Whether it rests because all allowed gradient steps are taken."""
        return self.filling is not None and not self._under_way and self.filling.spent

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
        self._bound.goes(len(waiting))

    def take(self, policy: Policy) -> None:
        """Act with ``policy`` from now on."""
        self.policy = self.actor.policy = policy

    async def _learn_all(self) -> None:
        """Learn from the waiting work; then, if ``filling`` allows it, from earlier experience."""
        while True:
            while self._queue:
                work = self._queue.pop(0)
                if self.filling is not None:
                    work = self.filling.taken_in(work)
                await self._learn_from(work)
            resting = self.filling is None or self._drains or self._skipped_in_a_row or self.error is not None
            block = None if resting or self.filling is None else self.filling.between()
            if block is None:
                return
            await self._update(block)

    async def _learn_from(self, work: Work) -> None:
        try:
            await self._update(work)
        finally:
            self._bound.goes(more=bool(self._queue))

    async def _update(self, work: Work) -> None:
        progress, callbacks = self._progress, self._shared.callbacks
        if "on_update_begin" in callbacks.wanted:
            info = UpdateInfo(progress.name, self.policy.version, progress.decisions)
            callbacks.tell("on_update_begin", info)
        try:
            outcome = await self.in_thread(self._learn, work, progress.share)
            self._take_over(outcome)
            if self.filling is not None and outcome.error is None:
                self.filling.took(work, outcome.seconds)
            async with self._afterwards:
                if self._shared.after is not None:
                    await self._shared.after(progress.name)
        except Exception as error:  # callers that wait for the learner must get every error
            self.error = error

    async def in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run ``work`` in the learner's thread, after earlier calls."""
        return await asyncio.get_running_loop().run_in_executor(self._shared.executor, work, *arguments)

    def _learn(self, work: Work, progress: float) -> _Outcome:
        """One update, in the thread."""
        begin, laps = time.perf_counter(), self.laps
        laps.begin()
        try:
            # If agents act during the update, their weights are only a little behind; if they take turns, none are
            # published.
            statistics = self._handle.submit(work, progress, self._publish if self._bound.most else None)
        except NonFiniteError as error:
            return _Outcome({}, self.policy, time.perf_counter() - begin, error)
        policy = self._handle.policy()
        laps.lap("update")
        with self._judging:
            scores = self._judge.validate_if_due(policy)
        if scores:
            statistics.update(scores)
            laps.lap("validate")
        return _Outcome(statistics, policy, time.perf_counter() - begin)

    def _publish(self, policy: Policy) -> None:
        """Let the next forward pass use ``policy``. Callable from any thread."""
        self.actor.policy = policy
        if self.shown is not None:
            self.shown(policy)

    def _batch(self, minibatches: int, statistics: Mapping[str, float] | None) -> None:
        """Minibatches were learned from (called in the thread, or by a message of its process); None: they start."""
        if statistics is None:
            self._shared.callbacks.soon("on_batch_begin", BatchInfo(self._progress.name, minibatches))
        else:
            self._shared.callbacks.soon("on_batch_end", BatchInfo(self._progress.name, minibatches, statistics))

    def _take_over(self, outcome: _Outcome) -> None:
        callbacks, progress, error = self._shared.callbacks, self._progress, outcome.error
        self._bound.took(outcome.seconds)
        if outcome.policy.version >= self.policy.version:  # with several updates at a time, the last may arrive first
            self.take(outcome.policy)
        progress.took(outcome.seconds, outcome.statistics if error is None else None)
        self._skipped_in_a_row = 0 if error is None else self._skipped_in_a_row + 1
        self.skipped += error is not None
        if error is not None:  # the weights are those from before it; repeated failures end the run
            message = f"an update was skipped and the weights kept: {error}"
            progress.hub.warning(message, behavior=progress.name, skipped=self._skipped_in_a_row)
            if self._skipped_in_a_row >= _MOST_SKIPPED:
                self.error = error
        if "on_update_end" in callbacks.wanted:
            reason = None if error is None else str(error)
            info = UpdateInfo(
                progress.name,
                outcome.policy.version,
                progress.decisions,
                outcome.statistics,
                outcome.seconds,
                reason,
            )
            callbacks.tell("on_update_end", info)
