"""The updates of one learner: work waits in a queue, and is learned from in the learner's thread."""

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
"""Updates in a row that may fail on NaN before the run is given up."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What the learners of a run have in common."""

    hub: MetricsHub
    """Where their statistics go."""
    executor: Executor
    """The learners' threads."""
    validator: Validator | None = None
    """Scores policies after updates; None: nothing does."""
    max_policy_age: int = 1
    """Updates' worth of work that may wait while agents still act; 0: learning and collection take turns."""
    callbacks: Callbacks = NOBODY
    """Told of updates, minibatches and evaluations."""
    after: Callable[[str], Awaitable[None]] | None = None
    """Awaited with a learner's name after each of its updates, before the next begins (to write a checkpoint, say)."""


@dataclass(slots=True)
class _Outcome:
    """What a turn of the learner's thread brings back to the event loop."""

    statistics: Mapping[str, float]
    policy: Policy
    seconds: float
    error: NonFiniteError | None = None


class Updates:
    """Learns from what is handed over, one update after the other. Belongs to the event loop, but for its thread.

    Attributes:
        policy: the newest whole policy.
        actor: acts with the newest policy from its next forward pass on, also of those in the middle of an update.
        error: why learning has failed for good.
        skipped: updates that met NaN or infinity since this process began.
        shown: told of policies in the middle of an update, in its thread.
        filling: what gradient steps are taken while the game is busy; None: those alone that the algorithm finds due.
    """

    def __init__(
        self, handle: LearnerHandle, actor: Actor, progress: Progress, judge: Judge, bound: AgeBound, shared: Shared
    ) -> None:
        """``handle``: where it learns; ``shared``: its thread, and who is told."""
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
        """What a thread spends its time on, from now."""
        return Laps(self._shared.hub.timers.part("learners", parallel=True).part(self._progress.name))

    def hand_over(self, work: Work) -> None:
        """Learn from ``work`` after what waits already."""
        self._bound.comes()
        if self.filling is not None:
            self.filling.comes()
        self._queue.append(work)
        if len(self._under_way) < self._handle.abreast:
            self._begin(self._learn_all())

    async def learn(self, work: Work) -> None:
        """Learn from ``work`` beside what is under way, and wait for that."""
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
        """Whether it rests because all gradient steps are taken that may be."""
        return self.filling is not None and not self._under_way and self.filling.spent

    async def drain(self) -> None:
        """Wait until everything that was handed over has been learned from; nothing more is until then."""
        self._drains += 1
        try:
            while tasks := self._under_way:
                await asyncio.gather(*tasks)
        finally:
            self._drains -= 1

    def give_up(self) -> None:
        """Learn from nothing more that waits; an update that runs comes to its end."""
        waiting, self._queue[:] = self._queue[:], []
        for work in waiting:
            work.release()
        self._bound.goes(len(waiting))

    def take(self, policy: Policy) -> None:
        """Act with ``policy`` from now on."""
        self.policy = self.actor.policy = policy

    async def _learn_all(self) -> None:
        """What waits; and where that is over and ``filling`` allows it, what was learned from before."""
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
        except Exception as error:  # those who wait for the learner must learn of it, whatever it is
            self.error = error

    async def in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run ``work`` in the learner's thread, after what is there already."""
        return await asyncio.get_running_loop().run_in_executor(self._shared.executor, work, *arguments)

    def _learn(self, work: Work, progress: float) -> _Outcome:
        """One update, in the thread."""
        begin, laps = time.perf_counter(), self.laps
        laps.begin()
        try:
            # While agents act beside the update they act with weights that are little behind; taking turns, with none.
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
        """Let the next forward pass use ``policy``. May be called from any thread."""
        self.actor.policy = policy
        if self.shown is not None:
            self.shown(policy)

    def _batch(self, minibatches: int, statistics: Mapping[str, float] | None) -> None:
        """Minibatches are learned from (in the thread, or told by its process); None: that begins."""
        if statistics is None:
            self._shared.callbacks.soon("on_batch_begin", BatchInfo(self._progress.name, minibatches))
        else:
            self._shared.callbacks.soon("on_batch_end", BatchInfo(self._progress.name, minibatches, statistics))

    def _take_over(self, outcome: _Outcome) -> None:
        callbacks, progress, error = self._shared.callbacks, self._progress, outcome.error
        self._bound.took(outcome.seconds)
        if outcome.policy.version >= self.policy.version:  # of several at a time the last may be heard first
            self.take(outcome.policy)
        progress.took(outcome.seconds, outcome.statistics if error is None else None)
        self._skipped_in_a_row = 0 if error is None else self._skipped_in_a_row + 1
        self.skipped += error is not None
        if error is not None:  # the weights are those from before it; given up where it goes on
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
