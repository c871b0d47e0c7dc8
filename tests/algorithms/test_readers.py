"""What readers make of engines' experience; `batched/` and `test_poca.py` have the other layouts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tau_trainer.algorithms.minibatches import Samples
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.algorithms.readers import RolloutReader
from tau_trainer.memory import Rollout
from tau_trainer.settings import MemorySettings, RewardSignalSettings
from tau_trainer.settings.trainers import PPOTrainerSettings
from tests.algorithms.experience import CONTINUOUS, HYBRID, Collector, behavior, ppo, settings
from tests.networks import CountingMemory, plug_in


def counting(patch: pytest.MonkeyPatch) -> PPO:
    """A learner whose critic says how many decisions the episode had before; nobody pays, one-step returns."""
    plug_in(patch, memory=CountingMemory)
    signals = {"extrinsic": RewardSignalSettings(gamma=1.0, strength=0.0)}
    network = {"memory": MemorySettings(memory_size=2, sequence_length=8)}
    options: PPOTrainerSettings = settings(network, signals, lambd=0.0, learning_rate=1e-12)
    learner = ppo(behavior(CONTINUOUS), options)
    with torch.no_grad():
        learner.network.value.weight.copy_(torch.tensor([[1.0], [0.0]]))
        learner.network.value.bias.zero_()
    return learner


@torch.no_grad()
def test_bootstrap_states_come_after_the_right_transitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The value of what came after is 1 more than the count at the transition, and nothing after a real end."""
    learner = counting(monkeypatch)
    collector = Collector(learner)
    for _ in range(2):
        rollout = Rollout(collector.collect(learner.snapshot()))
        reader, update = RolloutReader(rollout, learner.network, 0, learner.generator, 8), learner.policy_update
        samples = reader.samples(learner.network)
        values = update.values(samples.inputs, samples.past)
        _, returns = reader.advantages(values, update)
        order, begins = rollout.sequences(8)
        memory = rollout.column("memory")[order]
        count, terminated = memory[:, 0, 0], rollout.terminated[order]
        assert len(set(count.tolist())) > 20
        assert (rollout.truncated.sum(), (rollout.bootstrap >= 0).sum()) == (3, 8)
        np.testing.assert_array_equal(values[:, 0], count)
        np.testing.assert_array_equal(returns[:, 0], np.where(terminated, 0, count + 1))
        np.testing.assert_array_equal(samples.state.numpy(), memory)
        np.testing.assert_array_equal(samples.begins.numpy(), begins)


def test_recurrent_state_is_stored_with_each_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = counting(monkeypatch)
    rollout = Rollout(Collector(learner).collect(learner.snapshot()))
    count, begins = np.zeros(5), []
    for row, stored, terminated, truncated in zip(
        rollout.rows, rollout.column("memory")[:, 1, 1], rollout.terminated, rollout.truncated, strict=True
    ):
        begins.append(stored == count[row])
        count[row] = 0 if terminated or truncated else count[row] + 1
    assert all(begins)


@torch.no_grad()
def test_only_stale_data_gets_log_probabilities_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """One open record of each agent is older than the update before; it must not cost the others theirs."""
    learner = ppo(HYBRID, settings({"normalize": True}, num_epoch=1, batch_size=200))
    collector = Collector(learner)
    learner.update(collector.collect(learner.snapshot()), 0.0, None)
    rollout = Rollout(collector.collect(learner.snapshot()))
    stale = np.flatnonzero(rollout.version < learner.version)
    assert 0 < len(stale) <= 5
    seen: list[Samples] = []

    def descend(samples: Samples, *others: object) -> tuple[torch.Tensor, int]:
        seen.append(samples)
        return torch.zeros(1, 6), 0

    monkeypatch.setattr(learner.policy_update, "_descend", descend)
    learner.policy_update.learn(learner.read(rollout), learner.schedule(0.0))
    changed = np.flatnonzero((seen[0].log_prob.numpy() != rollout.column("log_prob")).any(axis=1))
    np.testing.assert_array_equal(changed, stale)
