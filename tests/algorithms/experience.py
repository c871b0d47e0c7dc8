"""Random experience for tests of learners: the same in an algorithm's memory and as the reference's trajectories."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch

from tau_trainer.algorithms import PPO, Algorithm, Setup
from tau_trainer.algorithms.minibatches import Samples
from tau_trainer.memory import StepFacts, WorkData
from tau_trainer.models import ActorCritic, Decision, Policy
from tau_trainer.settings import NetworkSettings, PPOHyperparameters, RewardSignalSettings
from tau_trainer.settings.trainers import PPOTrainerSettings, TrainerSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.algorithms.reference_ppo import Trajectory
from tests.networks import observations
from tools.bench.by_torch import PPOByTorch

Settings = TypeVar("Settings", bound=TrainerSettings)
VECTORS = (ObservationSpec("vector", (4,)), ObservationSpec("more", (3,)))
AGENTS = 5
CONTINUOUS, DISCRETE, HYBRID = ActionSpec(2), ActionSpec(0, (3, 2)), ActionSpec(2, (3, 2))
TWO_STREAMS = {
    "extrinsic": RewardSignalSettings(gamma=0.9, strength=0.5),
    "bonus": RewardSignalSettings(gamma=0.6, strength=2.0),
}


def behavior(actions: ActionSpec, *more: ObservationSpec) -> BehaviorSpec:
    return BehaviorSpec("Walker?team=0", (*VECTORS, *more), actions)


def paying(options: Settings, signals: dict[str, Any] | None) -> Settings:
    """The same with other streams, also such as no file can name: a ``bonus`` that is paid while agents act."""
    return options if signals is None else options.model_copy(update={"reward_signals": signals})


def settings(
    network: dict[str, Any] | None = None, signals: dict[str, Any] | None = None, **numbers: Any
) -> PPOTrainerSettings:
    numbers = {"batch_size": 32, "buffer_size": 200, "num_epoch": 2, **numbers}
    options = PPOTrainerSettings(
        hyperparameters=PPOHyperparameters(**numbers),
        network_settings=NetworkSettings().model_copy(update={"hidden_units": 16, **(network or {})}),
        time_horizon=1000,
    )
    return paying(options, signals)


def ppo(
    spec: BehaviorSpec | ActionSpec,
    options: PPOTrainerSettings | None = None,
    *,
    seed: int = 1,
    width: int = 1,
    fused: bool = True,
    device: str = "cpu",
) -> PPO:
    """A learner, of a behavior that sees two vectors unless told otherwise."""
    if isinstance(spec, ActionSpec):
        spec = behavior(spec)
    kind = PPO if fused else PPOByTorch
    return kind(Setup(spec, settings() if options is None else options, seed, width, device))


def acted(obs: tuple[Any, ...], decision: Decision, mask: Any = None) -> dict[str, Any]:
    """What a memory is given of a decision."""
    values: dict[str, Any] = {f"obs_{i}": sensor for i, sensor in enumerate(obs)}
    actions = {"continuous": decision.continuous, "discrete": decision.discrete}
    return {**values, **actions, **decision.extras, "mask": mask}


class Collector:
    """Lets a policy act on random observations with random rewards, ends and masks."""

    def __init__(self, algorithm: PPO, seed: int = 0) -> None:
        self.spec, self.streams, self.memory = algorithm.spec, algorithm.streams, algorithm.memory
        self.columns = [column.name for column in algorithm.columns]
        self.rng = np.random.default_rng(seed)
        self.trajectories: list[Trajectory] = []
        self._state = {column.name: column.empty(AGENTS) for column in algorithm.network.state_columns}
        self._steps: list[list[dict[str, Any]]] = [[] for _ in range(AGENTS)]
        self._arrived = 0

    def collect(self, policy: Policy, steps: int = 41) -> WorkData:
        """The rollout of so many further decisions of every agent."""
        for step in range(steps):
            self.step(policy)
            if step % 7 == 6:
                self._end(step % AGENTS, truncated=step % 2 == 0)
        return self.memory.take().data

    def step(self, policy: Policy) -> None:
        """One decision of every agent."""
        size, obs = self.spec.actions.mask_size, self._observe(AGENTS)
        mask = self.rng.random((AGENTS, size)) < 0.3 if size else None
        decision = policy.act(obs, mask, self.rng, state={name: kept.copy() for name, kept in self._state.items()})
        reward = self._rewards(AGENTS)
        facts = StepFacts(self._by_stream(reward))
        self.memory.append(np.arange(AGENTS), facts, acted(obs, decision, mask), policy.version)
        self._state = {name: kept.copy() for name, kept in decision.state.items()}
        for agent in range(AGENTS):
            self._follow(agent, reward, obs, decision, mask)

    def _observe(self, rows: int) -> tuple[Any, ...]:
        return observations(self.spec, rows, int(self.rng.integers(2**31)), scale=1.0)

    def _rewards(self, rows: int) -> Any:
        """Of all streams side by side."""
        return self.rng.normal(size=(rows, sum(stream.width for stream in self.streams))).astype(np.float32)

    def _by_stream(self, rewards: Any) -> dict[str, Any]:
        ends = np.cumsum([stream.width for stream in self.streams])
        parts = np.split(rewards, ends[:-1], axis=1)
        return {stream.name: part for stream, part in zip(self.streams, parts, strict=True)}

    def _follow(self, agent: int, reward: Any, obs: Any, decision: Decision, mask: Any) -> None:
        if self._steps[agent]:
            self._steps[agent][-1]["reward"] = reward[agent]
        blocked = np.zeros(self.spec.actions.mask_size, np.bool_) if mask is None else mask[agent].copy()
        begin = 0
        for size in self.spec.actions.discrete_branches:
            if blocked[begin : begin + size].all():
                blocked[begin : begin + size] = False
            begin += size
        self._steps[agent].append(
            {
                "arrival": self._arrived,
                "obs": _flat(obs, agent),
                "continuous": decision.continuous[agent],
                "discrete": decision.discrete[agent],
                "mask": blocked,
                "log_prob": decision.extras["log_prob"][agent],
            }
        )
        self._arrived += 1

    def _end(self, agent: int, truncated: bool) -> None:
        obs, reward = self._observe(1), self._rewards(1)
        self.memory.end(np.array([agent]), StepFacts(self._by_stream(reward)), obs, np.array([truncated]))
        for kept in self._state.values():
            kept[agent] = 0
        self._steps[agent][-1]["reward"] = reward[0]
        self._close(agent, self._steps[agent], _flat(obs, 0) if truncated else None)
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


def _flat(obs: Any, agent: int) -> Any:
    return np.concatenate([values[agent].ravel() for values in obs])


def random_samples(network: ActorCritic, rows: int, columns: int, *, masked: bool = False) -> Samples:
    """``columns`` advantages each; the policy that acted had log-probability 0 everywhere."""
    actions, generator = network.spec.actions, torch.Generator().manual_seed(0)
    mask = torch.zeros(0, 0, dtype=torch.bool)
    if masked:
        mask = torch.rand(rows, actions.mask_size, generator=generator) < 0.4
        mask[:, 0] = mask[:, -1] = False  # index 0 of the first and the last index of the last branch stay allowed
    chosen = [torch.zeros(rows, dtype=torch.int64), torch.ones(rows, dtype=torch.int64)]
    state = torch.zeros(0)
    for column in network.state_columns:
        state = torch.rand(rows, *column.shape, generator=generator)
    return Samples(
        inputs=network.prepare(observations(network.spec, rows, scale=1.0)),
        state=state,
        continuous=torch.randn(rows, actions.continuous_size, generator=generator),
        discrete=torch.stack(chosen, dim=1)[:, : actions.discrete_size],
        mask=mask,
        log_prob=torch.zeros(rows, actions.components),
        advantage=torch.randn(rows, columns, generator=generator),
        returns=torch.randn(rows, network.value.bias.numel(), generator=generator),
        begins=torch.rand(rows, generator=generator) < 0.3 if network.state_columns else torch.zeros(0),
    )


def states_equal(first: Algorithm, second: Algorithm) -> None:
    """Everything that a checkpoint of either keeps."""
    (arrays, metadata), (others, told) = first.state(), second.state()
    assert metadata == told
    np.testing.assert_equal(arrays, others)
