"""A trainer beside actors, with a learner that only counts."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from tau_trainer.algorithms import Publish
from tau_trainer.memory import Rollout, RolloutMemory, StepFacts, Work
from tau_trainer.metrics import MetricsHub, keys
from tau_trainer.remote.channel import SharedBytes
from tau_trainer.remote.weights import WeightMemory, layout_of
from tau_trainer.settings import AsyncTrainerSettings, SACTrainerSettings
from tau_trainer.training.actors.async_trainer import AsyncTrainer
from tau_trainer.training.actors.pace import Push
from tau_trainer.training.learning.age_bound import AgeBound
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.learning.loop import UpdateLoop
from tau_trainer.training.learning.progress import Progress
from tests.memory.test_rollout import SENSORS
from tests.training.fakes import Memory

WEIGHTS = {"w": np.zeros(3, np.float32)}


class Policy:
    def __init__(self, version: int) -> None:
        self.version = version
        self.weights = WEIGHTS


class FakeLearner:
    """Counts what it is given; every gradient step takes no time. It is its own loop."""

    def __init__(self, *, rollout_size: int = 0, **hyperparameters: Any) -> None:
        numbers = {"batch_size": 1, "buffer_size": 1000, **hyperparameters}
        self.settings = SACTrainerSettings.model_validate({"hyperparameters": numbers})
        self.algorithm = SimpleNamespace(rollout_size=rollout_size)
        self.name = "Agent"
        self.policy = Policy(7)
        self.progress = Progress("Agent", MetricsHub(), 100, 1000)
        self.error: Exception | None = None
        self.publish: Publish | None = None
        """Of the newest update."""
        self.bound = AgeBound(1, on_policy=True)
        self.done = False
        self.remembers = True
        self.taken: list[tuple[int | None, int, int]] = []
        """Source, transitions, gradient steps."""
        self.flushes = 0
        self.free = asyncio.Event()
        self.free.set()

    @property
    def learner(self) -> FakeLearner:
        return self

    async def update(self, work: Work, publish: Publish | None = None) -> None:
        self.publish = publish
        await self.free.wait()
        if self.error is not None:
            raise self.error
        rows, steps = len(Rollout(work)), 3 if self.algorithm.rollout_size else work.gradient_steps
        assert steps is not None
        self.versions = work["version"][1:].tolist() if rows else []
        self.taken.append((work.source if rows else None, rows, steps))
        self.policy = Policy(self.policy.version + 1)
        statistics = {"Losses/Some": float(self.progress.opts + steps), keys.MINIBATCHES: float(steps)}
        self.progress.took(0.002 * steps, statistics if steps else None)

    def count(self, decisions: int) -> None:
        self.progress.decisions += decisions
        self.done = self.progress.decisions >= self.progress.max_steps

    def flush(self) -> None:
        self.flushes += 1
        assert self.progress.figures is not None
        self.progress.figures.record()

    @property
    def steps(self) -> list[int]:
        return [steps for _, _, steps in self.taken]


class Stage:
    """An AsyncTrainer with a fake learner, and what it asks for."""

    def __init__(self, learner: FakeLearner | None = None, **settings: Any) -> None:
        self.learner = learner or FakeLearner()
        self.shown = Memory()
        self.hub = self.learner.progress.hub = MetricsHub([self.shown])
        self.evaluated: list[int] = []
        self.done = 0
        self.channel = WeightMemory(SharedBytes(), layout_of(WEIGHTS))
        self.trainer = AsyncTrainer(
            cast(UpdateLoop, self.learner),
            AsyncTrainerSettings.model_validate(settings),
            self.channel,
            self,
        )

    async def request_evaluation(self, learner: Learner, opts: int) -> None:
        self.evaluated.append(opts)

    def wake(self) -> None:
        self.done += 1

    def push(self, samples: int, actor: int = 0, version: int | None = None) -> Push:
        """Transitions of one agent."""
        memory = RolloutMemory(SENSORS, (), rewards={"extrinsic": 1}, capacity=8, horizon=100)
        values: dict[str, Any] = {"obs_0": np.zeros((1, 1), np.float32), "obs_1": np.zeros((1, 2, 3), np.uint8)}
        acted = self.learner.policy.version if version is None else version
        for _ in range(samples + 1):
            memory.append(np.zeros(1, np.intp), StepFacts({"extrinsic": np.zeros((1, 1), np.float32)}), values, acted)
        return Push(Work(memory.take().data, source=actor), samples)


async def settle() -> None:
    """Let everything happen that can happen now."""
    for _ in range(300):
        await asyncio.sleep(0)
