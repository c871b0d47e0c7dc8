"""What an update tells about itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from tau_trainer.algorithms.batch import EpochStatistics, Samples


@dataclass(frozen=True, slots=True)
class UpdateSummary:
    """Numbers of one update.

    Attributes:
        policy_loss: clipped surrogate, mean over all minibatches.
        value_loss: mean squared error (before the factor 0.5), mean over all minibatches.
        entropy: in nats, mean over all minibatches.
        kl: of the last epoch, in nats: how far its minibatches found the policy from the one that acted.
        clip_fraction: share of ratios outside the clip range, last epoch.
        gradient_norm: before clipping, mean over all minibatches.
        minibatches: gradient steps taken.
    """

    policy_loss: float
    value_loss: float
    entropy: float
    kl: float
    clip_fraction: float
    gradient_norm: float
    minibatches: int

    @staticmethod
    def kl_of(epoch: torch.Tensor) -> float:
        """The KL in one epoch's row of :func:`summarize_epoch`."""
        return float(epoch[3])

    @staticmethod
    def mean_of(per_epoch: list[torch.Tensor], minibatches: int) -> UpdateSummary:
        """Join the rows of :func:`summarize_epoch`; ``minibatches`` in all."""
        mean = torch.stack(per_epoch).mean(dim=0).tolist()
        last = per_epoch[-1].tolist()
        return UpdateSummary(mean[0], mean[1], mean[2], last[3], last[4], mean[5], minibatches)


def summarize_epoch(samples: Samples, statistics: EpochStatistics, epsilon: float) -> torch.Tensor:
    """One epoch as a float32 row of 6: policy loss, value loss, entropy, KL, clip fraction, gradient norm.

    The KL is Schulman's estimator ``k3 = (r - 1) - log r`` (joschu.net/blog/kl-approx.html): never negative, little
    variance; summed over components that have ratios of their own.
    """
    log_ratio = statistics.log_ratio
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1.0 - epsilon, 1.0 + epsilon)
    policy_loss = -torch.minimum(ratio * samples.advantage, clipped * samples.advantage).mean()
    value_loss = (statistics.values - samples.returns).square().mean()
    kl = (ratio - 1.0 - log_ratio).sum(dim=1).mean()
    clip_fraction = (ratio - clipped).ne(0.0).float().mean()
    norm = statistics.gradient_norm.mean()
    return torch.stack((policy_loss, value_loss, statistics.entropy.mean(), kl, clip_fraction, norm))


def explained_variance(values: NDArray[np.float64], returns: NDArray[np.float64]) -> float:
    """Share of the returns' variance that the values explain; 1 = all, 0 = none, negative = worse than a constant.

    Both [N, R]; the mean over components. A component whose returns do not vary counts as 0.
    """
    variance = returns.var(axis=0)
    unexplained = (returns - values).var(axis=0)
    varies = variance > 1e-12
    shares = np.where(varies, 1.0 - unexplained / np.where(varies, variance, 1.0), 0.0)
    return float(shares.mean())
