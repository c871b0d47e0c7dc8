"""The learner: it queues the work of one algorithm, bounds the policy's age, and hands new policies to the actors."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.algorithms import Algorithm, Counters, Setup
from tau_trainer.collection.decisions import Actor
from tau_trainer.columns import Arrays, Rows
from tau_trainer.errors import NonFiniteError
from tau_trainer.evaluation.candidates import (
    BEST,
    UPDATES_IN_RANK,
    ScoredPolicy,
    best_to_keep,
    rank_of,
    stored_best,
    validation_after,
)
from tau_trainer.memory import Memory, Work
from tau_trainer.metrics import Laps, MetricsHub, keys
from tau_trainer.metrics.summary import Statistics
from tau_trainer.models import Policy
from tau_trainer.runs.callbacks import NOBODY, BatchInfo, Callbacks, EvaluationInfo, UpdateInfo
from tau_trainer.specs import Aggregation, FloatArray
from tau_trainer.training import behavior_json
from tau_trainer.training.learning.handles import LearnerHandle
from tau_trainer.training.learning.parameters_only import whole
from tau_trainer.training.learning.returns import EpisodeReturns
from tau_trainer.training.learning.scores import LastRewards

_MOST_SKIPPED = 3
"""Updates in a row that may fail on NaN before the run is given up."""

_MARGIN = 1.1
"""Of the time for filling a buffer: a learner that waits costs more than experience that is a little older."""
_now = time.monotonic
Validator = Callable[[Policy], Mapping[str, float]]
"""Scores a policy, by metric key; called in the learner's thread."""


@dataclass(slots=True)
class _Outcome:
    """What a turn of the learner's thread brings back to the event loop."""

    stats: Mapping[str, float]
    policy: Policy
    seconds: float
    error: NonFiniteError | None = None


