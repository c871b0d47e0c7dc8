from __future__ import annotations

import concurrent.futures
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.errors import NonFiniteError
from tau_trainer.models import MLPPolicy, ModulePolicy, Policy
from tau_trainer.models.blocks import Past
from tau_trainer.models.distributions import effective_mask, evaluate_actions
from tau_trainer.settings import MemorySettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.networks import IMAGE, make_network, observations, policy_of

SENSORS = (ObservationSpec("vector", (5,)), ObservationSpec("rays", (4,)))
MEMORY = MemorySettings(memory_size=6)
HYBRID = ActionSpec(2, (3, 2))


def behavior(actions: ActionSpec, *more: ObservationSpec) -> BehaviorSpec:
    return BehaviorSpec("Agent?team=0", (*SENSORS, *more), actions)


def plain(actions: ActionSpec, **settings: Any) -> MLPPolicy:
    policy = policy_of(make_network(behavior(actions), **settings))
    assert isinstance(policy, MLPPolicy)
    return policy


def seen(rows: int, seed: int = 0) -> tuple[Any, ...]:
    return observations(behavior(HYBRID), rows, seed)


def module_outputs(policy: Policy, obs: tuple[Any, ...]) -> Any:
    """The module's own answer, in float64."""
    network = policy.network().double()
    return network.outputs(network.prepare(obs)).numpy()


