from __future__ import annotations

import concurrent.futures
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.errors import NonFiniteError
from tau_trainer.models import MLPPolicy, ModulePolicy, Policy, make_policy, to_env
from tau_trainer.models.blocks import Past
from tau_trainer.models.distributions import effective_mask, evaluate_actions
from tau_trainer.models.policy import NUMPY_LIMIT
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


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("layers", [0, 1, 2, 3])
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


def test_numpy_and_torch_agree() -> None:
    policy = plain(ActionSpec(3), hidden_units=128)
    border = NUMPY_LIMIT // (128 * 128)
    obs = seen(4 * border)
    large = policy.outputs(obs)
    small = [policy.outputs(tuple(values[row : row + 1] for values in obs)) for row in range(4 * border)]
    np.testing.assert_allclose(np.concatenate(small), large, rtol=1e-4, atol=1e-5)


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


@pytest.mark.parametrize("actions", [ActionSpec(2), ActionSpec(0, (3, 2)), ActionSpec(2, (3, 2))])
@given(seed=st.integers(0, 2**31), rows=st.integers(1, 20), deterministic=st.booleans(), masked=st.booleans())
def test_log_prob_equals_the_learners(
    actions: ActionSpec, seed: int, rows: int, deterministic: bool, masked: bool
) -> None:
    policy, obs, rng = plain(actions), seen(rows, seed), np.random.default_rng(seed)
    mask = rng.random((rows, actions.mask_size)) < 0.6 if masked and actions.mask_size else None
    result = policy.act(obs, mask, rng, deterministic=deterministic)
    if mask is not None:
        mask = effective_mask(mask, actions.discrete_branches)
        offset = 0
        for branch, size in enumerate(actions.discrete_branches):
            assert not mask[np.arange(rows), offset + result.discrete[:, branch]].any(), "a forbidden action"
            offset += size
    log_prob, _ = evaluate_actions(
        actions,
        torch.tensor(policy.outputs(obs)),
        torch.tensor(policy.weights["action.log_sigma"]),
        torch.tensor(result.continuous),
        torch.tensor(result.discrete, dtype=torch.int64),
        None if mask is None else torch.tensor(mask),
    )
    np.testing.assert_allclose(result.extras["log_prob"], log_prob.numpy(), rtol=1e-4, atol=1e-4)
    dtypes = [values.dtype for values in (result.continuous, result.discrete, result.extras["log_prob"])]
    assert dtypes == [np.float32, np.int32, np.float32]


def test_samples_follow_the_distribution() -> None:
    policy, rows = plain(ActionSpec(2, (3,))), 40_000
    obs = tuple(np.repeat(values, rows, axis=0) for values in seen(1))
    result = policy.act(obs, None, np.random.default_rng(1))
    outputs, sigma = module_outputs(policy, seen(1))[0], np.exp(policy.weights["action.log_sigma"])
    np.testing.assert_allclose(result.continuous.mean(axis=0), outputs[:2], atol=0.03)
    np.testing.assert_allclose(result.continuous.std(axis=0), sigma, rtol=0.02)
    probabilities = np.exp(outputs[2:]) / np.exp(outputs[2:]).sum()
    shares = np.bincount(result.discrete[:, 0], minlength=3) / rows
    np.testing.assert_allclose(shares, probabilities, atol=0.01)


@pytest.mark.parametrize("kind", [MLPPolicy, ModulePolicy])
def test_a_deterministic_head_samples_nothing(kind: type[MLPPolicy] | type[ModulePolicy]) -> None:
    network, rng = make_network(behavior(ActionSpec(3)), deterministic=True), np.random.default_rng(1)
    policy, before = kind(network, policy_of(network).weights, 7), rng.bit_generator.state
    sampled, best = (policy.act(seen(9), None, rng, deterministic=one) for one in (False, True))
    assert module_outputs(policy, seen(9)).shape == (9, 3)
    assert "action.log_sigma" not in policy.weights
    np.testing.assert_array_equal(sampled.to_env().continuous, best.to_env().continuous)
    assert np.abs(best.continuous).max() <= 1.0
    assert rng.bit_generator.state == before


def test_squashed_samples_follow_the_distribution() -> None:
    network, rows = make_network(behavior(ActionSpec(3)), squashed=True), 40_000
    with torch.no_grad():
        network.action.weight.div_(10.0)
        network.action.bias[3:] = torch.tensor([-0.5, -40.0, 9.0])  # of which two are beyond the limits
        network.action.weight[:, 4:] = 0.0
    obs = tuple(np.repeat(values, rows, axis=0) for values in seen(1))
    raw = np.arctanh(policy_of(network).act(obs, None, np.random.default_rng(1)).continuous.astype(np.float64)[:, :2])
    outputs = module_outputs(policy_of(network), seen(1))[0]
    np.testing.assert_allclose(raw.mean(axis=0), outputs[:2], atol=0.02)
    np.testing.assert_allclose(raw[:, 0].std(), np.exp(outputs[3]), rtol=0.02)
    assert raw[:, 1].std() < 1e-6
    wide = policy_of(network).act(obs, None, np.random.default_rng(1)).continuous[:, 2]
    inside = np.mean(np.abs(wide) < np.tanh(1.0))  # two units of a Gaussian whose sigma is e squared
    assert inside == pytest.approx(2.0 / (math.exp(2.0) * math.sqrt(2.0 * math.pi)), rel=0.1)


