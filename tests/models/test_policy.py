from __future__ import annotations

import concurrent.futures
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.errors import NonFiniteError
from tau_trainer.models import ActorCritic, NormalizerState, Policy, PolicyWeights, to_env
from tau_trainer.models.distributions import evaluate_actions
from tau_trainer.models.masks import effective_mask
from tau_trainer.models.policy import NUMPY_LIMIT
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec

SENSORS = (ObservationSpec("vector", (5,)), ObservationSpec("grid", (2, 2)))


def make_policy(actions: ActionSpec, *, layers: int = 2, normalize: bool = True, units: int = 16) -> Policy:
    network = ActorCritic(observation_size=9, actions=actions, hidden_units=units, num_layers=layers)
    flat = network.layout.zeros()
    network.initialize(flat, torch.Generator().manual_seed(4))
    own = {name: view.numpy().copy() for name, view in network.layout.views(flat).items()}
    rng = np.random.default_rng(5)
    state = NormalizerState(rng.normal(size=9).astype(np.float32), rng.uniform(0.5, 2.0, size=9).astype(np.float32))
    weights = PolicyWeights(
        normalizer=state if normalize else None,
        body=tuple((own[f"body.{layer}.weight"][0], own[f"body.{layer}.bias"][0, 0]) for layer in range(layers)),
        action_weight=own["action.weight"] * np.float32(5),
        action_bias=own["action.bias"] + np.float32(0.1),
        log_sigma=own["action.log_sigma"] - np.float32(0.7),
    )
    return Policy(BehaviorSpec("Agent?team=0", SENSORS, actions), weights, version=3)


def observations(rows: int, seed: int = 0) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    return tuple((rng.normal(size=(rows, *sensor.shape)) * 3).astype(np.float32) for sensor in SENSORS)


def reference_outputs(policy: Policy, obs: tuple[Any, ...]) -> Any:
    x = np.concatenate([values.reshape(len(values), -1) for values in obs], axis=1).astype(np.float64)
    if policy.weights.normalizer is not None:
        x = np.clip((x - policy.weights.normalizer.mean) / policy.weights.normalizer.std, -5, 5)
    for weight, bias in policy.weights.body:
        z = x @ weight.astype(np.float64) + bias
        x = z / (1 + np.exp(-z))
    return x @ policy.weights.action_weight + policy.weights.action_bias


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("layers", [0, 1, 2, 3])
@pytest.mark.parametrize("rows", [1, 12, 2000])
def test_outputs_equal_float64(rows: int, layers: int, normalize: bool) -> None:
    policy, obs = make_policy(ActionSpec(2, (3,)), layers=layers, normalize=normalize), observations(rows)
    np.testing.assert_allclose(policy.outputs(obs), reference_outputs(policy, obs), rtol=2e-4, atol=2e-5)


def test_nobody_asks() -> None:
    result = make_policy(ActionSpec(2, (3,))).act(observations(0), None, np.random.default_rng(0))
    assert (result.continuous.shape, result.discrete.shape, result.log_prob.shape) == ((0, 2), (0, 1), (0, 3))


