"""AsyncTrainer: learns one behavior from the experience that actors push, as fast as the bounds allow.

Actors push into a bounded channel; an actor that finds it full waits. The trainer takes pushes in the order of arrival
and learns from them: with as many gradient steps as ``samples_per_update`` allows, or rollout by rollout, so that the
side that is ahead waits (:mod:`.pace`). In lock step, :class:`.Rounds` decides what is learned from and when. The
update is the same as everywhere (:class:`~tau_trainer.training.learning.learner.Learner`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from tau_trainer.memory import NO_TRANSITIONS, Work, gathered
from tau_trainer.models import Policy
from tau_trainer.remote.process import Publisher
from tau_trainer.settings import AsyncTrainerSettings
from tau_trainer.training.actors.pace import Pace, Push, ReplayPace, RolloutPace
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.learning.loop import UpdateLoop


class Manager(Protocol):
    """Runs evaluations for trainers and checks whether actors have finished."""

    async def request_evaluation(self, learner: Learner, opts: int) -> None:
        """Have the learner's current policy evaluated, after its first ``opts`` gradient steps."""

    def wake(self) -> None:
        """Learning has ended: check whether waiting actors have finished."""


class AsyncTrainer:
    """Learns one behavior. Belongs to the event loop.

    Attributes:
        learner: the learner that makes the updates; it counts samples and opts.
        weights: place from which actors read the newest weights.
        pace: decides how many gradient steps to take for which samples.
        recorded: its figures.
    """

    def __init__(self, loop: UpdateLoop, settings: AsyncTrainerSettings, weights: Publisher, manager: Manager) -> None:
        """The learner must have its weights already.

        Args:
            loop: makes the updates of a learner, which has its counters already if a run is resumed.
            settings: ``async_trainer``.
            weights: place to publish the newest weights.
            manager: runs what is due after updates.
        """
        self.learner = learner = loop.learner
        self._loop = loop
        self.weights = weights
        self.pace: Pace = (RolloutPace if learner.algorithm.rollout_size else ReplayPace)(learner, settings)
        self.recorded = learner.progress.gather()
        self._settings = settings
        self._manager = manager
        self._learned = learner.progress.opts, learner.progress.update_seconds
        self._queue: deque[Push] = deque()
        self._moved, self._room = asyncio.Event(), asyncio.Event()
        self._open = False
        self.publish()
        self._task = None if self._in_rounds else asyncio.create_task(self._run())

    @property
    def _in_rounds(self) -> bool:
        return self._settings.mode == "lock_step"

    # -- called by the actors' ends

    async def put(self, push: Push) -> None:
        """Take a push in as soon as there is room for it. Then it is acknowledged and no longer lost.

        The push that completes a rollout is acknowledged after the update from that rollout. During an update, a push
        is acknowledged when the learner's age bound lets agents act, so that they act with new weights. Raises the
        error that ended learning.
        """
        rollouts = self.pace.rollouts
        if rollouts:
            self._take(push)
        while self.pace.full(self._queue, push.actor) and not self._open:
            self._room.clear()
            await self._room.wait()
        if self.learner.error is not None:
            raise self.learner.error
        if not rollouts:
            self._take(push)
        elif (bound := self._loop.bound).reached:
            await bound.wait(lambda: self._open or self.learner.error is not None)

    def _take(self, push: Push) -> None:
        self._queue.append(push)
        self.current(push.actor, int(push.versions.max()))

    def count(self, decisions: int) -> None:
        """Count decisions of actors."""
        self.learner.count(decisions)
        if self.learner.done:
            self._manager.wake()

    def current(self, actor: int, version: int) -> None:
        """Report that an actor holds nothing made with weights older than ``version``."""
        self.pace.current(actor, version)
        self._moved.set()

    def begins(self, actor: int) -> None:
        """Report that an actor plays with the newest weights from now on."""
        self.pace.acting[actor] = self.learner.progress.opts
        self._moved.set()

    def leaves(self, actor: int) -> None:
        """Report that an actor has stopped playing, so that nothing waits for it."""
        self.pace.acting.pop(actor, None)
        self._moved.set()

    def open(self) -> None:
        """Stop holding actors back: the run is ending, and the next pushes are the last."""
        self._open = True
        self.wake()

    def drop(self) -> None:
        """Accept pushes but stop learning."""
        self.pace.done = True
        self.open()

    def wake(self) -> None:
        """Check again whether waiting can end."""
        self._moved.set()
        self._room.set()

    async def finish(self) -> None:
        """Learn from the pushes in the channel, and end.

        If learning failed, the error is in the learner's ``error``.
        """
        self.pace.ending = True
        self.open()
        if self._task is not None:
            await self._task
        else:
            self._end()

    @property
    def done(self) -> bool:
        """Whether it has taken all its gradient steps."""
        return self.pace.done

    @property
    def over(self) -> bool:
        """Whether it has reached all its decisions or all its gradient steps."""
        return self.done or self.learner.done

    @property
    def left(self) -> int:
        """Number of decisions that it still needs."""
        return 0 if self.over else self.learner.progress.max_steps - self.learner.progress.decisions

    # -- learning

    async def take_in(self, push: Push, *, anew: bool) -> None:
        """In lock step: learn from a push, or from the rollout that it completes, with every step that is then allowed.

        The flag: whether the environments of all actors restarted since the previous push. Raises the error that ended
        learning.
        """
        self._queue.extend([push] if push.samples else [])
        if pushes := self.pace.together(self._queue):
            await self._learn(self._work(pushes, self.pace.steps(push.samples), anew=anew), pushes)
        while steps := self.pace.steps(0):
            await self._learn(self._work((), steps), ())

    async def _run(self) -> None:
        tasks = set[asyncio.Task[None]]()
        try:
            while True:
                self._moved.clear()
                pushes = self.pace.following(self._queue, hold=not self._open)
                steps = self.pace.steps(sum(push.samples for push in pushes), self._queue)
                if pushes or steps:
                    tasks.add(asyncio.create_task(self._learn(self._work(pushes, steps), pushes)))
                    while len(tasks) >= self._loop.bound.abreast:
                        await _one_of(tasks)
                elif self.pace.ending:  # the remaining pushes cannot complete a rollout
                    break
                else:
                    await self._moved.wait()
            while tasks:
                await _one_of(tasks)
        except Exception as error:  # actors that push must get every error
            self.learner.error = self.learner.error or error
        finally:
            self._end()
            self.open()
            self._manager.wake()

    def _end(self) -> None:
        self.learner.flush()
        self.publish()

    def _work(self, pushes: Sequence[Push], steps: int, *, anew: bool = False) -> Work:
        """The work of the next update."""
        for push in pushes:
            self.recorded.took_in(push.samples, push.receiving_seconds, self.pace.lags(push))
            self.pace.take_in(push.samples)
        if self.pace.rollouts:
            by_actor = sorted(pushes, key=lambda push: push.actor)  # stable: each actor's pushes stay in order
            work = Work(gathered([push.work for push in by_actor]))
            self._take_out(pushes)  # the next may come in
            return work
        if pushes:
            return replace(pushes[0].work, gradient_steps=steps, anew=anew)
        return Work(NO_TRANSITIONS, gradient_steps=steps)

    async def _learn(self, work: Work, pushes: Sequence[Push]) -> None:
        progress = self.learner.progress
        # Actors get the policies in the middle of an update from a rollout, but not in lock step.
        await self._loop.update(work, self._write if self.pace.rollouts and not self._in_rounds else None)
        self._take_out(pushes)
        # Count from the previous update's end: others may have ended while this one ran.
        (before, seconds), self._learned = self._learned, (progress.opts, progress.update_seconds)
        self.recorded.learned(progress.opts - before, progress.update_seconds - seconds)
        self.weights.tell(progress.opts)
        await self._after(before, progress.opts)

    def _take_out(self, pushes: Sequence[Push]) -> None:
        for push in pushes:
            if push in self._queue:
                self._queue.remove(push)
        self._room.set()

    async def _after(self, before: int, opts: int) -> None:
        """Do what is due after the first ``opts`` gradient steps."""
        settings = self._settings

        def due(interval: int) -> bool:
            return interval > 0 and opts // interval > before // interval

        if (self.pace.rollouts or due(settings.sync_interval)) and not self._in_rounds:
            self.publish()
        if due(settings.eval_interval):
            await self._manager.request_evaluation(self.learner, opts)
        if not self.done and settings.max_opts is not None and opts >= settings.max_opts:
            self.drop()
            self._manager.wake()

    def publish(self) -> None:
        """Publish the newest weights for actors."""
        self._write(self.learner.policy)

    def _write(self, policy: Policy) -> None:
        """Publish a policy. The learner's thread may call this during an update."""
        self.pace.published(policy.version)
        self.weights.write(policy.weights, policy.version, self.learner.progress.opts)


async def _one_of(tasks: set[asyncio.Task[None]]) -> None:
    """Wait until one task has ended, and remove it. Raises the task's error."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    tasks -= done
    for task in done:
        task.result()
