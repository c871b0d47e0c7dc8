"""REINFORCE (Williams 1992) as somebody else's package would bring it: one page, and nothing changed in ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch

from tau_trainer.algorithms import Algorithm, Counters, Publish, Setup, State
from tau_trainer.columns import Arrays, Column, action_columns, observation_columns
from tau_trainer.memory import Rollout, RolloutMemory, Work, WorkData
from tau_trainer.models import ActorCritic, Decision, Policy, make_policy
from tau_trainer.models.distributions import evaluate_actions
from tau_trainer.settings import Hyperparameters, TrainerSettings, TrainerType
from tau_trainer.settings.schedules import at

ELAPSED = Column("elapsed")


class ReinforceSettings(TrainerSettings):
    trainer_type: Literal["reinforce"] = "reinforce"
    hyperparameters: Hyperparameters = Hyperparameters()


class CountingPolicy(Policy):
    """Knows how old each agent's episode is; the decision's age is what the memory keeps beside it."""

    state_columns = (ELAPSED,)

    def __init__(self, inner: Policy) -> None:
        self.inner, self.spec, self.weights, self.version = inner, inner.spec, inner.weights, inner.version

    def act(self, obs: Any, mask: Any, rng: Any, **more: Any) -> Decision:
        elapsed = more["state"]["elapsed"]
        decision = self.inner.act(obs, mask, rng, deterministic=more.get("deterministic", False))
        return replace(decision, extras={"elapsed": elapsed}, state={"elapsed": elapsed + 1})

    def network(self) -> ActorCritic:
        return self.inner.network()


class Reinforce(Algorithm):
    def __init__(self, setup: Setup) -> None:
        self.spec, self.settings, (self.stream,) = setup.spec, setup.settings, setup.streams
        generator = torch.Generator().manual_seed(setup.seed)
        self.network = ActorCritic(self.spec, self.settings.network_settings, {"extrinsic": 1}, generator=generator)
        self.optimizer = torch.optim.SGD(self.network.parameters(), at(self.settings.hyperparameters.learning_rate, 0))
        self.memory: RolloutMemory = RolloutMemory(
            observation_columns(self.spec),
            (*action_columns(self.spec, self.network.action.choices), ELAPSED),
            rewards={"extrinsic": 1},
            capacity=self.settings.hyperparameters.buffer_size,
            horizon=self.settings.time_horizon,
        )

    def ready(self, counters: Counters) -> Work | None:
        enough = self.memory.completed >= self.settings.hyperparameters.buffer_size
        return self.memory.take() if enough else None

    def update(self, work: WorkData, progress: float, publish: Publish | None) -> dict[str, float]:
        rollout, gamma = Rollout(work), self.stream.gamma
        zeros = np.zeros((len(rollout), 1)), np.zeros((len(rollout.bootstrap_observations[0]), 1))
        returns, _ = rollout.gae(rollout.earned(self.stream.name), *zeros, gamma, 1.0)
        weight = gamma ** rollout.column("elapsed") * (returns[:, 0] - returns.mean()) / (returns.std() + 1e-8)
        actions = [torch.from_numpy(rollout.column(name).copy()) for name in ("continuous", "discrete")]
        outputs = self.network.outputs(self.network.prepare(rollout.observations))
        sigma = self.network.action.log_sigma
        log_prob, _ = evaluate_actions(self.spec.actions, outputs, sigma, actions[0], actions[1].long(), None)
        loss = -(log_prob.sum(dim=1) * torch.from_numpy(weight).float()).mean()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.version += 1
        return {"Losses/Policy Loss": loss.item(), "Reinforce/Oldest Decision": float(rollout.column("elapsed").max())}

    def weights(self) -> dict[str, Any]:
        return {name: value.numpy().copy() for name, value in self.network.state_dict().items()}

    def policy(self, weights: Arrays, version: int) -> Policy:
        return CountingPolicy(make_policy(self.network, weights, version))

    def state(self) -> State:
        return self.weights(), {"version": self.version}

    def load(self, arrays: Arrays, metadata: Mapping[str, Any], *, fresh: bool) -> None:
        self.network.load_state_dict({name: torch.tensor(values) for name, values in arrays.items()})
        self.version = 0 if fresh else metadata["version"]

    missing = "a full buffer"


TRAINER = TrainerType(ReinforceSettings, "reinforce:Reinforce")