class Learner:
    """Learns one behavior. All methods belong to the event loop, except what runs in the executor.

    Attributes:
        decisions: decisions made for this learner so far, earlier runs that were resumed included.
        policy: the newest whole policy.
        setup: what its algorithm was made from.
        actor: acts with the newest policy from its next forward pass on.
        laps: what its thread spends its time on.
        held_seconds: time for which observations waited because the policy's age was at its bound.
    """

    def __init__(
        self,
        name: str,
        setup: Setup,
        algorithm: Algorithm,
        handle: LearnerHandle,
        hub: MetricsHub,
        executor: Executor,
        validator: Validator | None = None,
        *,
        max_steps: int,
        max_policy_age: int = 1,
        callbacks: Callbacks = NOBODY,
    ) -> None:
        """Made with nothing learned.

        Args:
            name: its key in metrics and files.
            setup: what its algorithm was made from.
            algorithm: the instance that collects.
            handle: where it learns.
            hub: where its statistics go.
            executor: the learner's thread.
            validator: called there after updates, as :func:`.candidates.validation_after` says.
            max_steps: decisions of this learner after which it is done and its schedules are at their end.
            max_policy_age: updates' worth of work that may wait while agents still act; 0: learning and collection
                take turns.
            callbacks: told of updates, minibatches and evaluations.
        """
        self.name = name
        self.spec = setup.spec
        self.settings = setup.settings
        self.max_steps = max_steps
        self.algorithm = algorithm
        self.decisions = 0
        self.held_seconds = 0.0
        self.update_seconds = 0.0
        self.policy_age = 0.0
        self.best: ScoredPolicy | None = None
        """The policy with the best validation scores so far, in resumed runs too; None: nothing chooses. Where the best
        alone is kept and nothing validated, that of the best mean reward as checkpoints were due."""
        self.evaluation: Mapping[str, float] = {}
        """The newest policy's validation scores."""
        self.error: Exception | None = None
        """Why learning has failed for good."""
        self.updates = 0
        """Updates since this process began; the policy's version counts those of resumed runs too."""
        self.opts = 0
        """Gradient steps, earlier runs that were resumed included."""
        self.samples = 0
        """Transitions that actors pushed, of those runs too."""
        self.remembers = True
        """Whether the experience of those runs is still there."""
        self.record: Callable[[Mapping[str, float]], None] = partial(hub.add_all, name)
        """Takes the statistics of every update."""
        self.before_summary: Callable[[], None] = lambda: None
        """Tells what there is to tell with every summary."""
        self.after_update: Callable[[Learner], Awaitable[None]] | None = None
        """Awaited after every update, before the next begins (to write a checkpoint, say)."""
        self.returns = EpisodeReturns(setup.settings)
        """Of the newest episodes."""
        self.rewards = LastRewards()
        """Of its newest summary."""
        self.stopped = False
        """Whether it is done before its max_steps are over."""
        self.policy = handle.policy()
        rng = np.random.default_rng([setup.seed, 1])
        self.actor = Actor(self.policy, rng, deterministic=setup.settings.network_settings.deterministic)
        self.setup = setup
        self._handle = handle
        self._hub = hub
        self.laps = Laps(hub.timers.part("learners", parallel=True).part(name))
        self._executor = executor
        self._validator = validator
        self._max_policy_age = max_policy_age
        self._callbacks = callbacks
        if callbacks.wants("on_batch_begin") or callbacks.wants("on_batch_end"):
            handle.watch(self._batch)
        self._rows = 0
        self._skipped_in_a_row = 0
        self._outstanding = 0
        self._waiting_pairs = 0
        self._moved = asyncio.Event()
        self._collecting_since = self._held_until = 0.0
        self._filling_seconds = self._last_update_seconds = 0.0
        self._running: asyncio.Task[None] | None = None
        self._queue: list[Work] = []
        self._recent: list[Mapping[str, float]] = []
        self._newest: ScoredPolicy | None = None
        """The last that was validated."""
        self._summary_freq = self.settings.summary_every(max_steps)
        self._next_summary = self._summary_freq
        self._next_evaluation = 0

    @property
    def memory(self) -> Memory:
        """Where experience waits."""
        return self.algorithm.memory

    @property
    def done(self) -> bool:
        """Whether it has had all its decisions, or learned enough. Its policy keeps acting."""
        return self.stopped or self.decisions >= self.max_steps

    @property
    def idle(self) -> bool:
        """Whether no update runs or waits."""
        return self._outstanding == 0

    def new_rows(self, count: int) -> Rows:
        """Rows in the memory for ``count`` agents more."""
        rows = np.arange(self._rows, self._rows + count)
        self._rows += count
        return rows

    def count(self, decisions: int) -> None:
        """Count decisions; write a summary every ``summary_freq`` of them, and at least a few in every run."""
        before = self.done
        self.decisions += decisions
        if self.done and not before:
            self._rest()
        elif self.decisions >= self._next_summary:
            self.flush()
        if self.done:
            self._hub.rest(self.name)

    def _rest(self) -> None:
        # The last update still has something to say: it comes with the summary that ends the run.
        self._next_summary = self.decisions + self._summary_freq

    def ended(self, returns: FloatArray) -> None:
        """Count the returns [k] of episodes that ended, as any sink does; the criterion may be reached."""
        if not self.done and self.returns.add(returns.tolist()):
            self.stop()
            mean, trials = self.returns.mean, self.settings.trial_count
            self._hub.event(
                "criterion",
                behavior=self.name,
                step=self.decisions,
                message=f"'{self.name}' has learned enough after {self.decisions:,} decisions: the mean reward of its "
                f"newest {trials:,} episodes is {mean:g}, and {self.settings.criterion:g} was asked for",
            )

    def stop(self) -> None:
        """Be done as if all decisions had been made."""
        self.stopped = True
        self._rest()
        self._hub.rest(self.name)

    def flush(self) -> None:
        """Write a summary now."""
        self.before_summary()
        self._next_summary = (self.decisions // self._summary_freq + 1) * self._summary_freq
        self.rewards.take(self._hub.flush(self.name, self.decisions, training=not self.done))

    async def wait_for_learner(self) -> None:
        """Hand over work that is ready; wait only while the policy's age is at its bound.

        Every pair calls this after it has recorded a step and before its environment gets the next answer. Once
        learning has failed for good it raises what failed: NonFiniteError after several updates that met NaN,
        LearnerError, or a defect.
        """
        work = None if self.done else self.algorithm.ready(Counters(self.decisions, self.policy.version))
        if work is not None:
            self._hand_over(work)
        if self._outstanding > self._max_policy_age or self._too_early() > 0.0:
            await self._wait_for_update()
        if self.error is not None:
            raise self.error

    def _hand_over(self, work: Work) -> None:
        self._filling_seconds = _now() - self._collecting_since
        self._outstanding += 1
        self._queue.append(work)
        if self._outstanding == 1:
            self._plan_ahead()
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._learn_all())

    def _plan_ahead(self) -> None:
        """When agents act on beside the update that begins: late, and just in time to fill the next buffer.

        So their weights are as new as they can be. How long both take is known from the last time; where filling a
        buffer takes longer than an update, or a replay memory does not mind, agents go on at once.
        """
        ahead = self._last_update_seconds - _MARGIN * self._filling_seconds if self.algorithm.on_policy else 0.0
        self._collecting_since = self._held_until = _now() + max(0.0, ahead)

    def _too_early(self) -> float:
        """Seconds until agents may act beside the update that runs; 0 or less where none does, or they may."""
        return self._held_until - _now() if self._outstanding else 0.0

    async def _wait_for_update(self) -> None:
        """Time in which several pairs wait counts once."""
        since = time.monotonic()
        first = self._waiting_pairs == 0
        self._waiting_pairs += 1
        try:
            while self.error is None:
                limit = None if self._outstanding > self._max_policy_age else self._too_early()
                if limit is not None and limit <= 0.0:
                    break
                self._moved.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._moved.wait(), limit)
        finally:
            self._waiting_pairs -= 1
        if first:
            held = time.monotonic() - since
            self.held_seconds += held
            self._hub.add(self.name, keys.HELD_SECONDS, held, Aggregation.SUM)

    async def learn(self, work: Work) -> None:
        """One update from ``work``, whoever collected it. Raises what learning has failed by, as above."""
        self._hand_over(work)
        await self.drain()
        if self.error is not None:
            raise self.error

    async def drain(self) -> None:
        """Wait until everything that was handed over has been learned from."""
        if self._running is not None:
            await self._running

    def shutdown(self) -> None:
        """Give up the work that still waits; an update that runs comes to its end."""
        self._outstanding -= len(self._queue)
        while self._queue:
            self._queue.pop().release()
        self._moved.set()

    async def _learn_all(self) -> None:
        while self._queue:
            work = self._queue.pop(0)
            progress = min(self.decisions / self.max_steps, 1.0)
            if self._callbacks.wants("on_update_begin"):
                self._callbacks.tell("on_update_begin", UpdateInfo(self.name, self.policy.version, self.decisions))
            try:
                self._take_over(await self.run_in_thread(lambda work=work, at=progress: self._learn(work, at)))  # type: ignore[misc]
                if self.after_update is not None:
                    await self.after_update(self)
            except Exception as error:  # those who wait for the learner must learn of it, whatever it is
                self.error = error
            finally:
                self._outstanding -= 1
                if self._queue:
                    self._plan_ahead()
                self._moved.set()

    def _learn(self, work: Work, progress: float) -> _Outcome:
        """One update, in the executor."""
        begin = time.perf_counter()
        self.laps.begin()
        try:
            # While agents act beside the update they act with weights that are little behind; taking turns, with none.
            stats = self._handle.submit(work, progress, self._act_with if self._max_policy_age else None)
        except NonFiniteError as error:
            return _Outcome({}, self.policy, time.perf_counter() - begin, error)
        policy = self._handle.policy()
        self.laps.lap("update")
        if self._validator is not None and self.decisions >= self._next_evaluation:
            self._next_evaluation = validation_after(self.decisions, self.max_steps)
            self._recent = self._validate(policy, self._validator)
            stats.update(self.evaluation)
            self.laps.lap("validate")
        return _Outcome(stats, policy, time.perf_counter() - begin)

    def _validate(self, policy: Policy, validator: Validator) -> list[Mapping[str, float]]:
        """Score ``policy``, and keep it where it is the best so far; the scores that it was ranked by."""
        told = self.name, policy.version, self.decisions
        self._callbacks.soon("on_evaluation_begin", EvaluationInfo(*told))
        self.evaluation = validator(policy)
        self._callbacks.soon("on_evaluation_end", EvaluationInfo(*told, self.evaluation))
        recent = [*self._recent, self.evaluation][-UPDATES_IN_RANK:]
        self._newest = ScoredPolicy(policy, self.decisions, self.evaluation, rank_of(recent))
        self.best = self._newest.or_kept(self.best)
        return recent

    def validate_last(self) -> Mapping[str, float]:
        """Score the policy of now as those before it were, if that is still to be done: the run ends with it.

        Nothing that a run which goes on from here would validate changes by it. Call in the learner's thread.

        Returns:
            Its scores by metric key; none where it had been scored, or nothing is.
        """
        if self._validator is None or self.last.scores:
            return {}
        self._validate(self.policy, self._validator)
        return self.evaluation

    @property
    def last(self) -> ScoredPolicy:
        """The policy of now, with its scores where it was validated."""
        if self._newest is not None and self._newest.policy.version == self.policy.version:
            return replace(self._newest, decisions=self.decisions)
        return ScoredPolicy(self.policy, self.decisions)

    def _batch(self, minibatches: int, statistics: Mapping[str, float] | None) -> None:
        """Minibatches are learned from (in the learner's thread, or told by its process); None: that begins."""
        if statistics is None:
            self._callbacks.soon("on_batch_begin", BatchInfo(self.name, minibatches))
        else:
            self._callbacks.soon("on_batch_end", BatchInfo(self.name, minibatches, statistics))

    def _act_with(self, policy: Policy) -> None:
        """Let the next forward pass use ``policy``. May be called from any thread."""
        self.actor.policy = policy

    def _take_over(self, outcome: _Outcome) -> None:
        self.update_seconds += outcome.seconds
        self._last_update_seconds = outcome.seconds
        self._hub.add(self.name, keys.UPDATE_SECONDS, outcome.seconds)
        self.policy = outcome.policy
        self._act_with(outcome.policy)
        if outcome.error is not None:
            self._skip(outcome.error)
        else:
            self._skipped_in_a_row = 0
            self.updates += 1
            self.policy_age = outcome.stats.get(keys.POLICY_AGE, 0.0)
            self.opts += int(outcome.stats.get(keys.MINIBATCHES, 0.0))
            self.record(outcome.stats)
        if self._callbacks.wants("on_update_end"):
            told = self.name, outcome.policy.version, self.decisions, outcome.stats, outcome.seconds
            error = None if outcome.error is None else str(outcome.error)
            self._callbacks.tell("on_update_end", UpdateInfo(*told, error))

    def _skip(self, error: NonFiniteError) -> None:
        """An update met NaN: the weights are those from before it; give up when it goes on."""
        self._skipped_in_a_row += 1
        self._hub.warning(f"an update was skipped and the weights kept: {error}", behavior=self.name)
        if self._skipped_in_a_row >= _MOST_SKIPPED:
            self.error = error

    def evaluate_returns(self) -> None:
        """Where nothing is validated, compare the policy of now with the best so far by ``trial_count`` episodes."""
        mean = self.returns.mean
        if self._validator is None and mean is not None:
            self.best = ScoredPolicy(self.policy, self.decisions, rank=(mean, 0.0)).or_kept(self.best)

    def forget_open(self) -> None:
        """Drop everything not yet learned from: the environments begin anew."""
        self.memory.clear()

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON-able values for a checkpoint. Call in the learner's thread."""
        arrays, facts = self._handle.state()
        pending = self._hub.pending(self.name, keys.EPISODE_REWARDS)
        weights, best = best_to_keep(self.best)
        return {**arrays, **weights}, {
            "algorithm": facts,
            "decisions": self.decisions,
            "opts": self.opts,
            "samples": self.samples,
            "acting_rng": self.actor.rng.bit_generator.state,
            "behavior": behavior_json.to_json(self.spec),
            "reward_components": self.setup.reward_width,
            "best": best,
            "recent_scores": [dict(scores) for scores in self._recent],
            "next_evaluation": self._next_evaluation,
            "recent_returns": self.returns.state(),
            "last_rewards": self.rewards.state(),
            "open_rewards": {key: one.plain() for key, one in pending.items()},
        }

    def begin_from(self, arrays: Arrays, values: Mapping[str, Any]) -> None:
        """Take over what another run's learner has learned (what its :meth:`state` gave); all counters stay at 0."""
        arrays, values = whole(arrays, values, self._handle.state)
        learned = {name: array for name, array in arrays.items() if not name.startswith(BEST)}
        self._handle.load(learned, {name: fact for name, fact in values["algorithm"].items() if name != "version"})
        self.policy = self._handle.policy()
        self._act_with(self.policy)

    def play(self, arrays: Arrays, values: Mapping[str, Any]) -> None:
        """Act from now on as a saved learner would (what its :meth:`state` gave), but explore nothing any more."""
        self.begin_from(arrays, values)
        self.actor.deterministic |= self.policy.explores
        self.best = stored_best(self.algorithm, arrays, values)

    def play_best(self) -> None:
        """Act from now on with the policy that validation chose, where it chose one."""
        if self.best is not None:
            self.policy = self.best.policy
            self._act_with(self.policy)

    def restore(self, arrays: Arrays, values: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        arrays, values = whole(arrays, values, self._handle.state)
        self._handle.load(
            {name: array for name, array in arrays.items() if not name.startswith(BEST)}, values["algorithm"]
        )
        self.best = stored_best(self.algorithm, arrays, values)
        self._recent = list(values.get("recent_scores", []))
        self.returns.load(values.get("recent_returns", ()))
        self.rewards.load(values.get("last_rewards", {}))
        known = values.get("open_rewards", {})
        self._hub.carry(self.name, {key: Statistics.from_plain(one) for key, one in known.items()})
        self.stopped = self.returns.reached
        self.decisions = int(values["decisions"])
        # What an earlier version, or an earlier max_steps, found due may be far away.
        due = validation_after(self.decisions, self.max_steps)
        self._next_evaluation = min(values.get("next_evaluation", due), due)
        # Checkpoints of earlier versions have neither; nor have they rewards.
        self.opts, self.samples = int(values.get("opts", 0)), int(values.get("samples", 0))
        self.remembers = not self.algorithm.lost(values["algorithm"])
        self.actor.rng.bit_generator.state = values["acting_rng"]
        self.policy = self._handle.policy()
        self._act_with(self.policy)
        self._next_summary = (self.decisions // self._summary_freq + 1) * self._summary_freq

    async def run_in_thread(self, work: Callable[[], Any]) -> Any:
        """Run ``work`` in the learner's thread, after what is there already."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)
