"""Log-probabilities and entropy of hybrid actions, differentiable, and masks of their branches (``True``: forbidden).

Continuous actions are independent Gaussians around a mean, with a sigma that does not depend on the observation (or, if
squashed, the tanh of Gaussians whose sigma does); every discrete branch is a separate categorical distribution.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from tau_trainer.specs import ActionSpec, BoolArray

if TYPE_CHECKING:
    from tau_trainer.models.heads import ActionHead

MASKED_LOGIT = -1e8
"""Logit of a forbidden action (ML-Agents' number); its probability is exactly 0 in float32."""
LOG_SIGMA_RANGE = -20.0, 2.0
"""Limits of a log sigma that depends on the observation (Haarnoja et al. 2018, and ML-Agents)."""
LEAST_LOG_SIGMA = -4.0
"""Lower limit of log sigma for Gaussians that imitate.

Recordings of a player without errors would make them so narrow that nothing else is learned.
"""
LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
GAUSSIAN_ENTROPY = 0.5 + LOG_SQRT_2PI
"""Entropy of a Gaussian with sigma 1, in nats."""
LARGEST_SQUASHED = 1.0 - 1e-6
"""Actions closer to the end of their range count as this one: the end itself is the tanh of infinity."""


def branch_bounds(branches: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """First column and end of each branch in a flat row of logits or masks."""
    ends = np.cumsum(branches, dtype=np.int64).tolist()
    return tuple((end - size, end) for end, size in zip(ends, branches, strict=True))


def effective_mask(mask: BoolArray, branches: tuple[int, ...]) -> BoolArray:
    """The mask that acting and learning use: a branch with every action forbidden counts as unmasked.

    A game that forbids everything in a branch ignores its value, and ML-Agents' engine side then takes any index; a
    distribution over nothing does not exist.

    Args:
        mask: bool [n, sum of branches].
        branches: size of each branch.

    Returns:
        ``mask`` itself if no branch is forbidden as a whole, otherwise a corrected copy.
    """
    for begin, end in branch_bounds(branches):
        blocked = mask[:, begin:end].all(axis=1)
        if blocked.any():
            mask = mask.copy()
            mask[blocked, begin:end] = False
    return mask


def forbidden_of(mask: torch.Tensor, branches: tuple[int, ...]) -> torch.Tensor:
    """The same mask, bool [n, k], from the values that a batched environment *allows*."""
    forbidden = ~mask  # bool [n, k]
    parts = [forbidden[:, begin:end] for begin, end in branch_bounds(branches)]
    return torch.cat([part & ~part.all(dim=1, keepdim=True) for part in parts], dim=1)


def evaluate_actions(
    actions: ActionSpec,
    outputs: torch.Tensor,
    log_sigma: torch.Tensor,
    continuous: torch.Tensor,
    discrete: torch.Tensor,
    mask: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability of each action component, and the entropy.

    Args:
        actions: sizes.
        outputs: float32 [n, c + sum of branches]: means, then logits.
        log_sigma: float32 [c], or [n, c] if rows are of several networks.
        continuous: float32 [n, c], raw samples.
        discrete: int64 [n, b].
        mask: bool [n, sum of branches], True = forbidden, no branch forbidden as a whole; or None.

    Returns:
        Log-probabilities [n, c + b], and entropy [n] as ML-Agents counts it: the *mean* over continuous actions plus
        the sum over branches.
    """
    size = actions.continuous_size
    log_probs: list[torch.Tensor] = []
    entropy = torch.zeros(len(outputs), device=outputs.device)
    if size:
        error = (continuous - outputs[:, :size]) * torch.exp(-log_sigma)  # (a - mu) / sigma, [n, c]
        log_probs.append(-0.5 * error * error - log_sigma - LOG_SQRT_2PI)
        entropy = entropy + log_sigma.mean(dim=-1) + GAUSSIAN_ENTROPY  # H = log sigma + (1 + log 2 pi) / 2
    logits = outputs[:, size:] if mask is None else outputs[:, size:].masked_fill(mask, MASKED_LOGIT)
    for branch, (begin, end) in enumerate(branch_bounds(actions.discrete_branches)):
        all_log_prob = torch.log_softmax(logits[:, begin:end], dim=1)  # [n, size]
        log_probs.append(all_log_prob.gather(1, discrete[:, branch : branch + 1]))
        # -sum p log p; forbidden values have p = 0 and a finite log p.
        entropy = entropy - (all_log_prob.exp() * all_log_prob).sum(dim=1)
    return torch.cat(log_probs, dim=1), entropy


def squashed_log_prob(raw: torch.Tensor, noise: torch.Tensor, log_sigma: torch.Tensor) -> torch.Tensor:
    """Log-density of ``tanh(raw)`` with ``raw = mean + sigma * noise``, all [n, c].

    The density of the Gaussian over the slope of tanh (Haarnoja et al. 2018, appendix C). The logarithm of that slope,
    ``1 - tanh(x)²``, is ``2 (log 2 - x - softplus(-2 x))``, which is exact even if tanh is rounded to 1.
    """
    slope = 2.0 * (math.log(2.0) - raw - torch.nn.functional.softplus(-2.0 * raw))  # log(1 - tanh²), [n, c]
    return -0.5 * noise * noise - log_sigma - LOG_SQRT_2PI - slope


def action_log_prob(
    head: ActionHead,
    outputs: torch.Tensor,
    continuous: torch.Tensor,
    discrete: torch.Tensor,
    forbidden: torch.Tensor | None,
    least_log_sigma: float = LOG_SIGMA_RANGE[0],
) -> torch.Tensor:
    """Log-probability [n, c + b] of stored actions of any kind: squashed, of levels, or neither.

    Arguments as in :func:`evaluate_actions`, with ``outputs`` and sizes of ``head``; ``least_log_sigma`` is a lower
    limit.
    """
    choices = head.choices
    if not head.squashed:
        log_sigma = head.log_sigma.clamp(min=least_log_sigma)
        return evaluate_actions(choices, outputs, log_sigma, continuous, discrete, forbidden)[0]
    size = choices.continuous_size
    mean = outputs[:, :size]
    log_sigma = outputs[:, size : 2 * size].clamp(least_log_sigma, LOG_SIGMA_RANGE[1])
    raw = torch.atanh(continuous.clamp(-LARGEST_SQUASHED, LARGEST_SQUASHED))
    log_prob = squashed_log_prob(raw, (raw - mean) * torch.exp(-log_sigma), log_sigma)
    if not choices.discrete_branches:
        return log_prob
    branches = ActionSpec(0, choices.discrete_branches)
    logits = outputs[:, head.logits :]
    nothing = logits[:, :0]  # without continuous actions below
    others, _ = evaluate_actions(branches, logits, nothing[0], nothing, discrete, forbidden)
    return torch.cat((log_prob, others), dim=1)
