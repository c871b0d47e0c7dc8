from __future__ import annotations

import math

import pytest
import torch

from tau_trainer.models.mlp import MLP
from tests.models.graphs import run_graph


def made(layers: int, towers: int = 2, units: int = 7) -> MLP:
    generator = torch.Generator().manual_seed(0)
    body = MLP(5, units, layers, towers, generator)
    with torch.no_grad():
        for layer in body.layers:
            layer.bias.normal_(generator=generator)
    return body


@pytest.mark.parametrize("layers", [0, 1, 3])
@pytest.mark.parametrize("tower", [0, 1])
def test_layers_are_linear_with_swish(layers: int, tower: int) -> None:
    body, x = made(layers), torch.randn(6, 5)
    expected = x.double()
    for layer in body.layers:
        z = expected @ layer.weight[tower].double() + layer.bias[tower, 0].double()
        expected = z * torch.sigmoid(z)
    torch.testing.assert_close(body(x, tower), expected.float())
    assert body.size == expected.shape[1]
    assert len(body) == layers


@pytest.mark.parametrize("tower", [0, 1])
def test_the_graph_says_the_same(tower: int) -> None:
    body, x = made(2), torch.randn(6, 5)
    (found,) = run_graph(lambda graph: [body.write(graph, "x", tower)], {"x": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), body(x, tower).detach())


def test_initial_weights_have_ml_agents_spread() -> None:
    body = MLP(400, 300, 2, 2, torch.Generator().manual_seed(1))
    for layer, deviation in zip(body.layers, (1 / math.sqrt(400), 1 / math.sqrt(300)), strict=True):
        for tower in range(2):
            assert layer.weight[tower].std().item() == pytest.approx(deviation, rel=0.02)
        assert not layer.bias.any()
    assert not torch.equal(body.layers[0].weight[0], body.layers[0].weight[1])
