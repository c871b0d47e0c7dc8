from __future__ import annotations

import itertools
import json
from typing import Any, Literal

import numpy as np
import pytest
import torch

from tau_trainer.algorithms import PPO
from tau_trainer.errors import NonFiniteError
from tau_trainer.models import Policy
from tau_trainer.specs import ActionSpec
from tests.algorithms import reference_ppo
from tests.algorithms.experience import CONTINUOUS, DISCRETE, HYBRID, Collector, behavior, settings

ALL_ACTIONS = [
    pytest.param(CONTINUOUS, id="continuous"),
    pytest.param(DISCRETE, id="discrete"),
    pytest.param(HYBRID, id="hybrid"),
]


def weights_of(ppo: PPO) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in ppo.state_dict()[0].items() if name.startswith("model.")}


def assert_same_weights(first: PPO, second: PPO, tolerance: float) -> None:
    others = weights_of(second)
    for name, tensor in weights_of(first).items():
        torch.testing.assert_close(tensor, others[name], rtol=tolerance, atol=tolerance)


def reference_of(ppo: PPO) -> reference_ppo.Agent:
    """The reference's networks with this learner's weights."""
    network, model = ppo.network, weights_of(ppo)
    agent = reference_ppo.Agent(
        network.observation_size,
        network.hidden_units,
        network.num_layers,
        network.actions.continuous_size,
        list(network.actions.discrete_branches),
        network.values,
    )
    with torch.no_grad():
        for layer in range(network.num_layers):
            for tower, body in enumerate((agent.actor, agent.critic)):
                body[2 * layer].weight.copy_(model[f"model.body.{layer}.weight"][tower].T)  # type: ignore[operator]
                body[2 * layer].bias.copy_(model[f"model.body.{layer}.bias"][tower, 0])  # type: ignore[operator]
        agent.head.weight.copy_(model["model.action.weight"].T)
        agent.head.bias.copy_(model["model.action.bias"])
        agent.log_sigma.copy_(model["model.action.log_sigma"])
        agent.value_head.weight.copy_(model["model.value.weight"].T)
        agent.value_head.bias.copy_(model["model.value.bias"])
    return agent


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("credit", [False, True])
@pytest.mark.parametrize("layers", [0, 2])
@pytest.mark.parametrize("actions", ALL_ACTIONS)
def test_update_equals_the_reference(actions: ActionSpec, layers: int, credit: bool, fused: bool) -> None:
    components = actions.components if credit else 1
    options = settings({"num_layers": layers}, learning_rate=1e-3, max_grad_norm=0.3)
    ppo = PPO(behavior(actions), options, reward_components=components, seed=1, fused=fused)
    agent = reference_of(ppo)
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3)
    generator = torch.Generator()
    generator.set_state(ppo.state_dict()[0]["random.generator"])
    collector = Collector(actions, components)
    rollout = collector.collect(ppo.snapshot()).take()
    trajectories, arrival = collector.finish()
    assert len(rollout) == len(arrival) > 150
    numbers = options.hyperparameters
    reference_ppo.update(
        agent,
        optimizer,
        trajectories,
        arrival,
        generator,
        gamma=0.99,
        lambd=numbers.lambd,
        epsilon=numbers.epsilon,
        beta=numbers.beta,
        epochs=numbers.num_epoch,
        batch=numbers.batch_size,
        max_grad_norm=0.3,
        joint=not credit,
    )
    before = ppo.snapshot()
    ppo.update(rollout, 0.0)
    updated = PPO(behavior(actions), options, reward_components=components, seed=2)
    _load_reference(updated, agent)
    assert_same_weights(ppo, updated, 2e-5)
    assert np.abs(before.weights.action_weight - ppo.snapshot().weights.action_weight).max() > 1e-3


