"""Layers whose weights are noisy, so that a network explores by itself (Fortunato et al. 2018, factorised noise)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

SIGMA = 0.5
"""Width of the noise at first, before it is divided by the root of the inputs (section 3.2 of the paper)."""
Noise = Callable[[int, int], torch.Tensor]
"""Standard normal numbers [rows, size]."""


class NoisyPart(torch.nn.Module):
    """What noise adds to ``x @ weight + bias``: widths of weights and bias, which are learned.

    The noise of a weight is ``f(in) f(out)`` with a normal number for each input and each output of the layer and
    ``f(z) = sign(z) sqrt(abs(z))``. Every row has noise of its own, which that form allows without a matrix each.
    """

    def __init__(self, inputs: int, units: int, towers: int = 1) -> None:
        super().__init__()
        width = SIGMA / math.sqrt(max(1, inputs))
        self.weight = torch.nn.Parameter(torch.full((towers, inputs, units), width))
        self.bias = torch.nn.Parameter(torch.full((towers, units), width))

    def forward(self, x: torch.Tensor, noise: Noise, tower: int = 0) -> torch.Tensor:
        """[n, units] for inputs [n, inputs]."""
        before, behind = (_root(noise(len(x), size)) for size in self.weight.shape[1:])
        return torch.addmm(self.bias[tower], x * before, self.weight[tower]) * behind


def _root(normal: torch.Tensor) -> torch.Tensor:
    return normal.sign() * normal.abs().sqrt()