@pytest.mark.parametrize(
    ("layers", "normalize", "shared"), [(0, True, False), (1, False, True), (2, True, True), (3, False, False)]
)
@pytest.mark.parametrize("rows", [1, 12, 2000])
def test_fast_path_equals_the_module(rows: int, layers: int, normalize: bool, shared: bool) -> None:
    policy = plain(ActionSpec(2, (3,)), num_layers=layers, normalize=normalize, shared_critic=shared)
    np.testing.assert_allclose(policy.outputs(seen(rows)), module_outputs(policy, seen(rows)), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("sensors", [1, 2])
def test_fast_path_leaves_observations_as_they_are(sensors: int) -> None:
    spec = BehaviorSpec("Agent", SENSORS[:sensors], HYBRID)
    obs = observations(spec, 4)
    kept = [values.copy() for values in obs]
    for normalize in (False, True):
        policy_of(make_network(spec, normalize=normalize)).act(obs, None, np.random.default_rng(0))
    for values, before in zip(obs, kept, strict=True):
        np.testing.assert_array_equal(values, before)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("actions", [ActionSpec(3), HYBRID])
@pytest.mark.parametrize("squashed", [False, True])
def test_both_kinds_of_policy_decide_the_same(squashed: bool, actions: ActionSpec, deterministic: bool) -> None:
    network = make_network(behavior(actions), squashed=squashed)
    weights = policy_of(network).weights
    mask = np.random.default_rng(3).random((9, 5)) < 0.4 if actions.mask_size else None
    first, second = (
        kind(network, dict(weights), 7).act(seen(9), mask, np.random.default_rng(5), deterministic=deterministic)
        for kind in (MLPPolicy, ModulePolicy)
    )
    np.testing.assert_allclose(first.continuous, second.continuous, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(first.discrete, second.discrete)
    assert first.version == second.version == 7
    assert set(first.extras) == set(second.extras) == (set() if squashed else {"log_prob"})
    for name, values in first.extras.items():
        np.testing.assert_allclose(values, second.extras[name], rtol=1e-4, atol=1e-4)
    assert not first.state
    assert not second.state
    if squashed:
        np.testing.assert_array_equal(first.to_env().continuous, first.continuous)
        np.testing.assert_array_equal(first.part(slice(2, 4)).to_env().continuous, first.continuous[2:4])


def test_nobody_asks() -> None:
    result = plain(ActionSpec(2, (3,))).act(seen(0), None, np.random.default_rng(0))
    assert (result.continuous.shape, result.discrete.shape) == ((0, 2), (0, 1))
    assert result.extras["log_prob"].shape == (0, 3)
    assert len(result) == 0


@pytest.mark.parametrize(
    ("actions", "levels"), [(ActionSpec(2), None), (ActionSpec(0, (3, 2)), None), (HYBRID, None), (HYBRID, 4)]
)
@given(seed=st.integers(0, 2**31), rows=st.integers(1, 20), deterministic=st.booleans(), masked=st.booleans())
def test_log_prob_equals_the_learners(
    actions: ActionSpec, levels: int | None, seed: int, rows: int, deterministic: bool, masked: bool
) -> None:
    policy, obs, rng = plain(actions, action_levels=levels), seen(rows, seed), np.random.default_rng(seed)
    mask = rng.random((rows, actions.mask_size)) < 0.6 if masked and actions.mask_size else None
    result = policy.act(obs, mask, rng, deterministic=deterministic)
    if levels:
        sent = result.to_env()
        np.testing.assert_allclose(sent.continuous, result.discrete[:, :2] * (2.0 / (levels - 1)) - 1.0, atol=1e-6)
        np.testing.assert_array_equal(sent.discrete, result.discrete[:, 2:])
        actions = ActionSpec(0, (levels, levels, *actions.discrete_branches))
        mask = mask if mask is None else np.concatenate((np.zeros((rows, 2 * levels), np.bool_), mask), axis=1)
    if mask is not None:
        mask = effective_mask(mask, actions.discrete_branches)
        offset = 0
        for branch, size in enumerate(actions.discrete_branches):
            assert not mask[np.arange(rows), offset + result.discrete[:, branch]].any(), "a forbidden action"
            offset += size
    log_prob, _ = evaluate_actions(
        actions,
        torch.tensor(policy.outputs(obs)),
        torch.tensor(policy.weights.get("action.log_sigma", np.zeros(0, np.float32))),
        torch.tensor(result.continuous),
        torch.tensor(result.discrete, dtype=torch.int64),
        None if mask is None else torch.tensor(mask),
    )
    np.testing.assert_allclose(result.extras["log_prob"], log_prob.numpy(), rtol=1e-4, atol=1e-4)
    dtypes = [values.dtype for values in (result.continuous, result.discrete, result.extras["log_prob"])]
    assert dtypes == [np.float32, np.int32, np.float32]


@pytest.mark.parametrize(
    ("kind", "rows", "masked"), [(MLPPolicy, 12, True), (MLPPolicy, 4000, False), (ModulePolicy, 12, True)]
)
@pytest.mark.parametrize("head", ["gaussian", "squashed", "deterministic", "levels"])
def test_deterministic_takes_means_and_likeliest_and_no_random_numbers(
    head: str, kind: type[MLPPolicy] | type[ModulePolicy], rows: int, masked: bool
) -> None:
    """Whatever computes the forward pass, and whatever a continuous action is drawn from."""
    network = make_network(
        behavior(HYBRID),
        hidden_units=128,
        squashed=head == "squashed",
        deterministic=head == "deterministic",
        action_levels=5 if head == "levels" else None,
    )
    policy, obs, rng = kind(network, policy_of(network).weights, 7), seen(rows), np.random.default_rng(2)
    mask = np.tile([False, True, False, True, False], (rows, 1)) if masked else None
    before = rng.bit_generator.state
    sent = policy.act(obs, mask, rng, deterministic=True).to_env()
    outputs = module_outputs(policy, obs)
    if head == "levels":
        mean = np.stack((outputs[:, :5].argmax(axis=1), outputs[:, 5:10].argmax(axis=1)), axis=1) * 0.5 - 1.0
    else:
        mean = outputs[:, :2].clip(-3.0, 3.0) / 3.0 if head == "gaussian" else np.tanh(outputs[:, :2])
    np.testing.assert_allclose(sent.continuous, mean, rtol=1e-4, atol=1e-5)
    logits = outputs[:, -5:]
    if mask is not None:
        logits = np.where(mask, -np.inf, logits)
    first, second = logits[:, :3], logits[:, 3:]
    clear = np.sort(first)[:, -1] - np.sort(first)[:, -2] > 1e-4  # float32 may take the other of two that are as good
    np.testing.assert_array_equal(sent.discrete[clear, 0], first.argmax(axis=1)[clear])
    clear = np.abs(second[:, 0] - second[:, 1]) > 1e-4
    np.testing.assert_array_equal(sent.discrete[clear, 1], second.argmax(axis=1)[clear])
    assert clear.mean() > 0.9
    assert rng.bit_generator.state == before
    if head == "deterministic":
        assert "action.log_sigma" not in policy.weights
        np.testing.assert_array_equal(policy.act(obs, mask, rng).to_env().continuous, sent.continuous)


@pytest.mark.usefixtures("toys")
def test_state_goes_in_and_comes_out() -> None:
    spec = behavior(HYBRID, IMAGE)
    policy, obs, rng = policy_of(make_network(spec, memory=MEMORY)), observations(spec, 7), np.random.default_rng(0)
    (column,) = policy.state_columns
    assert isinstance(policy, ModulePolicy)
    assert (column.name, column.shape) == ("memory", (2, 6))
    before = rng.uniform(-1, 1, (7, 2, 6)).astype(np.float32)
    result = policy.act(obs, None, rng, state={"memory": before}, deterministic=True)
    network = policy.network()
    answer = network(network.prepare(obs), Past(torch.from_numpy(before)))
    np.testing.assert_array_equal(result.continuous, answer.outputs[:, :2].numpy())
    np.testing.assert_array_equal(result.state["memory"], answer.state.numpy())
    np.testing.assert_array_equal(result.extras["memory"], before)
    part = result.part(slice(2, 5))
    np.testing.assert_array_equal(part.state["memory"], result.state["memory"][2:5])
    np.testing.assert_array_equal(part.extras["memory"], before[2:5])


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("settings", "rows"),
    [({"normalize": False}, 4), ({"normalize": False}, 20_000), ({}, 4), ({}, 20_000), ({"memory": MEMORY}, 4)],
)
@pytest.mark.parametrize("bad", [(np.nan, 0.0), (np.inf, 0.0), (np.inf, -np.inf)])
def test_bad_observation_is_named(bad: tuple[float, float], settings: dict[str, Any], rows: int) -> None:
    policy, obs = policy_of(make_network(behavior(ActionSpec(2)), **settings)), seen(rows)
    obs[1][2, :2] = bad
    state = {column.name: column.empty(rows) for column in policy.state_columns}
    with pytest.raises(NonFiniteError, match=r"'Agent\?team=0': observation 'rays' of agent row 2 is NaN or infinite"):
        policy.act(obs, None, np.random.default_rng(0), state=state)


def test_bad_weights_are_named() -> None:
    network = make_network(behavior(ActionSpec(2)))
    with torch.no_grad():
        network.action.bias[0] = torch.nan
    with pytest.raises(NonFiniteError, match="policy version 8"):
        policy_of(network, version=8).act(seen(2), None, np.random.default_rng(0))


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("settings", [{}, {"memory": MEMORY}])
def test_a_policy_stays_as_it_is_whatever_becomes_of_the_network(settings: dict[str, Any]) -> None:
    network = make_network(behavior(HYBRID), **settings)
    policy = policy_of(network)
    state = {column.name: column.empty(3) for column in policy.state_columns}
    before = policy.act(seen(3), None, np.random.default_rng(0), state=state, deterministic=True)
    with torch.no_grad():
        for tensor in network.state_dict().values():
            tensor.fill_(3)
    after = policy.act(seen(3), None, np.random.default_rng(0), state=state, deterministic=True)
    np.testing.assert_array_equal(before.continuous, after.continuous)
    for values in policy.weights.values():
        with pytest.raises(ValueError, match="read-only"):
            values[...] = 1


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("settings", [{}, {"memory": MEMORY}])
def test_many_threads_may_act_at_once(settings: dict[str, Any]) -> None:
    policy, obs = policy_of(make_network(behavior(ActionSpec(2)), **settings)), seen(3000)
    state = {column.name: column.empty(3000) for column in policy.state_columns}

    def act(_: int = 0) -> Any:
        return policy.act(obs, None, np.random.default_rng(0), state=state).continuous

    expected = act()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(act, range(16)))
    for result in results:
        np.testing.assert_array_equal(result, expected)
