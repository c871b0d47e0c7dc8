"""Random experience for tests of learners: the same in a RolloutMemory and as the reference's trajectories."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tau_trainer.memory import RolloutMemory
from tau_trainer.models import Policy
from tau_trainer.settings import NetworkSettings, PPOHyperparameters, RewardSignalSettings, TrainerSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.algorithms.reference_ppo import Trajectory

OBSERVATIONS = (ObservationSpec("vector", (4,)), ObservationSpec("more", (3,)))
AGENTS = 5
CONTINUOUS, DISCRETE, HYBRID = ActionSpec(2), ActionSpec(0, (3, 2)), ActionSpec(2, (3, 2))


def behavior(actions: ActionSpec) -> BehaviorSpec:
    return BehaviorSpec("Walker?team=0", OBSERVATIONS, actions)


def settings(network: dict[str, Any] | None = None, gamma: float = 0.99, **numbers: Any) -> TrainerSettings:
    numbers = {"batch_size": 32, "buffer_size": 200, "num_epoch": 2, **numbers}
    return TrainerSettings(
        hyperparameters=PPOHyperparameters(**numbers),
        network_settings=NetworkSettings(hidden_units=16).model_copy(update=network or {}),
        reward_signals={"extrinsic": RewardSignalSettings(gamma=gamma)},
        time_horizon=1000,
    )


class Collector:
    """Lets a policy act on random observations with random rewards, ends and masks."""

    def __init__(self, actions: ActionSpec, components: int = 1, seed: int = 0, horizon: int = 1000) -> None:
        self.actions, self.components, self.rng = actions, components, np.random.default_rng(seed)
        self.memory = RolloutMemory(OBSERVATIONS, actions, capacity=200, horizon=horizon, reward_components=components)
        self.trajectories: list[Trajectory] = []
        self._steps: list[list[dict[str, Any]]] = [[] for _ in range(AGENTS)]
        self._arrived = 0

    def collect(self, policy: Policy, steps: int = 41) -> RolloutMemory:
        for step in range(steps):
            obs = self._observe()
            mask = None
            if self.actions.mask_size:
                mask = self.rng.random((AGENTS, self.actions.mask_size)) < 0.3
            result = policy.act(obs, mask, self.rng)
            reward = self.rng.normal(size=(AGENTS, self.components)).astype(np.float32)
            self.memory.append(
                np.arange(AGENTS), reward, obs, result.continuous, result.discrete, result.log_prob, mask, 0
            )
            for agent in range(AGENTS):
                self._follow(agent, reward, obs, result, mask)
            if step % 7 == 6:
                self._end(step % AGENTS, truncated=step % 2 == 0)
        return self.memory

    def _observe(self) -> tuple[Any, ...]:
        return tuple(self.rng.normal(size=(AGENTS, *sensor.shape)).astype(np.float32) for sensor in OBSERVATIONS)

    def _follow(self, agent: int, reward: Any, obs: Any, result: Any, mask: Any) -> None:
        if self._steps[agent]:
            self._steps[agent][-1]["reward"] = reward[agent]
        blocked = np.zeros(self.actions.mask_size, np.bool_) if mask is None else mask[agent].copy()
        begin = 0
        for size in self.actions.discrete_branches:
            if blocked[begin : begin + size].all():
                blocked[begin : begin + size] = False
            begin += size
        self._steps[agent].append(
            {
                "arrival": self._arrived,
                "obs": np.concatenate([values[agent] for values in obs]),
                "continuous": result.continuous[agent],
                "discrete": result.discrete[agent],
                "mask": blocked,
                "log_prob": result.log_prob[agent],
            }
        )
        self._arrived += 1

    def _end(self, agent: int, truncated: bool) -> None:
        obs = self._observe()
        reward = self.rng.normal(size=(1, self.components)).astype(np.float32)
        self.memory.end(np.array([agent]), reward, tuple(values[:1] for values in obs), np.array([truncated]))
        self._steps[agent][-1]["reward"] = reward[0]
        final = np.concatenate([values[0] for values in obs]) if truncated else None
        self._close(agent, self._steps[agent], final)
        self._steps[agent] = []

    def _close(self, agent: int, steps: list[dict[str, Any]], final: Any) -> None:
        if not steps:
            return

        def column(name: str, dtype: torch.dtype) -> torch.Tensor:
            return torch.tensor(np.array([step[name] for step in steps]), dtype=dtype)

        trajectory = Trajectory(
            obs=column("obs", torch.float32),
            continuous=column("continuous", torch.float32),
            discrete=column("discrete", torch.int64),
            mask=column("mask", torch.bool),
            log_prob=column("log_prob", torch.float32),
            reward=column("reward", torch.float64),
            bootstrap=None if final is None else torch.tensor(final),
        )
        trajectory.arrival = [step["arrival"] for step in steps]  # type: ignore[attr-defined]
        self.trajectories.append(trajectory)

    def finish(self) -> tuple[list[Trajectory], torch.Tensor]:
        """Trajectories so far (the open decision of each agent is its bootstrap), and the order of arrival."""
        for agent, steps in enumerate(self._steps):
            if steps:
                self._close(agent, steps[:-1], steps[-1]["obs"])
        arrived = [number for trajectory in self.trajectories for number in trajectory.arrival]  # type: ignore[attr-defined]
        return self.trajectories, torch.tensor(np.argsort(arrived))
