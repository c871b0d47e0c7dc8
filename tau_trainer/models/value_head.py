"""What a critic says: one value for each number of each reward stream."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch


class ValueHead(torch.nn.Module):
    """Linear values [n, R] of all streams side by side.

    Args:
        inputs: features that go in.
        streams: name of each reward stream and its width.
    """

    def __init__(self, inputs: int, streams: Mapping[str, int], generator: torch.Generator) -> None:
        super().__init__()
        self.streams = dict(streams)
        size = sum(streams.values())
        self.weight = torch.nn.Parameter(torch.zeros(inputs, size))
        self.bias = torch.nn.Parameter(torch.zeros(size))
        with torch.no_grad():
            # Glorot and Bengio 2010: U(-a, a), a² = 6 / (fan_in + fan_out)
            bound = math.sqrt(6.0 / (inputs + size))
            self.weight.uniform_(-bound, bound, generator=generator)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Values [n, R] from features [n, inputs]."""
        return torch.addmm(self.bias, x, self.weight)
