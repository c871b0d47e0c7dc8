from __future__ import annotations

import numpy as np
import pytest
import torch

from tau_trainer.export.reference import Reference
from tau_trainer.models.mlp import MLP
from tests.export.conftest import MakeNetwork
from tests.networks import observations


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


def test_it_stays_as_it_is_when_the_network_learns_on(network_of: MakeNetwork) -> None:
    network = network_of(continuous=2)
    obs, reference = observations(network.spec, 4), Reference(network)
    before = reference(obs).mu.value
    with torch.no_grad():
        network.action.bias.add_(1.0)
    np.testing.assert_array_equal(reference(obs).mu.value, before)
    assert network.action.weight.dtype == torch.float32