def _load_reference(ppo: PPO, agent: reference_ppo.Agent) -> None:
    tensors, metadata = ppo.state_dict()
    for layer in range(ppo.network.num_layers):
        bodies = (agent.actor, agent.critic)
        weight = [body[2 * layer].weight.detach().T for body in bodies]  # type: ignore[operator]
        bias = [body[2 * layer].bias.detach()[None] for body in bodies]  # type: ignore[operator]
        tensors[f"model.body.{layer}.weight"], tensors[f"model.body.{layer}.bias"] = (
            torch.stack(weight),
            torch.stack(bias),
        )
    tensors["model.action.weight"], tensors["model.action.bias"] = agent.head.weight.T, agent.head.bias
    tensors["model.action.log_sigma"] = agent.log_sigma
    tensors["model.value.weight"], tensors["model.value.bias"] = agent.value_head.weight.T, agent.value_head.bias
    ppo.load_state_dict(tensors, metadata)


@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"shared_critic": True},
        {"normalize_advantage": "minibatch"},
        {"max_grad_norm": None},
        {"weight_decay": 0.1},
        {"batch_size": 1000, "buffer_size": 1000},
    ],
)
@pytest.mark.parametrize("ratio", ["joint", "component", "credit"])
@pytest.mark.parametrize("actions", ALL_ACTIONS)
def test_fused_equals_autograd(actions: ActionSpec, ratio: str, variant: dict[str, Any]) -> None:
    components = actions.components if ratio == "credit" else 1
    kind: Literal["joint", "component"] = "component" if ratio == "component" else "joint"
    learners = [
        PPO(
            behavior(actions),
            settings({"normalize": True}, learning_rate=1e-3, **variant),
            reward_components=components,
            seed=3,
            fused=fused,
            ratio=kind,
        )
        for fused in (True, False)
    ]
    collector = Collector(actions, components)
    for _ in range(2):
        rollout = collector.collect(learners[0].snapshot()).take()
        results = [ppo.update(rollout, 0.25) for ppo in learners]
        for name, value in results[0].items():
            if name != "Train/Update Seconds":
                assert results[1][name] == pytest.approx(value, rel=1e-3, abs=1e-5), name
        assert_same_weights(learners[0], learners[1], 1e-4)


@pytest.mark.parametrize("actions", ALL_ACTIONS)
def test_fresh_data_has_ratio_one(actions: ActionSpec) -> None:
    """Of the first minibatch: what acted is what is learned from, masks and normaliser included."""
    options = settings({"normalize": True}, num_epoch=1, batch_size=205, buffer_size=205)
    ppo = PPO(behavior(actions), options, seed=1)
    for seed in range(3):
        result = ppo.update(Collector(actions, seed=seed).collect(ppo.snapshot(), 50).take(), 0.0)
        assert result["Train/KL"] < 1e-9
        assert result["Train/Clip Fraction"] == 0.0


