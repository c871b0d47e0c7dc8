"""The learner: one algorithm, its memory, and the thread in which it learns beside collection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from tau_trainer.algorithms.ppo import PPO
from tau_trainer.collection.decisions import DecisionBatcher
from tau_trainer.errors import NonFiniteError
from tau_trainer.memory.rollout import RolloutMemory
from tau_trainer.memory.trajectories import Rollout
from tau_trainer.metrics import Aggregation, MetricsHub, keys
from tau_trainer.models.policy import ActResult, Policy
from tau_trainer.settings import TrainerSettings
from tau_trainer.specs import BehaviorSpec
from tau_trainer.training import behavior_json

_MOST_SKIPPED = 3
"""Updates in a row that may fail on NaN before the run is given up."""

Evaluator = Callable[[Policy], Mapping[str, float]]
"""Scores a policy, by metric key; called in the learner's thread after every update."""


@dataclass(frozen=True, slots=True)
class LearnerOptions:
    """What a learner is told beside its behavior's settings."""

    seed: int
    max_steps: int
    """Decisions of this learner after which its schedules are at their end."""
    max_policy_age: int = 1
    """Rollouts that may wait for the learner while agents still act; 0: learning and collection take turns."""
    reward_components: int = 1
    deterministic_actions: bool = False
    device: str = "cpu"


@dataclass(slots=True)
class _Outcome:
    """What a turn of the learner's thread brings back to the event loop."""

    stats: Mapping[str, float]
    policy: Policy | None
    age: float
    seconds: float
    error: NonFiniteError | None = None


