"""An environment of Gymnasium that tells what it hears, as the trainer plays it."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import AsyncIterator, Callable
from typing import Any

import gymnasium
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from tau_trainer.envs import Environment
from tau_trainer.envs.gymnasium import GymnasiumEnvironment
from tau_trainer.envs.restarts import RestartBudget

Make = Callable[[], gymnasium.Env[Any, Any]]


COPIES = 5


SEED = 11


class Probe(gymnasium.Env[Any, Any]):
    """Shows samples of a space, takes down its actions; episodes last 1, 2, 3, 1, ... steps, ended as ``ends`` says."""

    def __init__(
        self,
        observation: spaces.Space[Any] | None = None,
        action: spaces.Space[Any] | None = None,
        ends: tuple[tuple[bool, bool], ...] = ((True, False), (False, True), (True, True)),
    ) -> None:
        # Copies of their own: a space draws from its own random numbers.
        self.observation_space = copy.deepcopy(spaces.Box(-1.0, 1.0, (2,)) if observation is None else observation)
        self.action_space = action or spaces.Discrete(3)
        self.taken: list[Any] = []
        self.episodes = self.left = 0
        self._ends = ends

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.episodes += 1
        self.left = 1 + (self.episodes - 1) % 3
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.taken.append(action)
        self.left -= 1
        terminated, truncated = self._ends[(self.episodes - 1) % len(self._ends)] if self.left <= 0 else (False, False)
        return self.observation_space.sample(), float(len(self.taken)), terminated, truncated, {}


def vector(make: Make, copies: int = COPIES) -> Any:
    return lambda: SyncVectorEnv([make] * copies, autoreset_mode=AutoresetMode.SAME_STEP)


def environment_of(make: Callable[[], VectorEnv[Any, Any, Any]], budget: RestartBudget | None = None) -> Environment:
    return GymnasiumEnvironment(0, make, SEED, budget)


@contextlib.asynccontextmanager
async def playing(environment: Environment) -> AsyncIterator[None]:
    """It is ended, whatever happens."""
    try:
        yield
    finally:
        await environment.kill()
