from __future__ import annotations

import numpy as np
import pytest
import torch

from tau_trainer.export.reference import Reference
from tau_trainer.models.blocks import Past
from tau_trainer.models.mlp import MLP
from tau_trainer.settings import MemorySettings
from tests.export.conftest import MakeNetwork
from tests.networks import IMAGE, LIST, observations


@torch.no_grad()
def test_by_hand(network_of: MakeNetwork) -> None:
    network = network_of(1, (2,), ((1,),), hidden_units=1, num_layers=1)
    numbers = {
        "body.0.weight": 2.0,
        "body.0.bias": 1.0,
        "action.weight": [[2.0, 1.0, -1.0]],
        "action.bias": [1.0, 0.0, 0.5],
        "normalizer.mean": 1.0,
        "normalizer.squares": 0.25,
        "normalizer.count": 1.0,
    }
    for name, value in numbers.items():
        network.state_dict()[name].copy_(torch.tensor(value))
    out = Reference(network)((np.array([[1.25], [100.0]], np.float32),), np.array([[True, False], [False, False]]))
    # (1.25 - 1) / 0.5 = 0.5 and (100 - 1) / 0.5 clipped to 5; 2x + 1 = 2 and 11; swish
    h = np.array([2 / (1 + np.exp(-2.0)), 11 / (1 + np.exp(-11.0))])
    np.testing.assert_allclose(out.mu.value[:, 0], 2 * h + 1, rtol=1e-12)
    np.testing.assert_allclose(out.continuous.value[:, 0], [1.0, 1.0])
    np.testing.assert_allclose(out.branches[0].value, [[-1e8, 0.5 - h[0]], [h[1], 0.5 - h[1]]], rtol=1e-12)
    assert out.branches[0].value.argmax(axis=1).tolist() == [1, 0]


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e5])
def test_float32_stays_within_the_bound(network_of: MakeNetwork, scale: float) -> None:
    """With sums in numpy's order instead of torch's."""
    for seed in range(5):
        network = network_of(3, sensors=((64,),), hidden_units=64, normalize=False, seed=seed)
        obs = observations(network.spec, 32, seed, scale)
        x = obs[0]
        assert isinstance(network.body, MLP)
        for layer in network.body.layers:
            x = x @ layer.weight[0].detach().numpy() + layer.bias[0].detach().numpy()
            x = x * (np.float32(0.5) * (1 + np.tanh(np.float32(0.5) * x)))
        single = x @ network.action.weight.detach().numpy() + network.action.bias.detach().numpy()
        expected = Reference(network)(obs).mu
        assert (np.abs(single - expected.value) <= expected.error).all()
        assert expected.error.max() < 1e-3 * scale  # tight enough to see a wrong weight


@pytest.mark.usefixtures("toys")
def test_any_network_with_its_state(network_of: MakeNetwork) -> None:
    network = network_of(2, (3,), (IMAGE, (4,), LIST), memory=MemorySettings(memory_size=6))
    obs, rng = observations(network.spec, 7, scale=1.0), np.random.default_rng(0)
    state = rng.uniform(-1, 1, (7, 6)).astype(np.float32)
    out = Reference(network)(obs, None, state)
    with torch.no_grad():
        answer = network(network.prepare(obs), Past(torch.from_numpy(state)[:, None].repeat(1, 2, 1)))
    for value, found in ((out.mu, answer.outputs[:, :2]), (out.branches[0], answer.outputs[:, 2:])):
        assert (np.abs(value.value - found.numpy()) <= value.error).all()
    assert (np.abs(out.state.value - answer.state[:, 0].numpy()) <= out.state.error).all()
    beginning = Reference(network)(obs)
    np.testing.assert_array_equal(beginning.mu.value, Reference(network)(obs, None, np.zeros_like(state)).mu.value)
    assert np.abs(beginning.mu.value - out.mu.value).max() > 1e-3


def test_it_stays_as_it_is_when_the_network_learns_on(network_of: MakeNetwork) -> None:
    network = network_of(continuous=2)
    obs, reference = observations(network.spec, 4), Reference(network)
    before = reference(obs).mu.value
    with torch.no_grad():
        network.action.bias.add_(1.0)
    np.testing.assert_array_equal(reference(obs).mu.value, before)
    assert network.action.weight.dtype == torch.float32


def test_without_discrete_actions_there_is_no_choice(network_of: MakeNetwork) -> None:
    out = Reference(network_of(continuous=2))((np.zeros((4, 5), np.float32),))
    assert out.branches == ()
