"""What a critic says: one value for each number of each reward stream."""

from __future__ import annotations

from collections.abc import Mapping

import torch


class ValueHead(torch.nn.Module):
    """Linear values [n, R] of all streams side by side.

    They begin at zero: random ones would be taken for knowledge of what lies behind a horizon, and where rewards are
    small they send agents the wrong way for good.

    Args:
        inputs: features that go in.
        streams: name of each reward stream and its width.
    """

    def __init__(self, inputs: int, streams: Mapping[str, int]) -> None:
        super().__init__()
        self.streams = dict(streams)
        size = sum(streams.values())
        self.weight = torch.nn.Parameter(torch.zeros(inputs, size))
        self.bias = torch.nn.Parameter(torch.zeros(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Values [n, R] from features [n, inputs]."""
        return torch.addmm(self.bias, x, self.weight)
