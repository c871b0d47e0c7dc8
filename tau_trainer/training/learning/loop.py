"""The loop of a learner whose agents act in an event loop: from experience to newer weights that act.

1. Pairs play and fill the memory (:mod:`tau_trainer.training.pairs.pair`); their decisions are counted, and a summary
   is written where one is due. After every step, each of them calls :meth:`UpdateLoop.hand_over`. If the algorithm
   finds enough experience, the work of one update joins the queue.
2. The pair waits there for as long as its agents would act too far ahead of learning (:mod:`.age_bound`).
3. As long as work waits, one update follows another (:meth:`.Learner.learn`). In the learner's thread, the algorithm
   learns, publishes weights in between, and the policy is validated. If there is time until the next work, gradient
   steps fill it (:mod:`.budget`).
4. After each update: agents act with the new weights, the update is counted and reported (:meth:`.Learner.report`), and
   the watcher may write a checkpoint. The next update starts after that.

Work that others collect (actors, a population) enters at step 3, with :meth:`UpdateLoop.update`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Executor
from typing import Any, Protocol

from tau_trainer.algorithms import Counters, Publish
from tau_trainer.memory import Work
from tau_trainer.metrics import keys
from tau_trainer.settings import OffPolicyHyperparameters
from tau_trainer.specs import Aggregation
from tau_trainer.training.learning.age_bound import AgeBound
from tau_trainer.training.learning.budget import Filling
from tau_trainer.training.learning.handles import LocalLearner
from tau_trainer.training.learning.learner import Learner


class Watcher(Protocol):
    """Watches learners: for example, to restore and to save them."""

    def appears(self, learner: Learner) -> None:
        """Called with every new learner before it is used; may restore it from a checkpoint."""

    async def updated(self, name: str) -> None:
        """Called with a learner's name after each of its updates; its next update starts once this returns."""


class UpdateLoop:
    """Takes the experience of one behavior and has it learned from, one update after another.

    All methods belong to the event loop.

    Attributes:
        learner: learns.
        bound: how far agents may act ahead.
        filling: gradient steps that fill the time of the game; None: only the steps that the algorithm finds due.
    """

    def __init__(
        self, learner: Learner, executor: Executor, max_policy_age: int = 1, watcher: Watcher | None = None
    ) -> None:
        """The learner must have its counters already.

        Args:
            learner: learns.
            executor: its threads.
            max_policy_age: number of updates whose work may wait while agents still act; 0: learning and collection
                take turns.
            watcher: saves it; None: it is not saved.
        """
        self.learner = learner
        self.bound = AgeBound(max_policy_age, on_policy=learner.algorithm.on_policy, abreast=learner.handle.abreast)
        hyper = learner.settings.hyperparameters
        self.filling: Filling | None = None
        if isinstance(hyper, OffPolicyHyperparameters):
            learner.progress.replays = True
            if hyper.auto and not self.unfilled:
                self.filling = Filling(learner, hyper)
        self._executor, self._watcher = executor, watcher
        self._queue: list[Work] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._saving = asyncio.Lock()
        self._drains = 0

    @property
    def unfilled(self) -> str:
        """The reason why gradient steps cannot fill spare time here, as the end of a sentence; empty: they can."""
        if self.bound.most == 0:
            return "learning and acting take turns"
        holds = isinstance(self.learner.handle, LocalLearner) and self.learner.algorithm.holds_lock
        return "learning in a thread (collection.learner) would hold up acting" if holds else ""

    async def hand_over(self) -> None:
        """Hand over experience that is enough for an update; wait as long as agents would act too far ahead.

        Every pair calls this after it has recorded a step and before its environment gets the next answer. Once
        learning has failed for good, it raises the error: NonFiniteError after several updates that met NaN,
        LearnerError, or a defect.
        """
        learner = self.learner
        if not learner.done:
            idle = self.filling is not None and not self._under_way and self.filling.spent
            updates = learner.policy.version + self.bound.outstanding
            work = learner.algorithm.ready(Counters(learner.progress.decisions, updates, idle=idle))
            if work is not None:
                self._enqueue(work)
        if self.bound.outstanding and self.bound.reached:
            held = await self.bound.wait(lambda: learner.error is not None)
            if held is not None:
                learner.progress.hub.add(learner.name, keys.HELD_SECONDS, held, Aggregation.SUM)
        if learner.error is not None:
            raise learner.error

    def _enqueue(self, work: Work) -> None:
        self.bound.comes()
        if self.filling is not None:
            self.filling.comes()
        self._queue.append(work)
        if len(self._under_way) < self.learner.handle.abreast:
            self._begin(self._run())

    async def _run(self) -> None:
        """Update from the work that waits; then, as long as ``filling`` allows it, from earlier experience."""
        learner = self.learner
        while True:
            while self._queue:
                work = self._queue.pop(0)
                await self._turn(work if self.filling is None else self.filling.taken_in(work))
            resting = self._drains or learner.skipped_in_a_row or learner.error is not None
            spare = None if resting or self.filling is None else self.filling.between()
            if spare is None:
                return
            await self._turn(spare, spare=True)

    async def update(self, work: Work, publish: Publish | None = None) -> None:
        """One update from ``work`` of any collector, in parallel with running ones. Raises as :meth:`hand_over`.

        ``publish``: called in the learner's thread with policies in the middle of the update; None: the learner's
        ``actor`` acts with them.
        """
        self.bound.comes()
        await self._begin(self._turn(work, publish))
        if self.learner.error is not None:
            raise self.learner.error

    async def _turn(self, work: Work, publish: Publish | None = None, *, spare: bool = False) -> None:
        """One update and all that follows from it; ``spare``: it fills spare time, so no agents wait for it."""
        learner, thread = self.learner, asyncio.get_running_loop()
        try:
            learner.begin()
            # If agents act during the update, their weights are only a little behind; if they take turns, none are
            # published.
            publish = (publish or learner.publish) if self.bound.most else None
            outcome = await thread.run_in_executor(self._executor, learner.learn, work, learner.progress.share, publish)
            self.bound.took(outcome.seconds)
            learner.report(outcome)
            if self.filling is not None and outcome.error is None:
                self.filling.took(work, outcome.seconds)
            async with self._saving:
                if self._watcher is not None:
                    await self._watcher.updated(learner.name)
        except Exception as error:  # callers that wait for the learner must get every error
            learner.error = error
        finally:
            if not spare:
                self.bound.goes(more=bool(self._queue))

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