def test_numpy_and_torch_agree() -> None:
    policy = make_policy(ActionSpec(3), units=128)
    border = NUMPY_LIMIT // (128 * 128)
    obs = observations(4 * border)
    large = policy.outputs(obs)
    small = [policy.outputs(tuple(values[row : row + 1] for values in obs)) for row in range(4 * border)]
    np.testing.assert_allclose(np.concatenate(small), large, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("actions", [ActionSpec(2), ActionSpec(0, (3, 2)), ActionSpec(2, (3, 2))])
@given(seed=st.integers(0, 2**31), rows=st.integers(1, 20), deterministic=st.booleans(), masked=st.booleans())
def test_log_prob_equals_the_learners(
    actions: ActionSpec, seed: int, rows: int, deterministic: bool, masked: bool
) -> None:
    policy, obs, rng = make_policy(actions), observations(rows, seed), np.random.default_rng(seed)
    mask = rng.random((rows, actions.mask_size)) < 0.6 if masked and actions.mask_size else None
    result = policy.act(obs, mask, rng, deterministic)
    if mask is not None:
        mask = effective_mask(mask, actions.discrete_branches)
        offset = 0
        for branch, size in enumerate(actions.discrete_branches):
            assert not mask[np.arange(rows), offset + result.discrete[:, branch]].any(), "a forbidden action"
            offset += size
    log_prob, _ = evaluate_actions(
        actions,
        torch.tensor(policy.outputs(obs)),
        torch.tensor(policy.weights.log_sigma),
        torch.tensor(result.continuous),
        torch.tensor(result.discrete, dtype=torch.int64),
        None if mask is None else torch.tensor(mask),
    )
    np.testing.assert_allclose(result.log_prob, log_prob.numpy(), rtol=1e-4, atol=1e-4)
    assert (result.continuous.dtype, result.discrete.dtype, result.log_prob.dtype) == (
        np.dtype(np.float32),
        np.dtype(np.int32),
        np.dtype(np.float32),
    )


def test_samples_follow_the_distribution() -> None:
    policy, rows = make_policy(ActionSpec(2, (3,))), 40_000
    obs = tuple(np.repeat(values, rows, axis=0) for values in observations(1))
    result = policy.act(obs, None, np.random.default_rng(1))
    outputs = reference_outputs(policy, observations(1))[0]
    np.testing.assert_allclose(result.continuous.mean(axis=0), outputs[:2], atol=0.01)
    np.testing.assert_allclose(result.continuous.std(axis=0), np.exp(policy.weights.log_sigma), rtol=0.02)
    probabilities = np.exp(outputs[2:]) / np.exp(outputs[2:]).sum()
    shares = np.bincount(result.discrete[:, 0], minlength=3) / rows
    np.testing.assert_allclose(shares, probabilities, atol=0.01)


def test_deterministic_takes_means_and_likeliest_and_no_random_numbers() -> None:
    policy, obs, rng = make_policy(ActionSpec(2, (3, 2))), observations(30), np.random.default_rng(2)
    before = rng.bit_generator.state
    result = policy.act(obs, None, rng, deterministic=True)
    outputs = policy.outputs(obs)
    np.testing.assert_array_equal(result.continuous, outputs[:, :2])
    np.testing.assert_array_equal(result.discrete, np.stack((outputs[:, 2:5].argmax(1), outputs[:, 5:].argmax(1)), 1))
    assert rng.bit_generator.state == before


def test_same_generator_state_gives_the_same_actions() -> None:
    policy, obs = make_policy(ActionSpec(2, (3,))), observations(50)
    first, second = (policy.act(obs, None, np.random.default_rng(9)) for _ in range(2))
    np.testing.assert_array_equal(first.continuous, second.continuous)
    np.testing.assert_array_equal(first.discrete, second.discrete)


def test_branch_with_everything_forbidden_acts_as_if_free() -> None:
    policy, obs = make_policy(ActionSpec(0, (3, 2))), observations(400)
    mask = np.zeros((400, 5), np.bool_)
    mask[:, :3] = True
    free = policy.act(obs, None, np.random.default_rng(0))
    result = policy.act(obs, mask, np.random.default_rng(0))
    np.testing.assert_array_equal(free.discrete, result.discrete)
    np.testing.assert_array_equal(free.log_prob, result.log_prob)


def test_environment_gets_clipped_and_scaled_actions() -> None:
    raw = np.array([[-9.0, -3.0, -1.5, 0.0, 1.5, 3.0, 9.0]], np.float32)
    assert to_env(raw).tolist() == [[-1.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.0]]
    assert raw[0, 0] == -9.0
    result = make_policy(ActionSpec(2)).act(observations(3), None, np.random.default_rng(0))
    np.testing.assert_array_equal(result.to_env().continuous, to_env(result.continuous))


@pytest.mark.parametrize("rows", [4, 20_000])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("bad", [(np.nan, 0.0), (np.inf, 0.0), (np.inf, -np.inf)])
def test_bad_observation_is_named(bad: tuple[float, float], normalize: bool, rows: int) -> None:
    policy, obs = make_policy(ActionSpec(2), normalize=normalize), observations(rows)
    obs[1][2, 0] = bad
    with pytest.raises(NonFiniteError, match=r"'Agent\?team=0': observation 'grid' of agent row 2 is NaN or infinite"):
        policy.act(obs, None, np.random.default_rng(0))


def test_bad_weights_are_named() -> None:
    policy = make_policy(ActionSpec(2))
    bias = policy.weights.action_bias.copy()
    bias[0] = np.nan
    broken = Policy(policy.spec, replace(policy.weights, action_bias=bias), version=8)
    with pytest.raises(NonFiniteError, match="policy version 8"):
        broken.act(observations(2), None, np.random.default_rng(0))


def test_weights_cannot_be_written() -> None:
    policy = make_policy(ActionSpec(2))
    with pytest.raises(ValueError, match="read-only"):
        policy.weights.action_bias[0] = 1.0


def test_many_threads_may_act_at_once() -> None:
    policy, obs = make_policy(ActionSpec(2)), observations(3000)
    expected = policy.act(obs, None, np.random.default_rng(0)).continuous
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: policy.act(obs, None, np.random.default_rng(0)).continuous, range(16)))
    for result in results:
        np.testing.assert_array_equal(result, expected)


def test_graph_describes_the_same_network() -> None:
    policy = make_policy(ActionSpec(2, (3, 2)))
    graph = policy.graph()
    assert graph.mu is not None
    assert graph.normalization is not None
    assert [head.weight.shape for head in graph.branches] == [(16, 3), (16, 2)]
    joined = np.concatenate([graph.mu.weight, *(head.weight for head in graph.branches)], axis=1)
    np.testing.assert_array_equal(joined, policy.weights.action_weight)
