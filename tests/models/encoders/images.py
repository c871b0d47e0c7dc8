"""What is true of every encoder of images, to be tried on each."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import torch

from tau_trainer.models.blocks import drawn_from, make_encoder
from tau_trainer.models.encoders.visual import VisualEncoder
from tau_trainer.settings import NetworkSettings
from tau_trainer.specs import ObservationSpec
from tests.models.graphs import run_graph

UNITS = 24


def made(name: str, shape: tuple[int, ...], *, seed: int = 0, dtype: Any = np.uint8) -> VisualEncoder:
    settings = NetworkSettings(vis_encode_type=name, hidden_units=UNITS)
    with drawn_from(torch.Generator().manual_seed(seed)):
        encoder = make_encoder(ObservationSpec("camera", shape, dtype=dtype), settings)
    assert isinstance(encoder, VisualEncoder)
    assert encoder.size == UNITS
    return encoder


def images(shape: tuple[int, ...], rows: int = 5) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (rows, *shape), np.uint8))


def check(encoder: VisualEncoder, shape: tuple[int, ...]) -> torch.Tensor:
    """Tries it on bytes; returns its features. Bytes and scaled floats are one, and none of them is written to; the
    graph says the same; float64 too; gradients reach every parameter."""
    x = images(shape)
    scaled = x / 255.0
    kept = x.clone(), scaled.clone()
    features: torch.Tensor = encoder(x)
    assert features.shape == (len(x), UNITS)
    torch.testing.assert_close(encoder(scaled), features)
    with torch.no_grad():
        torch.testing.assert_close(encoder(x), features)
    assert torch.equal(x, kept[0])
    assert torch.equal(scaled, kept[1])
    exact = copy.deepcopy(encoder).double()(x)
    assert exact.dtype == torch.float64
    torch.testing.assert_close(exact.float(), features, rtol=1e-4, atol=1e-5)
    (found,) = run_graph(lambda graph: [encoder.write(graph, "obs_3")], {"obs_3": scaled.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), features.detach(), rtol=1e-4, atol=1e-5)
    features.square().sum().backward()  # type: ignore[no-untyped-call]
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name
    return features.detach()


def check_initial(name: str, shape: tuple[int, ...]) -> None:
    """ML-Agents' spread of the last layer, and torch's own of what is before; all from the generator."""
    encoder = made(name, shape)
    inputs = encoder.dense.in_features
    assert abs(encoder.dense.weight.std().item() * math.sqrt(inputs) / 1.41 - 1.0) < 0.05
    assert not encoder.dense.bias.any()
    for layer in encoder.modules():
        if isinstance(layer, torch.nn.Conv2d):
            bound = 1.0 / math.sqrt(layer.in_channels * layer.kernel_size[0] * layer.kernel_size[1])
            assert 0.9 * bound < layer.weight.abs().max().item() <= bound
    same, other = made(name, shape), made(name, shape, seed=1)
    others = dict(other.named_parameters())
    for key, value in encoder.named_parameters():
        assert torch.equal(value, same.state_dict()[key])
        assert not value.any() or not torch.equal(value, others[key])
