from __future__ import annotations

import math

import torch

from tau_trainer.models.value_head import ValueHead


def test_streams_stand_side_by_side() -> None:
    head = ValueHead(30, {"extrinsic": 3, "curiosity": 1}, torch.Generator().manual_seed(0))
    with torch.no_grad():
        head.bias.copy_(torch.arange(4.0))
    x = torch.randn(6, 30)
    torch.testing.assert_close(head(x), x @ head.weight + torch.arange(4.0))
    assert head.streams == {"extrinsic": 3, "curiosity": 1}


def test_initial_weights_are_glorots() -> None:
    head = ValueHead(500, {"extrinsic": 100}, torch.Generator().manual_seed(0))
    bound = math.sqrt(6 / 600)
    assert 0.99 * bound < head.weight.max().item() <= bound
    assert -bound <= head.weight.min().item() < -0.99 * bound
    assert not head.bias.any()
