"""What a critic says: one value for each number of each reward stream."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from tau_trainer.models.noisy import Noise, NoisyPart


class ValueHead(torch.nn.Module):
    """Linear values [n, R] of all streams side by side.

    They begin at zero: random ones would be taken for knowledge of what lies behind a horizon, and where rewards are
    small they send agents the wrong way for good.

    Args:
        inputs: features that go in.
        streams: name of each reward stream and its width.
        noisy: whether weights are; see :class:`NoisyPart`.
    """

    def __init__(self, inputs: int, streams: Mapping[str, int], *, noisy: bool = False) -> None:
        super().__init__()
        self.streams = dict(streams)
        size = sum(streams.values())
        self.weight = torch.nn.Parameter(torch.zeros(inputs, size))
        self.bias = torch.nn.Parameter(torch.zeros(size))
        self.noisy = NoisyPart(inputs, size) if noisy else None

    def forward(self, x: torch.Tensor, noise: Noise | None = None) -> torch.Tensor:
        """Values [n, R] from features [n, inputs]; None: without noise."""
        values = torch.addmm(self.bias, x, self.weight)
        return values if self.noisy is None or noise is None else values + self.noisy(x, noise)
