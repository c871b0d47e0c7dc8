"""Time of a gradient step: a trial learns from a game that takes no time, because it repeats recorded observations."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import median

import numpy as np

from tau_trainer.envs import Environment, Parameters
from tau_trainer.envs.contract import OnEvent, OnStat
from tau_trainer.errors import EngineError
from tau_trainer.search.stopping import Stoppable
from tau_trainer.search.trial import Cost, Trial, of_all, renumbered
from tau_trainer.settings import RunSettings, TrainerSettings
from tau_trainer.specs import Actions, BehaviorSpec, StepBatch
from tau_trainer.training.advice import LEAST_STEPS

_EPISODE = 50
"""Steps of an episode."""
_MINIBATCHES = 4
"""Minibatches in a buffer: enough to be typical, and few enough to fill it quickly."""
_MOST_DECISIONS = 1_000_000
"""Maximum decisions of a trial."""

Shown = Mapping[BehaviorSpec, StepBatch]
"""A message of each behavior of a game, with the agents that requested decisions."""


class StillGame:
    """A game whose steps are all alike; both a :class:`~tau_trainer.envs.contract.Environment` and its source.

    All agents of ``shown`` get random rewards, and end an episode regularly. It takes almost no time.
    """

    invitation: str | None = None
    warnings: tuple[str, ...] = ()
    exchanges = restarts = 0
    waits_for: str | None = None
    absent: str | None = None

    def __init__(self, shown: Shown) -> None:
        self.specs = {spec.name: spec for spec in shown}
        self._shown = list(shown.values())
        self._rng = np.random.default_rng(0)

    def make(self, index: int, on_stat: OnStat, on_event: OnEvent) -> Environment:
        """Return itself, because only one is played."""
        return self

    async def start(self, parameters: Parameters) -> list[StepBatch]:
        """The first step."""
        return self._step()

    async def reset(self, parameters: Parameters) -> list[StepBatch]:
        """The next step, like any other."""
        return self._step()

    def tell(self, parameters: Parameters) -> None:
        """Ignore the parameters."""

    def answer(self, actions: Mapping[str, Actions]) -> None:
        """Count the exchange and ignore the actions."""
        self.exchanges += 1

    async def next(self) -> list[StepBatch]:
        """The next step."""
        await asyncio.sleep(0)
        return self._step()

    async def recover(self, error: EngineError) -> list[StepBatch]:
        """Raises ``error``: this game cannot fail."""
        raise error

    async def close(self) -> None:
        """Do nothing."""

    kill = close

    def _step(self) -> list[StepBatch]:
        over = self.exchanges > 0 and self.exchanges % _EPISODE == 0
        return [self._moment(batch, over) for batch in self._shown]

    def _moment(self, batch: StepBatch, over: bool) -> StepBatch:
        reward = self._rng.standard_normal(len(batch), np.float32)
        now = replace(batch, reward=reward, group_reward=np.zeros(len(batch), np.float32))
        now.terminals = now.ended(slice(None if over else 0), np.zeros(len(batch), np.bool_))
        return now


class Costs(Stoppable):
    """Measures the time of gradient steps.

    Args:
        shown: messages of the game.
        seconds: seconds of learning to measure, after the first update.
        clock: a monotonic clock in seconds.
    """

    def __init__(self, shown: Shown, seconds: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self._shown, self._seconds, self._clock = shown, seconds, clock

    def measure(self, settings: RunSettings) -> dict[str, float]:
        """Seconds of a gradient step by the behavior's short name, for behaviors that learned anything.

        Raises TauError if the settings cannot learn this game.
        """
        begun: list[float] = []

        def look(_loss: float) -> None:
            begun.append(self._clock())
            known = {cost.learner for cost in trial.outcome.costs}
            if begun[-1] - begun[0] >= self._seconds and len(known) == len({spec.short_name for spec in self._shown}):
                trial.stop()

        quick = of_all(settings.having(env_settings={"num_envs": 1}), _quick)
        trial = self.running(Trial(quick, _MOST_DECISIONS, on_update=look, source=StillGame(self._shown)))
        return _seconds_a_step(trial.run().costs)


def _quick(trainer: TrainerSettings) -> TrainerSettings:
    """The same settings, changed to learn soon and often, with the same minibatch size."""
    numbers = trainer.hyperparameters
    if numbers.replays:
        return renumbered(trainer, buffer_init_steps=0, steps_per_update=1.0 / LEAST_STEPS)
    most = _MINIBATCHES * numbers.batch_size
    return renumbered(trainer, buffer_size=min(numbers.buffer_size or most, most))


def _seconds_a_step(costs: list[Cost]) -> dict[str, float]:
    """The median of each learner. The first update includes preparations, so it counts only if it is the only one."""
    found = dict[str, list[float]]()
    for cost in costs:
        found.setdefault(cost.learner, []).append(cost.seconds / cost.minibatches)
    return {learner: median(seconds[1:] or seconds) for learner, seconds in found.items()}