class Learner:
    """Learns one behavior. All methods belong to the event loop, except what runs in the executor.

    Attributes:
        decisions: decisions made for this learner so far, earlier runs that were resumed included.
        policy: the newest snapshot; acting uses it from its next forward pass on.
        held_seconds: time for which observations waited because the policy's age was at its bound.
    """

    def __init__(
        self,
        name: str,
        spec: BehaviorSpec,
        settings: TrainerSettings,
        options: LearnerOptions,
        hub: MetricsHub,
        executor: Executor,
        evaluator: Evaluator | None = None,
    ) -> None:
        """``name``: its key in metrics and files; ``spec``: the behavior without sensors that the policy never sees."""
        self.name = name
        self.spec = spec
        self.settings = settings
        self.options = options
        self.decisions = 0
        self.held_seconds = 0.0
        self.update_seconds = 0.0
        self.policy_age = 0.0
        self.evaluation: Mapping[str, float] = {}
        self.error: Exception | None = None
        """Why learning has failed for good."""
        self._hub = hub
        self._executor = executor
        self._evaluator = evaluator
        self.ppo = PPO(
            spec,
            settings,
            reward_components=options.reward_components,
            seed=options.seed,
            device=options.device,
            ratio="component",  # as ML-Agents does it
        )
        self.policy = self.ppo.snapshot()
        self.memory = RolloutMemory(
            spec.observations,
            spec.actions,
            capacity=settings.hyperparameters.buffer_size,
            horizon=settings.time_horizon,
            reward_components=options.reward_components,
        )
        self.rng = np.random.default_rng([options.seed, 1])
        self.batcher = DecisionBatcher(self.policy, ActResult, self.rng, deterministic=options.deterministic_actions)
        self.slots = 0
        self.updates = 0
        """Updates since this process began; the policy's version counts those of resumed runs too."""
        self.after_update: Callable[[Learner], Awaitable[None]] | None = None
        """Awaited after every update, before the next begins (to write a checkpoint, say)."""
        self._skipped_in_a_row = 0
        self._outstanding = 0
        self._holding = 0
        self._moved = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._waiting: list[Rollout] = []
        self._next_summary = settings.summary_freq

    @property
    def max_steps(self) -> int:
        """Decisions after which this learner is done."""
        return self.options.max_steps

    @property
    def done(self) -> bool:
        """Whether it has had all its decisions. Its policy keeps acting."""
        return self.decisions >= self.max_steps

    @property
    def idle(self) -> bool:
        """Whether no update runs or waits."""
        return self._outstanding == 0

    def new_slots(self, count: int) -> np.ndarray[Any, np.dtype[np.intp]]:
        """Slots in the memory for ``count`` agents more."""
        slots = np.arange(self.slots, self.slots + count)
        self.slots += count
        return slots

    def count(self, decisions: int) -> None:
        """Count decisions; write a summary every ``summary_freq`` of them."""
        before = self.done
        self.decisions += decisions
        if self.done and not before:
            # The last update still has something to say: it comes with the summary that ends the run.
            self._next_summary = self.decisions + self.settings.summary_freq
        elif self.decisions >= self._next_summary:
            self.flush()

    def flush(self) -> None:
        """Write a summary now."""
        self._next_summary = (self.decisions // self.settings.summary_freq + 1) * self.settings.summary_freq
        self._hub.flush(self.name, self.decisions, training=not self.done)

    async def admit(self) -> None:
        """Hand a full memory to the learning thread; wait only while the policy's age is at its bound.

        Every pair calls this after it has handed on a step and before the engine gets its answer. Once learning has
        failed for good it raises what failed: NonFiniteError after several updates that met NaN, or a defect.
        """
        if self.memory.completed >= self.settings.hyperparameters.buffer_size and not self.done:
            self._outstanding += 1
            self._waiting.append(self.memory.take())
            if self._running is None or self._running.done():
                self._running = asyncio.create_task(self._work())
        if self._outstanding > self.options.max_policy_age:
            await self._hold()
        if self.error is not None:
            raise self.error

    async def _hold(self) -> None:
        """Wait for the learner; time in which several pairs wait counts once."""
        since = time.monotonic()
        first = self._holding == 0
        self._holding += 1
        try:
            while self._outstanding > self.options.max_policy_age and self.error is None:
                self._moved.clear()
                await self._moved.wait()
        finally:
            self._holding -= 1
        if first:
            held = time.monotonic() - since
            self.held_seconds += held
            self._hub.add(self.name, keys.HELD_SECONDS, held, Aggregation.SUM)

    async def settle(self) -> None:
        """Wait until every rollout that was handed over has been learned from."""
        if self._running is not None:
            await self._running

    def hurry(self) -> None:
        """Give up the rollouts that still wait; an update that runs comes to its end."""
        self._outstanding -= len(self._waiting)
        while self._waiting:
            self._waiting.pop().release()
        self._moved.set()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            rollout = self._waiting.pop(0)
            progress = min(self.decisions / self.max_steps, 1.0)
            try:
                outcome = await loop.run_in_executor(self._executor, self._learn, rollout, progress)
                self._publish(outcome)
                if self.after_update is not None:
                    await self.after_update(self)
            except Exception as error:  # those who wait in admit() must learn of it, whatever it is
                self.error = error
            finally:
                self._outstanding -= 1
                self._moved.set()

    def _learn(self, rollout: Rollout, progress: float) -> _Outcome:
        """One update, in the executor."""
        begin = time.perf_counter()
        age = float(self.policy.version - np.mean(rollout.version))
        reward = float(np.mean(rollout.reward.sum(axis=1))) / rollout.reward.shape[1]
        try:
            # While agents act beside the update they act with weights that are little behind; taking turns, with none.
            publish = self._act_with if self.options.max_policy_age else None
            stats = dict(self.ppo.update(rollout, progress, publish=publish))
        except NonFiniteError as error:
            return _Outcome({}, None, age, time.perf_counter() - begin, error)
        finally:
            rollout.release()
        stats[keys.EXTRINSIC_REWARD] = reward
        policy = self.ppo.snapshot()
        if self._evaluator is not None:
            self.evaluation = self._evaluator(policy)
            stats.update(self.evaluation)
        return _Outcome(stats, policy, age, time.perf_counter() - begin)

    def _act_with(self, policy: Policy) -> None:
        """Let the next forward pass use ``policy``. May be called from any thread."""
        self.batcher.policy = policy

    def _publish(self, outcome: _Outcome) -> None:
        self.update_seconds += outcome.seconds
        self.policy_age = outcome.age
        self._hub.add(self.name, keys.POLICY_AGE, outcome.age)
        self._hub.add(self.name, keys.UPDATE_SECONDS, outcome.seconds)
        if outcome.policy is None:
            self._act_with(self.policy)
            self._skip(outcome.error)
            return
        self._skipped_in_a_row = 0
        self.updates += 1
        self.policy = self.batcher.policy = outcome.policy
        self._hub.add_all(self.name, outcome.stats)

    def _skip(self, error: NonFiniteError | None) -> None:
        """An update met NaN: the weights are those from before it; give up when it goes on."""
        self._skipped_in_a_row += 1
        self._hub.warning(f"an update was skipped and the weights kept: {error}", behavior=self.name)
        if self._skipped_in_a_row >= _MOST_SKIPPED:
            self.error = error

    def forget_open(self) -> None:
        """Drop everything not yet learned from: the engines begin anew."""
        self.memory.abandon(self.memory.open_slots)
        self.memory.take().release()

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Tensors and JSON-able values for a checkpoint. Call while no update runs, or in the executor."""
        tensors, extra = self.ppo.state_dict()
        return tensors, {
            "algorithm": extra,
            "decisions": self.decisions,
            "acting_rng": self.rng.bit_generator.state,
            "behavior": behavior_json.to_json(self.spec),
            "reward_components": self.options.reward_components,
        }

    def restore(self, tensors: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.ppo.load_state_dict(dict(tensors), values["algorithm"])
        self.decisions = int(values["decisions"])
        self.rng.bit_generator.state = values["acting_rng"]
        self.policy = self.batcher.policy = self.ppo.snapshot()
        self._next_summary = (self.decisions // self.settings.summary_freq + 1) * self.settings.summary_freq

    async def run_in_thread(self, work: Callable[[], Any]) -> Any:
        """Run ``work`` in the learner's thread, after what is there already."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)
