from __future__ import annotations

import math

import pytest
import torch

from tau_trainer.models.mlp import MLP


def test_initial_weights_have_ml_agents_spread() -> None:
    body = MLP(400, 300, 2, 2, torch.Generator().manual_seed(1))
    for layer, deviation in zip(body.layers, (1 / math.sqrt(400), 1 / math.sqrt(300)), strict=True):
        for tower in range(2):
            assert layer.weight[tower].std().item() == pytest.approx(deviation, rel=0.02)
        assert not layer.bias.any()
    assert not torch.equal(body.layers[0].weight[0], body.layers[0].weight[1])
