"""Hidden layers one by one, in hironaka's notation: widths with ReLU, BatchNorm, residual blocks.

A number is a linear layer, ``b`` a BatchNorm of the layer before it, and ReLU comes after both of them; ``rN`` is
``relu(skip(x) + second(relu(first(x))))`` of width N (He et al. 2016), where ``skip`` is a linear layer if the width
changes, and ReLU comes after its BatchNorm too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from tau_trainer.models.mlp import Noise, kaiming_normal_
from tau_trainer.settings.networks import expanded

if TYPE_CHECKING:
    from tau_trainer.models.graph import GraphWriter

_MOMENTUM, _EPSILON = 0.1, 1e-5
_RELU_GAIN = 2.0**0.5


class BatchNorm(torch.nn.Module):
    """Mean 0 and variance 1 for every feature, then a learned scale and shift (Ioffe and Szegedy 2015).

    While gradients are recorded, mean and variance are the batch's, and running ones follow them by a tenth, with
    torch's numbers; acting, targets and model files use the running ones.

    Args:
        size: number of features.
    """

    mean: torch.Tensor
    """float32 [size], running."""
    variance: torch.Tensor
    """float32 [size], running; unbiased."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(size))
        self.shift = torch.nn.Parameter(torch.zeros(size))
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("variance", torch.ones(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, size] of inputs [n, size]."""
        learning = self.training and torch.is_grad_enabled() and len(x) > 1  # one row has no variance
        return torch.nn.functional.batch_norm(
            x, self.mean, self.variance, self.scale, self.shift, learning, _MOMENTUM, _EPSILON
        )

    def write(self, graph: GraphWriter, x: str, output: str) -> str:
        """The same as nodes, with the running numbers."""
        # (x - mean) / sqrt(var + eps) as one factor and one shift.
        factor = self.scale.detach() / torch.sqrt(self.variance + _EPSILON)
        rest = self.shift.detach() - self.mean * factor
        constants = (("scale", factor), ("shift", rest))
        scale, shift = (graph.constant(f"{output}.{name}", row.cpu().numpy()[None]) for name, row in constants)
        return graph.add("Add", [graph.add("Mul", [x, scale], f"{output}.scaled"), shift], output)


class Dense(torch.nn.Linear):
    """A linear layer with He et al.'s (2015) weights for ReLU, and no bias at first."""

    def __init__(self, inputs: int, units: int, generator: torch.Generator) -> None:
        torch.nn.Module.__init__(self)
        self.in_features, self.out_features = inputs, units
        weight = torch.empty(inputs, units)
        kaiming_normal_(weight, generator, _RELU_GAIN)
        self.weight = torch.nn.Parameter(weight.t().contiguous())
        self.bias = torch.nn.Parameter(torch.zeros(units))

    def write(self, graph: GraphWriter, x: str, output: str) -> str:
        """The same as a node."""
        return graph.dense(self, x, output)


class ResidualLayers(torch.nn.Module):
    """``skip(x) + second(relu(first(x)))``; the second layer starts at zero, so that the block starts as ``skip``."""

    def __init__(self, inputs: int, units: int, generator: torch.Generator) -> None:
        super().__init__()
        self.skip = Dense(inputs, units, generator) if inputs != units else None
        self.first, self.second = Dense(inputs, units, generator), Dense(units, units, generator)
        with torch.no_grad():
            self.second.weight.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, units] of inputs [n, inputs]."""
        # Zero at first: the block returns the output of `skip`.
        changed: torch.Tensor = self.second(torch.relu(self.first(x)))
        return changed + (x if self.skip is None else self.skip(x))

    def write(self, graph: GraphWriter, x: str, output: str) -> str:
        """The same as nodes."""
        first = graph.add("Relu", [self.first.write(graph, x, f"{output}.first")], f"{output}.first.relu")
        second = self.second.write(graph, first, f"{output}.second")
        skipped = x if self.skip is None else self.skip.write(graph, x, f"{output}.skip")
        return graph.add("Add", [second, skipped], output)


class NetArch(torch.nn.ModuleList):
    """The hidden layers of one or more towers, with separate weights.

    Args:
        inputs: number of input features.
        net_arch: argument of :func:`expanded`.
        towers: number of towers.
        generator: source of the initial weights.
    """

    def __init__(self, inputs: int, net_arch: Sequence[object], towers: int, generator: torch.Generator) -> None:
        parts = expanded(net_arch)
        super().__init__(_layers(inputs, parts, generator) for _ in range(towers))
        widths = [int(str(part).removeprefix("r")) for part in parts if part != "b"]
        self.size = widths[-1] if widths else inputs
        """Number of output features."""

    def forward(self, x: torch.Tensor, tower: int, noise: Noise | None = None) -> torch.Tensor:
        """Features [n, H] of one tower from inputs [n, in]. The layers have no noise."""
        features: torch.Tensor = self[tower](x)
        return features

    def together(self, x: torch.Tensor, *, frozen: bool = False) -> torch.Tensor:
        """Features [towers, n, H] of all towers from their inputs [towers, n, in].

        ``frozen``: gradients go only to the inputs.
        """
        if not frozen:
            return torch.stack([layers(features) for layers, features in zip(self, x, strict=True)])
        # Weights without gradient, for Qs that only guide the actor.
        fixed = [{name: parameter.detach() for name, parameter in layers.named_parameters()} for layers in self]
        calls = zip(self, fixed, x, strict=True)
        return torch.stack([torch.func.functional_call(layers, weights, (rows,)) for layers, weights, rows in calls])

    def write(self, graph: GraphWriter, x: str, tower: int = 0) -> str:
        """The same as nodes."""
        layers = self[tower]
        assert isinstance(layers, torch.nn.Sequential)
        for index, layer in enumerate(layers):
            assert isinstance(layer, Dense | BatchNorm | ResidualLayers | torch.nn.ReLU)
            output = f"body_{index}"
            x = graph.add("Relu", [x], output) if isinstance(layer, torch.nn.ReLU) else layer.write(graph, x, output)
        return x


def _layers(inputs: int, parts: Sequence[int | str], generator: torch.Generator) -> torch.nn.Sequential:
    """One tower; ReLU comes after the BatchNorm that may follow a layer."""
    layers: list[torch.nn.Module] = []
    waits = False
    for part in parts:
        if part == "b":
            layers.append(BatchNorm(inputs))
            continue
        if waits:
            layers.append(torch.nn.ReLU())
        units = int(str(part).removeprefix("r"))
        kind = ResidualLayers if isinstance(part, str) else Dense
        layers.append(kind(inputs, units, generator))
        inputs, waits = units, True
    return torch.nn.Sequential(*layers, *([torch.nn.ReLU()] if waits else []))
