"""Running mean and variance of observations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tau_trainer.specs import FloatArray

OBSERVATION_CLIP = 5.0
"""Normalised observations stay within this many standard deviations (as in ML-Agents)."""


@dataclass(frozen=True, slots=True)
class NormalizerState:
    """What a network needs to normalise: ``clip((x - mean) / std, -5, 5)``. Both float32 [D]."""

    mean: FloatArray
    std: FloatArray


class RunningNormalizer:
    """Mean and variance of every observation so far, in float64.

    Batches are merged with the parallel formula of Chan, Golub and LeVeque (1983), so one batch of 10,000 rows gives
    the same as 10,000 batches of one. The statistics start as one imagined row with mean 0 and variance 1, as in
    ML-Agents: before any data normalising changes nothing, and a constant input never divides by zero.

    Args:
        size: ``D``, floats in one observation.
    """

    def __init__(self, size: int) -> None:
        self.count = 1.0
        self.mean: NDArray[np.float64] = np.zeros(size)
        self.squares: NDArray[np.float64] = np.ones(size)
        """Sum of squared distances from the mean."""

    def merge(self, batch: FloatArray) -> None:
        """Take in ``batch``, float [n, D] of finite numbers."""
        rows = len(batch)
        if rows == 0:
            return
        batch_mean = batch.mean(axis=0, dtype=np.float64)
        centred = batch - batch_mean
        batch_squares = np.einsum("nd,nd->d", centred, centred)
        total = self.count + rows
        delta = batch_mean - self.mean
        self.mean = self.mean + delta * (rows / total)
        self.squares = self.squares + batch_squares + delta**2 * (self.count * rows / total)
        self.count = total

    @property
    def variance(self) -> NDArray[np.float64]:
        """Biased (divided by the count), float64 [D]."""
        return self.squares / self.count

    def state(self) -> NormalizerState:
        """The numbers of now, as fresh float32 arrays."""
        return NormalizerState(self.mean.astype(np.float32), np.sqrt(self.variance).astype(np.float32))

    def load(self, count: float, mean: NDArray[np.float64], squares: NDArray[np.float64]) -> None:
        """Go on from saved statistics; ``mean`` and ``squares`` float64 [D] are copied."""
        self.count, self.mean, self.squares = float(count), np.array(mean), np.array(squares)
