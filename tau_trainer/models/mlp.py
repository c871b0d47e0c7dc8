"""Fully connected layers with swish, or *normalized*: with layer normalisation and ReLU.

Their weights may be noisy, so that a network explores by itself (Fortunato et al. 2018, factorised noise).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from tau_trainer.models.graph import NORM_EPSILON

if TYPE_CHECKING:
    from tau_trainer.models.graph import GraphWriter

SIGMA = 0.5
"""Initial width of the noise, before it is divided by the root of the inputs (section 3.2 of the paper)."""
Noise = Callable[[int, int], torch.Tensor]
"""Standard normal numbers [rows, size]."""


def activate(x: torch.Tensor, *, normalized: bool) -> torch.Tensor:
    """Swish of [..., H]; normalized: ReLU after mean 0 and variance 1 in each row (Ba et al. 2016)."""
    if normalized:
        return torch.relu(torch.nn.functional.layer_norm(x, x.shape[-1:], eps=NORM_EPSILON))
    # In place only if no gradient needs it.
    return torch.nn.functional.silu(x, inplace=not x.requires_grad)


class NoisyPart(torch.nn.Module):
    """Noise to add to ``x @ weight + bias``: widths of weights and bias, which are learned.

    The noise of a weight is ``f(in) f(out)`` with a normal number for each input and each output of the layer and
    ``f(z) = sign(z) sqrt(abs(z))``. Every row has its own noise, which that form allows without a matrix for each.
    """

    def __init__(self, inputs: int, units: int, towers: int = 1) -> None:
        super().__init__()
        width = SIGMA / math.sqrt(max(1, inputs))
        self.weight = torch.nn.Parameter(torch.full((towers, inputs, units), width))
        self.bias = torch.nn.Parameter(torch.full((towers, units), width))

    def forward(self, x: torch.Tensor, noise: Noise, tower: int = 0) -> torch.Tensor:
        """[n, units] for inputs [n, inputs]."""
        # f(in) [n, inputs], f(out) [n, units]: new for every row.
        before, behind = (_root(noise(len(x), size)) for size in self.weight.shape[1:])
        # x (W f(in) f(out)) row by row, without a matrix for each.
        return torch.addmm(self.bias[tower], x * before, self.weight[tower]) * behind


def _root(normal: torch.Tensor) -> torch.Tensor:
    return normal.sign() * normal.abs().sqrt()


class Layer(torch.nn.Module):
    """``x @ weight + bias`` for every tower; ``noisy``: with :class:`NoisyPart`."""

    def __init__(self, towers: int, inputs: int, units: int, *, noisy: bool = False) -> None:
        super().__init__()
        self.noisy = NoisyPart(inputs, units, towers) if noisy else None
        self.weight = torch.nn.Parameter(torch.zeros(towers, inputs, units))
        self.bias = torch.nn.Parameter(torch.zeros(towers, 1, units))

    def write(self, graph: GraphWriter, x: str, output: str, tower: int) -> str:
        """The layer of one tower as a node."""
        weight = self.weight[tower].detach().cpu().numpy()
        bias = self.bias[tower, 0].detach().cpu().numpy()
        return graph.linear(weight, bias, x, output)


class Head(torch.nn.Module):
    """``x @ weight + bias``, initially zero; ``noisy``: with :class:`NoisyPart`."""

    def __init__(self, inputs: int, outputs: int, *, noisy: bool) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(inputs, outputs))
        self.bias = torch.nn.Parameter(torch.zeros(outputs))
        self.noisy = NoisyPart(inputs, outputs) if noisy else None

    def forward(self, x: torch.Tensor, noise: Noise | None = None) -> torch.Tensor:
        """Outputs [n, outputs] from features [n, inputs]; ``noise`` None: without noise."""
        outputs = torch.addmm(self.bias, x, self.weight)
        return outputs if self.noisy is None or noise is None else outputs + self.noisy(x, noise)


class MLP(torch.nn.ModuleList):
    """Hidden layers of one or more *towers* of the same shape (actor and critic), each followed by an activation.

    The towers' weights are stacked, ``[towers, in, out]``, so that one batched product can serve all of them.

    Args:
        inputs: number of input features.
        units: width ``H`` of every layer.
        layers: number of layers; 0 returns the input.
        towers: number of towers.
        noisy: whether weights are noisy.
    """

    normalized = False
    """Whether the activation is normalized, see :func:`activate`; set it after construction."""

    def __init__(
        self, inputs: int, units: int, layers: int, towers: int, generator: torch.Generator, *, noisy: bool = False
    ) -> None:
        sizes = [inputs] + [units] * layers  # inputs of each layer, and the last one's outputs
        super().__init__(Layer(towers, sizes[index], units, noisy=noisy) for index in range(layers))
        self.size = sizes[-1]
        """Number of output features."""
        for layer in self.layers:
            kaiming_normal_(layer.weight, generator)

    @property
    def layers(self) -> list[Layer]:
        """The layers in order."""
        return [layer for layer in self if isinstance(layer, Layer)]

    def forward(self, x: torch.Tensor, tower: int, noise: Noise | None = None) -> torch.Tensor:
        """Features [n, H] of one tower from inputs [n, in]; ``noise`` None: without noise."""
        for layer in self.layers:
            linear = torch.addmm(layer.bias[tower], x, layer.weight[tower])
            if layer.noisy is not None and noise is not None:
                linear = linear + layer.noisy(x, noise, tower)
            x = activate(linear, normalized=self.normalized)
        return x

    def together(self, x: torch.Tensor, *, frozen: bool = False) -> torch.Tensor:
        """Features [towers, n, H] of all towers from their inputs [towers, n, in], in one product per layer.

        ``frozen``: gradients go only to the inputs.
        """
        for layer in self.layers:
            weight, bias = (layer.weight.detach(), layer.bias.detach()) if frozen else (layer.weight, layer.bias)
            x = activate(torch.baddbmm(bias, x, weight), normalized=self.normalized)  # [towers, n, H]
        return x

    def write(self, graph: GraphWriter, x: str, tower: int = 0) -> str:
        """The same as nodes; not for normalized layers, which actors do not have."""
        for index, layer in enumerate(self.layers):
            x = graph.swish(layer.write(graph, x, f"body_{index}.linear", tower), f"body_{index}")
        return x


@torch.no_grad()
def kaiming_normal_(weight: torch.Tensor, generator: torch.Generator, gain: float = 1.0) -> None:
    """Fill ``weight`` [..., fan_in, out] with N(0, gain² / fan_in) (He et al. 2015 with linear gain)."""
    weight.normal_(0.0, gain / math.sqrt(weight.shape[-2]), generator=generator)
