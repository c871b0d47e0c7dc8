"""AsyncTrainer: learns one behavior from what actors push, as fast as the bounds let it.

Actors push into a bounded channel; who finds it full waits. Here it is drained, transition by transition in the order
of arrival, and gradient steps are taken: as many as ``samples_per_update`` allows, so that whichever side is ahead
waits; in lock step :class:`~tau_trainer.training.rounds.Rounds` says instead when what is learned from. The update is
the algorithm's own, the same as everywhere (:class:`~tau_trainer.training.learner.Learner`).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tau_trainer.memory import NO_TRANSITIONS, Work
from tau_trainer.metrics import MetricsHub, keys
from tau_trainer.models import Policy
from tau_trainer.remote.process import Publisher
from tau_trainer.settings import AsyncTrainerSettings, OffPolicyHyperparameters
from tau_trainer.specs import Aggregation
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


@dataclass(slots=True)
class Lag:
    """Opts by which the weights that acted were behind, over transitions."""

    count: int = 0
    total: float = 0.0
    most: int = 0

    @property
    def mean(self) -> float:
        """0 before the first."""
        return self.total / self.count if self.count else 0.0


@dataclass(slots=True)
class _Cost:
    """What was spent since the last record."""

    opts: int = 0
    opt_seconds: float = 0.0
    samples: int = 0
    sample_seconds: float = 0.0


@dataclass(slots=True)
class _Means:
    """Statistics of updates, weighted by their gradient steps."""

    sums: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)

    def add(self, stats: Mapping[str, float]) -> None:
        """Take in those of one update."""
        weight = max(stats.get(keys.MINIBATCHES, 0.0), 1.0)
        for key, value in stats.items():
            self.sums[key] = self.sums.get(key, 0.0) + value * weight
            self.weights[key] = self.weights.get(key, 0.0) + weight

    def take(self) -> dict[str, float]:
        """The means so far, which begin anew."""
        means = {key: value / self.weights[key] for key, value in self.sums.items()}
        self.sums, self.weights = {}, {}
        return means


class AsyncTrainer:
    """Learns one behavior. Belongs to the event loop.

    Attributes:
        learner: whose updates these are; it counts samples and opts.
        weights: where actors read the newest weights.
        lag: of all transitions so far.
        acting: actors that play this behavior now, each with the opts of the oldest weights that it may still push
            something of.
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
        numbers = cast("OffPolicyHyperparameters", learner.settings.hyperparameters)
        ratio = settings.samples_per_update or (numbers.steps_per_update, numbers.steps_per_update)
        warmup = settings.warmup_period if settings.warmup_period is not None else numbers.buffer_init_steps
        self.learner = learner
        self.weights = weights
        self.lag = Lag()
        self.acting: dict[int, int] = {}
        self.done = settings.max_opts is not None and learner.opts >= settings.max_opts
        """Whether it has taken all its gradient steps."""
        self.ending = False
        """Set when no actor pushes any more: what is in the channel is still learned from."""
        self.save_due = False
        self._settings = settings
        self._in_rounds = settings.mode == "lock_step"
        self._hub = hub
        self._save = save
        self._evaluate = evaluate
        self._on_done = on_done
        self._least, self._most = ratio
        # Where the replay memory was not kept it has to be filled again, and what was earned before is gone with it.
        first_samples, first_opts = (0, 0) if learner.remembers else (learner.samples, learner.opts)
        self._warm_at = first_samples + min(max(warmup, numbers.batch_size), numbers.buffer_size)
        self._counted_from = self._warm_at, first_opts
        self._queue: deque[Push] = deque()
        self._moved, self._room = asyncio.Event(), asyncio.Event()
        self._open = False
        self._opts_of = {learner.policy.version: learner.opts}
        self._means = _Means()
        self._cost = _Cost()
        self._began, self._first = time.monotonic(), (learner.samples, learner.opts)
        self._rate_at = (self._began, *self._first)
        learner.record = self._means.add
        self.publish()
        self._task = None if self._in_rounds else asyncio.create_task(self._run())

    # -- what actors' ends call

    async def put(self, push: Push) -> None:
        """Take a push in, once there is room for it: after that it is acknowledged, and nothing takes it away.

        Raises what learning has failed by.
        """
        while len(self._queue) >= self._settings.channel_capacity and not (self._open or self._holds(push.actor)):
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

    def _holds(self, actor: int) -> bool:
        """Whether learning waits for what this actor has."""
        return self.acting.get(actor, self.learner.opts) + self._settings.max_policy_lag <= self.learner.opts

    def current(self, actor: int, version: int) -> None:
        """An actor holds nothing any more that is older than ``version`` of the weights."""
        if actor in self.acting:
            self.acting[actor] = max(self.acting[actor], self._opts_behind(version))
        self._moved.set()

    def begins(self, actor: int) -> None:
        """An actor plays with the newest weights from now on."""
        self.acting[actor] = self.learner.opts
        self._moved.set()

    def leaves(self, actor: int) -> None:
        """An actor plays no more: nobody waits for it."""
        self.acting.pop(actor, None)
        self._moved.set()

    def open(self) -> None:
        """Hold nobody any more: the end is near, and what comes now is the last."""
        self._open = True
        self.wake()

    def drop(self) -> None:
        """Take what comes in, and learn no more."""
        self.done = True
        self.open()

    def wake(self) -> None:
        """Something that is waited for may have changed."""
        self._moved.set()
        self._room.set()

    async def finish(self) -> None:
        """Learn from what is in the channel, and end. What ended learning is the learner's ``error``."""
        self.ending = True
        self.open()
        if self._task is not None:
            await self._task
        else:
            self._end()

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
            await self._update(push, self._steps(push.samples), anew=anew)
        while steps := self._steps(0):
            await self._update(None, steps)

    async def _run(self) -> None:
        try:
            while True:
                self._moved.clear()
                push = self._next()
                steps = self._steps(0 if push is None else push.samples)
                if push is not None or steps:
                    await self._update(push, steps)
                    if push is not None:
                        self._queue.remove(push)
                        self._room.set()
                elif self.ending and not self._queue:
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

    def _next(self) -> Push | None:
        """What is taken in next; None: nothing, or what came before has earned gradient steps first."""
        if not self._queue:
            return None
        if self._owed() <= 0:
            return self._queue[0]
        if self._steps(0) > 0:
            return None
        # Held by its lag: only what is old enough to hold it goes on.
        oldest = min(self._queue, key=self._age_of)
        held_by_actor = self._age_of(oldest) > min(self.acting.values(), default=self.learner.opts)
        return None if held_by_actor and not self._open else oldest

    def _allowed(self, ratio: float, samples: int) -> float:
        """Opts in all that so many samples more would have earned, at ``ratio`` samples each."""
        first_samples, first_opts = self._counted_from
        return first_opts + (self.learner.samples + samples - first_samples) / ratio

    def _owed(self) -> int:
        """Opts that have to be taken before more samples."""
        if self.done or self.learner.samples < self._warm_at:
            return 0
        return math.floor(self._allowed(self._most, 0)) - self.learner.opts

    def _steps(self, samples: int) -> int:
        """Gradient steps to take now, with ``samples`` more."""
        opts, own = self.learner.opts, self._settings
        if self.done or self.learner.samples + samples < self._warm_at:
            return 0
        # Where nobody collects any more, what is owed is all that is left to do.
        ratio = self._most if self.ending else self._least
        limits = [_MOST_STEPS, math.floor(self._allowed(ratio, samples)) - opts]
        limits.append((opts // own.sync_interval + 1) * own.sync_interval - opts)
        if own.max_opts is not None:
            limits.append(own.max_opts - opts)
        if not (self._in_rounds or self.ending):
            oldest = min((*self.acting.values(), *map(self._age_of, self._queue)), default=opts)
            limits.append(oldest + own.max_policy_lag - opts)
        return max(0, min(limits))

    def _age_of(self, push: Push) -> int:
        """Opts behind the oldest weights that it was made with."""
        return self._opts_behind(push.versions.min())

    def _opts_behind(self, version: int) -> int:
        """Opts behind a version of the weights that actors got."""
        return self._opts_of.get(int(version), 0)

    async def _update(self, push: Push | None, steps: int, *, anew: bool = False) -> None:
        learner, before = self.learner, self.learner.opts
        if push is None:
            work = Work(NO_TRANSITIONS, gradient_steps=steps)
        else:
            self._measure(push)
            work = replace(push.work, gradient_steps=steps, anew=anew)
            learner.samples += push.samples
        seconds = learner.update_seconds
        await learner.learn(work)
        self._cost.opts += learner.opts - before
        self._cost.opt_seconds += learner.update_seconds - seconds
        self.weights.tell(learner.opts)
        await self._after(before, learner.opts)

    def _measure(self, push: Push) -> None:
        versions, counts = np.unique(push.versions, return_counts=True)
        lags = np.array([self.learner.opts - self._opts_behind(version) for version in versions])
        self.lag.count += int(counts.sum())
        self.lag.total += float((lags * counts).sum())
        self.lag.most = max(self.lag.most, int(lags.max(initial=0)))
        self._hub.add(self.learner.name, keys.POLICY_LAG, np.repeat(lags, counts), Aggregation.HISTOGRAM)
        self._cost.samples += push.samples
        self._cost.sample_seconds += push.receiving_seconds

    async def _after(self, before: int, opts: int) -> None:
        """Whatever is due once so many opts are behind us."""
        own = self._settings

        def due(interval: int) -> bool:
            return interval > 0 and opts // interval > before // interval

        if due(own.sync_interval) and not self._in_rounds:
            self.publish()
        if due(own.record_agent_info_interval):
            self._hub.add_all(self.learner.name, self._means.take())
        if due(own.record_compute_cost_interval):
            self._record_cost()
        if due(own.eval_interval):
            await self._evaluate(self.learner, self.learner.policy, opts)
        if due(own.flush_record_interval):
            self._record()
        if due(own.save_interval):
            if self._in_rounds:
                self.save_due = True
            else:
                await self._save(self.learner)
        if not self.done and own.max_opts is not None and opts >= own.max_opts:
            self.drop()
            self._on_done()

    def publish(self) -> None:
        """Let actors have the newest weights."""
        policy = self.learner.policy
        self._opts_of[policy.version] = self.learner.opts
        self.weights.write(policy.weights, policy.version, self.learner.opts)

    # -- figures

    def _record_cost(self) -> None:
        """Milliseconds for each opt and sample since the last record; -1: there was none."""
        cost, self._cost = self._cost, _Cost()
        opt = 1000.0 * cost.opt_seconds / cost.opts if cost.opts else -1.0
        sample = 1000.0 * cost.sample_seconds / cost.samples if cost.samples else -1.0
        self._hub.add(self.learner.name, keys.AVERAGE_OPT_TIME, opt)
        self._hub.add(self.learner.name, keys.AVERAGE_SAMPLE_TIME, sample)

    def _record(self) -> None:
        """A point of every curve; nothing is lost between two."""
        now, (since, samples, opts) = time.monotonic(), self._rate_at
        seconds = now - since
        self._rate_at = now, self.learner.samples, self.learner.opts
        name, samples, opts = self.learner.name, self.learner.samples - samples, self.learner.opts - opts
        if self._cost.opts or self._cost.samples:
            self._record_cost()
        self._hub.add_all(name, self._means.take())
        if seconds > 0:
            self._hub.add(name, keys.SAMPLES_PER_SECOND, samples / seconds)
            self._hub.add(name, keys.OPTS_PER_SECOND, opts / seconds)
        if opts:
            self._hub.add(name, keys.SAMPLES_PER_OPT, samples / opts)
        self.learner.flush()

    @property
    def figures(self) -> tuple[str, ...]:
        """What border's trainer prints, and the lag, since this process began."""
        seconds = max(time.monotonic() - self._began, 1e-9)
        samples, opts = self.learner.samples - self._first[0], self.learner.opts - self._first[1]
        per_opt = f"{samples / opts:.2f}" if opts else "-"
        return (
            f"{samples / seconds:,.0f} samples/s",
            f"{opts / seconds:,.0f} opts/s",
            f"{self.learner.opts:,} opts, {per_opt} samples each",
            f"policy lag {self.lag.mean:,.0f} opts, at most {self.lag.most:,}",
        )
