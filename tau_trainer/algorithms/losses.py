"""The objectives of on-policy algorithms, and statistics of an epoch: one formula for every network and reader.

``B`` is a minibatch, ``K`` the components of an action, each with its own probability ratio, ``R`` the numbers in all
rewards. With members of a population, rows are one member's after the other's: [P * B].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from tau_trainer.algorithms.minibatches import Coefficients, EpochStatistics, Samples, sigma_of
from tau_trainer.models.actor_critic import ActorCritic, NetworkOutput
from tau_trainer.models.distributions import evaluate_actions

ValueLosses = Callable[[torch.Tensor, Samples, float], tuple[torch.Tensor, ...]]
"""From values [..., B, R], their samples, and epsilon: a tuple of [...]."""


def squared_error(values: torch.Tensor, samples: Samples, epsilon: float) -> tuple[torch.Tensor, ...]:
    """``mean((V - R)²)`` over samples and streams."""
    return ((values - samples.returns).square().mean(dim=(-2, -1)),)


def trust_region(
    values: torch.Tensor, before: torch.Tensor, returns: torch.Tensor, reach: torch.Tensor | float
) -> torch.Tensor:
    """``max((R - V)², (R - V')²)`` where ``V'`` is the value within ``reach`` of the value before the update.

    A value that has moved that far towards its return has no gradient any more (Schulman et al.'s code for PPO;
    ML-Agents' ``trust_region_value_loss``). All [..., B, R].
    """
    limited = torch.maximum(torch.minimum(values, before + reach), before - reach)
    return torch.maximum((returns - values).square(), (returns - limited).square())


class Objective(NamedTuple):
    """``policy loss + sum(c_v L_v) - beta H``."""

    policy_loss: Callable[[torch.Tensor, Samples, float], torch.Tensor]
    """From log ratios [..., B, K], their samples, and epsilon: [...]."""
    value_coefficients: tuple[float, ...]
    """``c_v``, for each of the value losses."""
    value_losses: ValueLosses = squared_error


def clipped_surrogate(log_ratio: torch.Tensor, samples: Samples, epsilon: float) -> torch.Tensor:
    """``- mean(min(r A, clip(r, 1 - epsilon, 1 + epsilon) A))`` over samples and components (PPO, equation 7)."""
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1.0 - epsilon, 1.0 + epsilon)  # [..., B, K]
    return -torch.minimum(ratio * samples.advantage, clipped * samples.advantage).mean(dim=(-2, -1))


def policy_gradient(log_ratio: torch.Tensor, samples: Samples, epsilon: float) -> torch.Tensor:
    """``- mean(A log pi(a))``, the logarithm summed over components (Mnih et al. 2016); ``epsilon`` is not used."""
    log_prob = (log_ratio + samples.log_prob).sum(dim=-1, keepdim=True)  # of whole actions [..., B, 1]
    return -(log_prob * samples.advantage).mean(dim=(-2, -1))


CLIPPED = Objective(clipped_surrogate, (0.5,))
"""PPO's objective (Schulman et al. 2017, equation 9)."""


def evaluate(network: ActorCritic, outputs: torch.Tensor, samples: Samples) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities [n, K] of the samples' actions from a network's outputs [n, c + M], and entropies [n]."""
    head, log_sigma = network.action, sigma_of(network.action.log_sigma, len(outputs))
    mask = samples.mask if len(samples.mask) else None  # bool [n, M]
    return evaluate_actions(head.choices, outputs, log_sigma, samples.continuous, samples.discrete, mask)


def minibatch_loss(
    network: ActorCritic,
    hyper: Coefficients,
    samples: Samples,
    objective: Objective = CLIPPED,
    answer: NetworkOutput | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Loss of one minibatch; ``answer``: the network's outputs for it; None: computed here.

    Returns:
        The loss [], and for each sample, without gradient, the log ratio [B, K], the value [B, R], the entropy [B].
    """
    answer = network(samples.inputs, samples.past) if answer is None else answer
    log_prob, entropies = evaluate(network, answer.outputs, samples)
    log_ratio = log_prob - samples.log_prob  # [B, K], new over old; 0 in the first minibatch of fresh data
    policy_loss = objective.policy_loss(log_ratio, samples, hyper.epsilon)
    value_losses = objective.value_losses(answer.values, samples, hyper.epsilon)
    value_loss = sum(weight * part for weight, part in zip(objective.value_coefficients, value_losses, strict=True))
    loss = policy_loss + value_loss - hyper.beta * entropies.mean()
    return loss, log_ratio.detach(), answer.values.detach(), entropies.detach()


def summarize_epoch(
    samples: Samples, statistics: EpochStatistics, epsilon: float, objective: Objective = CLIPPED
) -> torch.Tensor:
    """One epoch as a float32 row of 6: policy loss, value loss, entropy, KL, clip fraction, gradient norm.

    Further value losses follow if the objective has any. For members of a population, whose rows are ordered by
    minibatches [m, P, B], one row each: [P, 6]. The KL is Schulman's estimator ``k3 = (r - 1) - log r``
    (joschu.net/blog/kl-approx.html): never negative, with little variance; summed over components that have their own
    ratios.
    """
    minibatches, *members = statistics.entropy.shape  # [m], or [m, P]

    def apart(values: torch.Tensor) -> torch.Tensor:
        """[P, m * B, k] of [m * P * B, k]."""
        if not members:
            return values
        return values.view(minibatches, *members, -1, values.shape[1]).transpose(0, 1).flatten(1, 2)

    log_ratio, advantage, log_prob = apart(statistics.log_ratio), apart(samples.advantage), apart(samples.log_prob)
    ratio = log_ratio.exp()
    # From the values of each minibatch at the time of learning, not from the epoch's last network.
    samples = samples._replace(advantage=advantage, log_prob=log_prob, returns=apart(samples.returns))
    policy_loss = objective.policy_loss(log_ratio, samples, epsilon)
    value_loss, *others = objective.value_losses(apart(statistics.values), samples, epsilon)
    kl = (ratio - 1.0 - log_ratio).sum(dim=-1).mean(dim=-1)
    # Share of ratios outside the clip range.
    clip_fraction = (ratio - ratio.clamp(1.0 - epsilon, 1.0 + epsilon)).ne(0.0).float().mean(dim=(-2, -1))
    entropy, norm = statistics.entropy.mean(dim=0), statistics.gradient_norm.mean(dim=0)
    return torch.stack((policy_loss, value_loss, entropy, kl, clip_fraction, norm, *others), dim=-1)
