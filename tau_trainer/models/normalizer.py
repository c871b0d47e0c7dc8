"""Running mean and variance of observations, and normalisation with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch

from tau_trainer.specs import FloatArray

if TYPE_CHECKING:
    from tau_trainer.models.graph import GraphWriter

OBSERVATION_CLIP = 5.0
"""Normalised observations stay within this many standard deviations (as in ML-Agents)."""


class Normalizer(torch.nn.Module):
    """``clip((x - mean) / std, -5, 5)`` with the statistics of every observation so far, kept in float64.

    Batches are merged with the parallel formula of Chan, Golub and LeVeque (1983), so one batch of 10,000 rows gives
    the same as 10,000 batches of one. The statistics start as one imagined row with mean 0 and variance 1, as in
    ML-Agents: before any data, normalising changes nothing, and a constant input never divides by zero.

    Args:
        size: ``D``, floats in one observation.
    """

    count: torch.Tensor
    """float64 []: rows so far, the imagined one included."""
    mean: torch.Tensor
    """float64 [D]."""
    squares: torch.Tensor
    """float64 [D]: sum of squared distances from the mean."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("count", torch.ones((), dtype=torch.float64))  # the imagined row
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("squares", torch.ones(size, dtype=torch.float64))

    @property
    def untouched(self) -> bool:
        """Whether no observation has been merged yet."""
        return float(self.count) == 1.0

    @property
    def std(self) -> torch.Tensor:
        """float64 [D], biased (divided by the count)."""
        return torch.sqrt(self.squares / self.count)

    def merge(self, batch: FloatArray) -> None:
        """Take in ``batch``, float [n, D] of finite numbers."""
        rows = len(batch)
        if rows == 0:
            return
        count, mean, squares = (values.cpu().numpy() for values in (self.count, self.mean, self.squares))
        batch_mean = batch.mean(axis=0, dtype=np.float64)  # float64 sums for any type of batch
        centred = batch - batch_mean  # [n, D]
        batch_squares = np.einsum("nd,nd->d", centred, centred)  # sums of squares without an array of squares
        # Chan et al. 1983, equation 1.5: mean and sum of squares of two samples together.
        total, delta = count + rows, batch_mean - mean
        self.mean.copy_(torch.from_numpy(mean + delta * (rows / total)))
        self.squares.copy_(torch.from_numpy(squares + batch_squares + delta**2 * (count * rows / total)))
        self.count.fill_(float(total))

    def take_in(
        self,
        rows: torch.Tensor,
        count: int | None = None,
        add: Callable[[torch.Tensor], torch.Tensor] = lambda values: values,
    ) -> None:
        """The same for a tensor [n, D] on this module's device, which is not waited for.

        Args:
            rows: of this process.
            count: number of rows over all processes that take in theirs; None: there is only this process.
            add: sums over the processes.
        """
        count = len(rows) if count is None else count
        if count == 0:
            return
        mean = add(rows.sum(dim=0, dtype=torch.float64)) / count  # two passes, each added up over processes
        squares = add((rows - mean).square_().sum(dim=0))  # distances from the common mean, so that sums add up
        total, delta = self.count + count, mean - self.mean
        self.mean += delta * (count / total)
        self.squares += squares + delta.square() * (self.count * count / total)
        self.count.copy_(total)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalised observations [n, D]."""
        centred = x - self.mean.to(x.dtype)
        # One reciprocal instead of n divisions; `centred` may be overwritten.
        return centred.mul_(self.std.to(x.dtype).reciprocal()).clamp_(-OBSERVATION_CLIP, OBSERVATION_CLIP)

    def write(self, graph: GraphWriter, x: str) -> str:
        """The same as nodes."""
        mean, std = (values.cpu().numpy().astype(np.float32)[None] for values in (self.mean, self.std))
        centred = graph.add("Sub", [x, graph.constant("normalizer.mean", mean)], "centred")
        scaled = graph.add("Div", [centred, graph.constant("normalizer.std", std)], "scaled")
        return graph.clip(scaled, "normalized", -OBSERVATION_CLIP, OBSERVATION_CLIP)
