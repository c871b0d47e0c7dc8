from __future__ import annotations

import pytest
import torch

from tests.models.encoders.images import check, images, made

SHAPE = 3, 41, 50
ORIGINAL = {"simple": [4, 2], "nature_cnn": [4, 2, 1], "match3": [1, 1]}
"""Strides of ML-Agents' encoders."""
KERNELS = {
    "simple": [(16, 3, 8, 8), (32, 16, 4, 4)],
    "nature_cnn": [(32, 3, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3)],
    "match3": [(35, 3, 3, 3), (144, 35, 3, 3)],
}


@pytest.mark.parametrize("name", ORIGINAL)
def test_layers_are_those_of_ml_agents(name: str) -> None:
    encoder = made(name, SHAPE)
    features = check(encoder, SHAPE)
    x = images(SHAPE).double() / 255 - 0.5
    convolutions = [layer for layer in encoder.modules() if isinstance(layer, torch.nn.Conv2d)]
    assert [tuple(layer.weight.shape) for layer in convolutions] == KERNELS[name]
    for layer, stride in zip(convolutions, ORIGINAL[name], strict=True):
        assert layer.bias is not None
        x = torch.nn.functional.conv2d(x, layer.weight.double(), layer.bias.double(), stride)
        x = torch.where(x > 0, x, 0.01 * x)
    x = x.flatten(1) @ encoder.dense.weight.double().T + encoder.dense.bias.double()
    torch.testing.assert_close(torch.where(x > 0, x, 0.01 * x).float(), features, rtol=1e-4, atol=1e-5)