def test_continuous_actions_with_levels() -> None:
    actions, rows = ActionSpec(2, (3,)), 40_000
    policy = policy_of(make_network(behavior(actions), action_levels=5))
    assert isinstance(policy, MLPPolicy)
    obs = tuple(np.repeat(values, rows, axis=0) for values in seen(1))
    mask = np.tile([False, True, False], (rows, 1))
    result = policy.act(obs, mask, np.random.default_rng(1))
    sent = result.to_env()
    assert (sent.continuous.shape, sent.discrete.shape) == ((rows, 2), (rows, 1))
    assert [values.dtype for values in (sent.continuous, sent.discrete)] == [np.float32, np.int32]
    assert np.unique(sent.continuous).tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]
    logits = module_outputs(policy, seen(1))[0].copy()
    logits[11] = -100.0
    for component, (begin, end) in enumerate([(0, 5), (5, 10), (10, 13)]):
        powers = np.exp(logits[begin:end])
        drawn = result.discrete[:, component]
        np.testing.assert_allclose(np.bincount(drawn, minlength=end - begin) / rows, powers / powers.sum(), atol=0.01)
        log_prob = np.log(powers / powers.sum())[drawn]
        np.testing.assert_allclose(result.extras["log_prob"][:, component], log_prob, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(sent.continuous, result.discrete[:, :2] * 0.5 - 1.0)
    np.testing.assert_array_equal(sent.discrete, result.discrete[:, 2:])
    part = result.part(slice(3, 6)).to_env()
    np.testing.assert_array_equal(part.continuous, sent.continuous[3:6])
    best = policy.act(seen(1), mask[:1], np.random.default_rng(0), deterministic=True).to_env()
    assert best.continuous.tolist() == [[logits[:5].argmax() * 0.5 - 1.0, logits[5:10].argmax() * 0.5 - 1.0]]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("rows", [12, 4000], ids=["numpy", "large"])
@pytest.mark.parametrize("kind", [MLPPolicy, ModulePolicy])
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


def test_branch_with_everything_forbidden_acts_as_if_free() -> None:
    policy, obs = plain(ActionSpec(0, (3, 2))), seen(400)
    mask = np.zeros((400, 5), np.bool_)
    mask[:, :3] = True
    free = policy.act(obs, None, np.random.default_rng(0))
    result = policy.act(obs, mask, np.random.default_rng(0))
    np.testing.assert_array_equal(free.discrete, result.discrete)
    np.testing.assert_array_equal(free.extras["log_prob"], result.extras["log_prob"])


def test_environment_gets_clipped_and_scaled_actions() -> None:
    raw = np.array([[-9.0, -3.0, -1.5, 0.0, 1.5, 3.0, 9.0]], np.float32)
    assert to_env(raw).tolist() == [[-1.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.0]]
    assert raw[0, 0] == -9.0
    result = plain(HYBRID).act(seen(3), None, np.random.default_rng(0))
    np.testing.assert_array_equal(result.to_env().continuous, to_env(result.continuous))
    assert result.to_env().discrete is result.discrete


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


def test_part_of_a_decision() -> None:
    whole = plain(HYBRID).act(seen(6), None, np.random.default_rng(0))
    part = whole.part(slice(2, 5))
    assert (len(part), part.version) == (3, whole.version)
    np.testing.assert_array_equal(part.continuous, whole.continuous[2:5])
    np.testing.assert_array_equal(part.discrete, whole.discrete[2:5])
    np.testing.assert_array_equal(part.extras["log_prob"], whole.extras["log_prob"][2:5])


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("rows", [4, 20_000])
@pytest.mark.parametrize("settings", [{"normalize": False}, {}, {"memory": MEMORY}])
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


def test_the_network_has_the_policys_weights() -> None:
    network = make_network(behavior(HYBRID))
    policy = policy_of(network)
    found = policy.network()
    assert found is not network
    for name, tensor in found.state_dict().items():
        np.testing.assert_array_equal(tensor.numpy(), policy.weights[name])
    again = make_policy(network, {name: values.copy() for name, values in policy.weights.items()}, 4)
    assert (again.version, again.spec) == (4, policy.spec)


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