def test_statistics_have_ml_agents_names_and_plausible_values() -> None:
    ppo = PPO(behavior(CONTINUOUS), settings(), seed=1)
    rollout = Collector(CONTINUOUS).collect(ppo.snapshot()).take()
    result = ppo.update(rollout, 0.5)
    assert set(result) == {
        "Losses/Policy Loss",
        "Losses/Value Loss",
        "Policy/Entropy",
        "Policy/Learning Rate",
        "Policy/Epsilon",
        "Policy/Beta",
        "Policy/Extrinsic Value Estimate",
        "Train/KL",
        "Train/Clip Fraction",
        "Train/Explained Variance",
        "Train/Gradient Norm",
        "Train/Minibatches",
        "Train/Update Seconds",
    }
    assert all(isinstance(value, float) for value in result.values())
    assert result["Train/Minibatches"] == 2 * (len(rollout) // 32)
    assert result["Policy/Learning Rate"] == pytest.approx(1.5e-4, rel=1e-6)
    assert result["Policy/Epsilon"] == pytest.approx(0.15)
    assert result["Policy/Beta"] == pytest.approx(0.0025, rel=0.01)
    assert result["Policy/Entropy"] == pytest.approx(1.419, abs=0.01)
    assert result["Train/KL"] > 0


def test_component_ratio_of_one_component_is_the_joint_ratio() -> None:
    first, second = (PPO(behavior(ActionSpec(1)), settings(), seed=1, ratio=ratio) for ratio in ("joint", "component"))
    rollout = Collector(ActionSpec(1)).collect(first.snapshot()).take()
    first.update(rollout, 0.0)
    second.update(rollout, 0.0)
    assert_same_weights(first, second, 0.0)


def test_target_kl_ends_an_update_early() -> None:
    options = settings(learning_rate=0.02, num_epoch=10, target_kl=0.01)
    ppo = PPO(behavior(CONTINUOUS), options, seed=1)
    rollout = Collector(CONTINUOUS).collect(ppo.snapshot()).take()
    result = ppo.update(rollout, 0.0)
    assert 0 < result["Train/Minibatches"] < 10 * (len(rollout) // 32)
    assert result["Train/KL"] > 0.01


def test_strength_scales_the_reward() -> None:
    plain, strong = (settings(gamma=0.0) for _ in range(2))
    signal = strong.reward_signals["extrinsic"].model_copy(update={"strength": 3.0})
    strong = strong.model_copy(update={"reward_signals": {"extrinsic": signal}})
    first, second = PPO(behavior(CONTINUOUS), plain, seed=1), PPO(behavior(CONTINUOUS), strong, seed=1)
    memory = Collector(CONTINUOUS).collect(first.snapshot())
    memory_of_three = Collector(CONTINUOUS).collect(first.snapshot())
    memory_of_three._log.reward *= 3.0
    first.settings, second.settings = plain, strong
    second.update(memory.take(), 0.0)
    first.update(memory_of_three.take(), 0.0)
    assert_same_weights(first, second, 1e-6)


def test_policies_are_independent_copies_with_versions() -> None:
    ppo = PPO(behavior(HYBRID), settings({"normalize": True}), seed=1)
    first = ppo.snapshot()
    kept = [array.copy() for array in first.weights.arrays()]
    ppo.update(Collector(HYBRID).collect(first).take(), 0.0)
    second = ppo.snapshot()
    assert (first.version, second.version) == (0, 1)
    for before, now in zip(kept, first.weights.arrays(), strict=True):
        np.testing.assert_array_equal(before, now)
    assert not np.array_equal(first.weights.action_weight, second.weights.action_weight)


@pytest.mark.parametrize("fused", [True, False])
def test_publishing_shows_the_way_and_changes_nothing(fused: bool) -> None:
    first, second = (PPO(behavior(HYBRID), settings(), seed=1, fused=fused) for _ in range(2))
    rollout = Collector(HYBRID).collect(first.snapshot()).take()
    start = first.snapshot()
    published: list[Policy] = []
    plain = first.update(rollout, 0.0)
    result = second.update(rollout, 0.0, publish=published.append)
    assert_same_weights(first, second, 0.0)
    del plain["Train/Update Seconds"], result["Train/Update Seconds"]
    assert plain == result
    minibatches = int(result["Train/Minibatches"]) // 2
    assert len(published) == 2 * len(range(0, minibatches, -(-minibatches // 4)))
    assert [policy.version for policy in published] == [0] * len(published)
    way = [start, *published]
    for before, after in itertools.pairwise(way):
        assert not np.array_equal(before.weights.action_weight, after.weights.action_weight)
    np.testing.assert_array_equal(published[-1].weights.action_weight, second.snapshot().weights.action_weight)


def test_broken_weights_are_never_published() -> None:
    ppo = PPO(behavior(CONTINUOUS), settings(), seed=1)
    memory = Collector(CONTINUOUS).collect(ppo.snapshot())
    memory._log.reward[20] = 1e30
    published: list[Policy] = []
    with pytest.raises(NonFiniteError):
        ppo.update(memory.take(), 0.0, publish=published.append)
    for policy in published:
        assert all(np.isfinite(array).all() for array in policy.weights.arrays())


@pytest.mark.parametrize("fused", [True, False])
def test_resume_is_exact_to_the_bit(fused: bool) -> None:
    options = settings({"normalize": True})
    straight = PPO(behavior(HYBRID), options, seed=1, fused=fused)
    collector = Collector(HYBRID)
    rollouts = [collector.collect(straight.snapshot()).take() for _ in range(3)]
    straight.update(rollouts[0], 0.0)
    tensors, metadata = straight.state_dict()
    metadata = json.loads(json.dumps(metadata))
    resumed = PPO(behavior(HYBRID), options, seed=99, fused=fused)
    resumed.load_state_dict({name: tensor.numpy().copy() for name, tensor in tensors.items()}, metadata)
    assert resumed.version == 1
    for number, rollout in enumerate(rollouts[1:], start=1):
        straight.update(rollout, number / 3)
        resumed.update(rollout, number / 3)
    for name, tensor in straight.state_dict()[0].items():
        assert torch.equal(tensor, resumed.state_dict()[0][name]), name
    assert straight.state_dict()[1] == resumed.state_dict()[1]


def test_saved_state_does_not_move_with_the_learner() -> None:
    ppo = PPO(behavior(CONTINUOUS), settings({"normalize": True}), seed=1)
    saved = ppo.state_dict()[0]
    kept = {name: tensor.clone() for name, tensor in saved.items()}
    ppo.update(Collector(CONTINUOUS).collect(ppo.snapshot()).take(), 0.0)
    for name, tensor in saved.items():
        assert torch.equal(tensor, kept[name]), name


def test_same_seed_same_learner_other_seed_another() -> None:
    first, second, third = (PPO(behavior(CONTINUOUS), settings(), seed=seed) for seed in (1, 1, 2))
    assert_same_weights(first, second, 0.0)
    assert not torch.equal(weights_of(first)["model.action.weight"], weights_of(third)["model.action.weight"])


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("place", ["reward", "observation", "log-probability", "action"])
def test_bad_numbers_in_a_rollout_are_named_and_change_nothing(place: str, fused: bool) -> None:
    ppo = PPO(behavior(CONTINUOUS), settings({"normalize": True}), seed=1, fused=fused)
    collector = Collector(CONTINUOUS)
    ppo.update(collector.collect(ppo.snapshot()).take(), 0.0)
    before, facts = ppo.state_dict()
    memory = collector.collect(ppo.snapshot())
    log = memory._log
    array = {"reward": log.reward, "observation": log.obs[1], "log-probability": log.log_prob, "action": log.continuous}
    array[place][20] = np.nan
    with pytest.raises(NonFiniteError, match=rf"'Walker\?team=0': {place}.*NaN or infinite in 1 of"):
        ppo.update(memory.take(), 0.0)
    _assert_state(ppo, before, facts)


@pytest.mark.parametrize("fused", [True, False])
def test_gradient_that_overflows_is_rolled_back(fused: bool) -> None:
    options = settings(learning_rate=1e-3)
    ppo = PPO(behavior(CONTINUOUS), options, seed=1, fused=fused)
    collector = Collector(CONTINUOUS)
    ppo.update(collector.collect(ppo.snapshot()).take(), 0.0)
    before, facts = ppo.state_dict()
    memory = collector.collect(ppo.snapshot())
    # Finite, but its square is not: the value loss overflows in float32.
    memory._log.reward[20] = 1e30
    with pytest.raises(NonFiniteError, match="update 2"):
        ppo.update(memory.take(), 0.0)
    _assert_state(ppo, before, facts)
    ppo.update(collector.collect(ppo.snapshot()).take(), 0.0)
    assert ppo.version == 2


def _assert_state(ppo: PPO, tensors: dict[str, torch.Tensor], facts: dict[str, Any]) -> None:
    now, facts_now = ppo.state_dict()
    for name, tensor in tensors.items():
        assert torch.equal(tensor, now[name]), name
    assert facts == facts_now


def test_learner_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="reward_components must be 1 or 4"):
        PPO(behavior(HYBRID), settings(), reward_components=2, seed=1)
    ppo = PPO(behavior(HYBRID), settings(), seed=1)
    with pytest.raises(ValueError, match="1 reward components"):
        ppo.update(Collector(HYBRID).memory.take(), 0.0)
    with pytest.raises(ValueError, match="1 reward components"):
        ppo.update(Collector(HYBRID, components=4).collect(ppo.snapshot()).take(), 0.0)
