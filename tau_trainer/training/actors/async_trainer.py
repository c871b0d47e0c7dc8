"""AsyncTrainer: learns one behavior from what actors push, as fast as the bounds let it.

Actors push into a bounded channel; who finds it full waits. Here it is drained in the order of arrival, and learned
from: by as many gradient steps as ``samples_per_update`` allows, or rollout by rollout, so that whichever side is ahead
waits (:mod:`.pace`); in lock step :class:`.Rounds` says instead when what is learned from.
The update is the algorithm's own, the same as everywhere (:class:`~tau_trainer.training.learning.learner.Learner`).
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
from tau_trainer.training.actors.figures import Figures
from tau_trainer.training.actors.pace import Pace, Push, ReplayPace, RolloutPace
from tau_trainer.training.learning.learner import Learner


class Steward(Protocol):
    """Whom trainers ask for what is due."""

    async def have_played(self, learner: Learner, opts: int) -> None:
        """Have the policy of now evaluated, with so many opts behind it."""

    def wake(self) -> None:
        """Learning has ended: who waits may have finished."""


class AsyncTrainer:
    """Learns one behavior. Belongs to the event loop.

    Attributes:
        learner: whose updates these are; it counts samples and opts.
        weights: where actors read the newest weights.
        pace: how many gradient steps for which samples.
        recorded: its figures.
    """

    def __init__(self, learner: Learner, settings: AsyncTrainerSettings, weights: Publisher, steward: Steward) -> None:
        """Made with the learner's weights known.

        Args:
            learner: has its counters already, where a run is resumed.
            settings: ``async_trainer``.
            weights: where the newest become known.
            steward: does what is due.
        """
        self.learner = learner
        self.weights = weights
        self.pace: Pace = (RolloutPace if learner.algorithm.rollout_size else ReplayPace)(learner, settings)
        self.recorded = Figures(learner.progress)
        learner.progress.record, learner.progress.before_summary = self.recorded.means.add, self.recorded.record
        self._settings = settings
        self._steward = steward
        self._learned = learner.progress.opts, learner.progress.update_seconds
        self._queue: deque[Push] = deque()
        self._moved, self._room = asyncio.Event(), asyncio.Event()
        self._open = False
        self.publish()
        self._task = None if self._in_rounds else asyncio.create_task(self._run())
        if self.pace.rollouts and not self._in_rounds:
            learner.updates.shown = self._write

    @property
    def _in_rounds(self) -> bool:
        return self._settings.mode == "lock_step"

    # -- what actors' ends call

    async def put(self, push: Push) -> None:
        """Take a push in, once there is room for it: after that it is acknowledged, and nothing takes it away.

        What makes a rollout whole is acknowledged once that is learned from, and all while its update runs as late as
        pairs act on beside one: so the weights that act are new. Raises what learning has failed by.
        """
        rollouts = self.pace.rollouts
        if rollouts:
            self._take(push)
        while self.pace.full(self._queue, push.actor) and not self._open:
            self._room.clear()
            await self._room.wait()
        self._raise()
        if not rollouts:
            self._take(push)
        elif (bound := self.learner.bound).reached:
            await bound.wait(lambda: self._open or self.learner.updates.error is not None)

    def _take(self, push: Push) -> None:
        self._queue.append(push)
        self.current(push.actor, int(push.versions.max()))

    def count(self, decisions: int) -> None:
        """Count decisions of actors."""
        self.learner.count(decisions)
        if self.learner.done:
            self._steward.wake()

    def current(self, actor: int, version: int) -> None:
        """An actor holds nothing any more that is older than ``version`` of the weights."""
        self.pace.current(actor, version)
        self._moved.set()

    def begins(self, actor: int) -> None:
        """An actor plays with the newest weights from now on."""
        self.pace.acting[actor] = self.learner.progress.opts
        self._moved.set()

    def leaves(self, actor: int) -> None:
        """An actor plays no more: nobody waits for it."""
        self.pace.acting.pop(actor, None)
        self._moved.set()

    def open(self) -> None:
        """Hold nobody any more: the end is near, and what comes now is the last."""
        self._open = True
        self.wake()

    def drop(self) -> None:
        """Take what comes in, and learn no more."""
        self.pace.done = True
        self.open()

    def wake(self) -> None:
        """Something that is waited for may have changed."""
        self._moved.set()
        self._room.set()

    async def finish(self) -> None:
        """Learn from what is in the channel, and end. What ended learning is the learner's ``error``."""
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
        """Whether it has had all its decisions, or all its gradient steps."""
        return self.done or self.learner.done

    @property
    def left(self) -> int:
        """Decisions that it has yet to get."""
        return 0 if self.over else self.learner.progress.max_steps - self.learner.progress.decisions

    def _raise(self) -> None:
        if self.learner.updates.error is not None:
            raise self.learner.updates.error

    # -- learning

    async def take_in(self, push: Push, *, anew: bool) -> None:
        """In lock step: learn from a push, or from the rollout that it makes whole, with every step allowed after it.

        ``anew``: the environments of all actors began anew since the push before. Raises what learning has failed by.
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
                    while len(tasks) >= self.learner.bound.abreast:
                        await _one_of(tasks)
                elif self.pace.ending:  # what waits now makes no rollout any more
                    break
                else:
                    await self._moved.wait()
            while tasks:
                await _one_of(tasks)
        except Exception as error:  # those who push must learn of it, whatever it is
            self.learner.updates.error = self.learner.updates.error or error
        finally:
            self._end()
            self.open()
            self._steward.wake()

    def _end(self) -> None:
        self.learner.flush()
        self.publish()

    def _work(self, pushes: Sequence[Push], steps: int, *, anew: bool = False) -> Work:
        """Of the next update."""
        for push in pushes:
            self.recorded.took_in(push.samples, push.receiving_seconds, self.pace.lags(push))
            self.pace.take_in(push.samples)
        if self.pace.rollouts:
            by_actor = sorted(pushes, key=lambda push: push.actor)  # stable: each one's in time
            work = Work(gathered([push.work for push in by_actor]))
            self._take_out(pushes)  # the next may come in
            return work
        if pushes:
            return replace(pushes[0].work, gradient_steps=steps, anew=anew)
        return Work(NO_TRANSITIONS, gradient_steps=steps)

    async def _learn(self, work: Work, pushes: Sequence[Push]) -> None:
        progress = self.learner.progress
        await self.learner.learn(work)
        self._take_out(pushes)
        # Since the update that ended before: others may have come to their ends while this one ran.
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
        """Whatever is due once so many opts are behind us."""
        settings = self._settings

        def due(interval: int) -> bool:
            return interval > 0 and opts // interval > before // interval

        if (self.pace.rollouts or due(settings.sync_interval)) and not self._in_rounds:
            self.publish()
        if due(settings.eval_interval):
            await self._steward.have_played(self.learner, opts)
        if not self.done and settings.max_opts is not None and opts >= settings.max_opts:
            self.drop()
            self._steward.wake()

    def publish(self) -> None:
        """Let actors have the newest weights."""
        self._write(self.learner.policy)

    def _write(self, policy: Policy) -> None:
        """May be called from the learner's thread, with the policy so far, while an update runs."""
        self.pace.published(policy.version)
        self.weights.write(policy.weights, policy.version, self.learner.progress.opts)

    @property
    def figures(self) -> tuple[str, ...]:
        """What border's trainer prints, and the lag, since this process began."""
        return self.recorded.lines()


async def _one_of(tasks: set[asyncio.Task[None]]) -> None:
    """Wait until one has ended, and take it out. Raises what it failed by."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    tasks -= done
    for task in done:
        task.result()
