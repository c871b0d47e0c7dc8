"""AsyncTrainer: learns one behavior from what actors push, as fast as the bounds let it.

Actors push into a bounded channel; who finds it full waits. Here it is drained, transition by transition in the order
of arrival, and gradient steps are taken: as many as ``samples_per_update`` allows, so that whichever side is ahead
waits (:class:`Pace`); in lock step :class:`~tau_trainer.training.rounds.Rounds` says instead when what is learned from.
The update is the algorithm's own, the same as everywhere (:class:`~tau_trainer.training.learner.Learner`).
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tau_trainer.memory import NO_TRANSITIONS, Work
from tau_trainer.metrics import MetricsHub
from tau_trainer.models import Policy
from tau_trainer.remote.process import Publisher
from tau_trainer.settings import AsyncTrainerSettings, OffPolicyHyperparameters
from tau_trainer.specs import IntArray
from tau_trainer.training.figures import Figures
from tau_trainer.training.learner import Learner

_MOST_STEPS = 64
"""Gradient steps in one update: large enough for full speed, and new transitions are soon taken in."""


@dataclass(frozen=True, slots=True, eq=False)
class Push:
    """Transitions of one actor, on their way."""

    work: Work
    """What :meth:`Algorithm.ready` gave there; its source is the actor."""
    samples: int
    receiving_seconds: float = 0.0
    """What it took to get them here."""

    @property
    def versions(self) -> NDArray[np.integer[Any]]:
        """Of the policies that acted, record by record."""
        versions: NDArray[np.integer[Any]] = self.work["version"][1:]
        return versions

    @property
    def actor(self) -> int:
        """Who pushed it."""
        return self.work.source


class Pace:
    """How many gradient steps for which samples, and who is waited for.

    Attributes:
        acting: actors that play this behavior now, each with the opts of the oldest weights that it may still push
            something of.
        done: whether all gradient steps are taken.
        ending: whether no actor pushes any more: what was pushed is still learned from.
    """

    def __init__(self, learner: Learner, settings: AsyncTrainerSettings) -> None:
        """``learner`` has its counters already, where a run is resumed."""
        numbers = cast("OffPolicyHyperparameters", learner.settings.hyperparameters)
        warmup = settings.warmup_period if settings.warmup_period is not None else numbers.buffer_init_steps
        self.acting: dict[int, int] = {}
        self.done = settings.max_opts is not None and learner.opts >= settings.max_opts
        self.ending = False
        self._learner, self._settings = learner, settings
        self._ratio = settings.samples_per_update or (numbers.steps_per_update, numbers.steps_per_update)
        """Samples for each opt, at least and at most."""
        # Where the replay memory was not kept it has to be filled again, and what was earned before is gone with it.
        first_samples, first_opts = (0, 0) if learner.remembers else (learner.samples, learner.opts)
        self._warm_at = first_samples + min(max(warmup, numbers.batch_size), numbers.buffer_size)
        self._counted_from = self._warm_at, first_opts
        self._opts_of = {learner.policy.version: learner.opts}

    def published(self) -> None:
        """Actors get the learner's weights of now."""
        self._opts_of[self._learner.policy.version] = self._learner.opts

    def opts_behind(self, version: int) -> int:
        """Opts behind a version of the weights that actors got."""
        return self._opts_of.get(int(version), 0)

    def age_of(self, push: Push) -> int:
        """Opts behind the oldest weights that it was made with."""
        return self.opts_behind(push.versions.min())

    def lags(self, push: Push) -> IntArray:
        """Opts [n] taken since the weights that acted, record by record."""
        versions, places = np.unique(push.versions, return_inverse=True)
        return np.array([self._learner.opts - self.opts_behind(version) for version in versions], np.int32)[places]

    def current(self, actor: int, version: int) -> None:
        """An actor holds nothing any more that is older than ``version`` of the weights."""
        if actor in self.acting:
            self.acting[actor] = max(self.acting[actor], self.opts_behind(version))

    def holds(self, actor: int) -> bool:
        """Whether learning waits for what this actor has."""
        opts = self._learner.opts
        return self.acting.get(actor, opts) + self._settings.max_policy_lag <= opts

    def following(self, queue: Sequence[Push], *, hold: bool) -> Push | None:
        """What is taken in next; None: nothing, or what came before has earned gradient steps first.

        ``hold``: whether what is too new waits for an actor whose weights are at the bound of the lag.
        """
        if not queue:
            return None
        if self._owed() <= 0:
            return queue[0]
        if self.steps(0, queue) > 0:
            return None
        # Held by its lag: only what is old enough to hold it goes on.
        oldest = min(queue, key=self.age_of)
        held_by_actor = self.age_of(oldest) > min(self.acting.values(), default=self._learner.opts)
        return None if held_by_actor and hold else oldest

    def _allowed(self, ratio: float, samples: int) -> float:
        """Opts in all that so many samples more would have earned, at ``ratio`` samples each."""
        first_samples, first_opts = self._counted_from
        return first_opts + (self._learner.samples + samples - first_samples) / ratio

    def _owed(self) -> int:
        """Opts that have to be taken before more samples."""
        if self.done or self._learner.samples < self._warm_at:
            return 0
        return math.floor(self._allowed(self._ratio[1], 0)) - self._learner.opts

    def steps(self, samples: int, queue: Iterable[Push] = ()) -> int:
        """Gradient steps to take now, with ``samples`` more, while ``queue`` waits."""
        opts, settings = self._learner.opts, self._settings
        if self.done or self._learner.samples + samples < self._warm_at:
            return 0
        # Where nobody collects any more, what is owed is all that is left to do.
        least, most = self._ratio
        limits = [_MOST_STEPS, math.floor(self._allowed(most if self.ending else least, samples)) - opts]
        limits.append((opts // settings.sync_interval + 1) * settings.sync_interval - opts)
        if settings.max_opts is not None:
            limits.append(settings.max_opts - opts)
        if not (settings.mode == "lock_step" or self.ending):
            oldest = min((*self.acting.values(), *map(self.age_of, queue)), default=opts)
            limits.append(oldest + settings.max_policy_lag - opts)
        return max(0, min(limits))


class AsyncTrainer:
    """Learns one behavior. Belongs to the event loop.

    Attributes:
        learner: whose updates these are; it counts samples and opts.
        weights: where actors read the newest weights.
        pace: how many gradient steps for which samples.
        recorded: its figures.
        save_due: whether ``save_interval`` opts are behind it since a checkpoint, in lock step.
    """

    def __init__(
        self,
        learner: Learner,
        settings: AsyncTrainerSettings,
        hub: MetricsHub,
        weights: Publisher,
        *,
        save: Callable[[Learner], Awaitable[None]],
        evaluate: Callable[[Learner, Policy, int], Awaitable[None]],
        on_done: Callable[[], None],
    ) -> None:
        """Made with the learner's weights known.

        Args:
            learner: has its counters already, where a run is resumed.
            settings: ``async_trainer``.
            hub: where figures go.
            weights: where they become known.
            save: writes a checkpoint; in lock step nobody asks for one here.
            evaluate: called with the policy and the opts behind it, and awaited.
            on_done: called when learning has ended.
        """
        self.learner = learner
        self.weights = weights
        self.pace = Pace(learner, settings)
        self.recorded = Figures(learner.name, hub, learner.samples, learner.opts)
        learner.record = self.recorded.means.add
        self.save_due = False
        self._settings = settings
        self._save = save
        self._evaluate = evaluate
        self._on_done = on_done
        self._queue: deque[Push] = deque()
        self._moved, self._room = asyncio.Event(), asyncio.Event()
        self._open = False
        self.publish()
        self._task = None if self._in_rounds else asyncio.create_task(self._run())

    @property
    def _in_rounds(self) -> bool:
        return self._settings.mode == "lock_step"

    # -- what actors' ends call

    async def put(self, push: Push) -> None:
        """Take a push in, once there is room for it: after that it is acknowledged, and nothing takes it away.

        Raises what learning has failed by.
        """
        while len(self._queue) >= self._settings.channel_capacity and not (self._open or self.pace.holds(push.actor)):
            self._room.clear()
            await self._room.wait()
        self._raise()
        self._queue.append(push)
        self.current(push.actor, int(push.versions.max()))

    def count(self, decisions: int) -> None:
        """Count decisions of actors."""
        self.learner.count(decisions)
        if self.learner.done:
            self._on_done()

    def current(self, actor: int, version: int) -> None:
        """An actor holds nothing any more that is older than ``version`` of the weights."""
        self.pace.current(actor, version)
        self._moved.set()

    def begins(self, actor: int) -> None:
        """An actor plays with the newest weights from now on."""
        self.pace.acting[actor] = self.learner.opts
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
        return 0 if self.over else self.learner.max_steps - self.learner.decisions

    def _raise(self) -> None:
        if self.learner.error is not None:
            raise self.learner.error

    # -- learning

    async def take_in(self, push: Push, *, anew: bool) -> None:
        """In lock step: learn from a push, with every gradient step that is allowed after it.

        ``anew``: the environments of all actors began anew since the push before. Raises what learning has failed by.
        """
        if push.samples:
            await self._update(push, self.pace.steps(push.samples), anew=anew)
        while steps := self.pace.steps(0):
            await self._update(None, steps)

    async def _run(self) -> None:
        try:
            while True:
                self._moved.clear()
                push = self.pace.following(self._queue, hold=not self._open)
                steps = self.pace.steps(0 if push is None else push.samples, self._queue)
                if push is not None or steps:
                    await self._update(push, steps)
                    if push is not None:
                        self._queue.remove(push)
                        self._room.set()
                elif self.pace.ending and not self._queue:
                    break
                else:
                    await self._moved.wait()
        except Exception as error:  # those who push must learn of it, whatever it is
            self.learner.error = self.learner.error or error
        finally:
            self._end()
            self.open()
            self._on_done()

    def _end(self) -> None:
        self._record()
        self.publish()

    def _record(self) -> None:
        self.recorded.record(self.learner.samples, self.learner.opts)
        self.learner.flush()

    async def _update(self, push: Push | None, steps: int, *, anew: bool = False) -> None:
        learner, before = self.learner, self.learner.opts
        if push is None:
            work = Work(NO_TRANSITIONS, gradient_steps=steps)
        else:
            self.recorded.took_in(push.samples, push.receiving_seconds, self.pace.lags(push))
            work = replace(push.work, gradient_steps=steps, anew=anew)
            learner.samples += push.samples
        seconds = learner.update_seconds
        await learner.learn(work)
        self.recorded.learned(learner.opts - before, learner.update_seconds - seconds)
        self.weights.tell(learner.opts)
        await self._after(before, learner.opts)

    async def _after(self, before: int, opts: int) -> None:
        """Whatever is due once so many opts are behind us."""
        settings = self._settings

        def due(interval: int) -> bool:
            return interval > 0 and opts // interval > before // interval

        if due(settings.sync_interval) and not self._in_rounds:
            self.publish()
        if due(settings.record_agent_info_interval):
            self.recorded.record_means()
        if due(settings.record_compute_cost_interval):
            self.recorded.record_cost()
        if due(settings.eval_interval):
            await self._evaluate(self.learner, self.learner.policy, opts)
        if due(settings.flush_record_interval):
            self._record()
        if due(settings.save_interval):
            if self._in_rounds:
                self.save_due = True
            else:
                await self._save(self.learner)
        if not self.done and settings.max_opts is not None and opts >= settings.max_opts:
            self.drop()
            self._on_done()

    def publish(self) -> None:
        """Let actors have the newest weights."""
        policy = self.learner.policy
        self.pace.published()
        self.weights.write(policy.weights, policy.version, self.learner.opts)

    @property
    def figures(self) -> tuple[str, ...]:
        """What border's trainer prints, and the lag, since this process began."""
        return self.recorded.lines(self.learner.samples, self.learner.opts)
