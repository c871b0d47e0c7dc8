"""PPO's minibatch with torch's automatic differentiation: the general path.

Slower than :mod:`tau_trainer.algorithms.fused` and the same numbers; it is where another kind of network goes in first,
because only :meth:`ActorCritic.forward` knows what the network is made of.
"""

from __future__ import annotations

import torch

from tau_trainer.algorithms.batch import EpochStatistics, Samples
from tau_trainer.algorithms.fused import Numbers, Optimizer, descend
from tau_trainer.models.actor_critic import ActorCritic
from tau_trainer.models.distributions import evaluate_actions


def minibatch_loss(
    network: ActorCritic, numbers: Numbers, flat: torch.Tensor, samples: Samples
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Loss of one minibatch (Schulman et al. 2017, equation 9), as a function of the flat parameter vector.

    ``- mean(min(r A, clip(r, 1 - epsilon, 1 + epsilon) A)) + 0.5 mean((V - R)²) - beta H``, the first mean over
    samples and, where components have ratios of their own, over components.

    Returns:
        The loss [], and of each sample the log ratio [B, G], the value [B, R]; the mean entropy [].
    """
    parameters = network.layout.views(flat)
    outputs, values = network.forward(parameters, samples.observations)
    log_prob, entropies = evaluate_actions(
        network.actions,
        outputs,
        parameters["action.log_sigma"],
        samples.continuous,
        samples.discrete,
        samples.mask if len(samples.mask) else None,
    )
    if samples.log_prob.shape[1] == 1:
        log_prob = log_prob.sum(dim=1, keepdim=True)
    log_ratio = log_prob - samples.log_prob
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1.0 - numbers.epsilon, 1.0 + numbers.epsilon)
    policy_loss = -torch.minimum(ratio * samples.advantage, clipped * samples.advantage).mean()
    value_loss = (values - samples.returns).square().mean()
    entropy = entropies.mean()
    loss = policy_loss + 0.5 * value_loss - numbers.beta * entropy
    return loss, log_ratio.detach(), values.detach(), entropy.detach()


def run_epoch(
    network: ActorCritic,
    numbers: Numbers,
    optimizer: Optimizer,
    samples: Samples,
    statistics: EpochStatistics,
) -> None:
    """Learn from consecutive minibatches of shuffled ``samples``; the same contract as the fused path."""
    minibatches = len(statistics.entropy)
    batch = len(statistics.values) // minibatches
    taken = int(optimizer.step)
    for index in range(minibatches):
        rows = slice(index * batch, (index + 1) * batch)
        minibatch = Samples(*(field[rows] if len(field) else field for field in samples))
        with torch.enable_grad():
            flat = optimizer.parameters.detach().requires_grad_()
            loss, log_ratio, values, entropy = minibatch_loss(network, numbers, flat, minibatch)
            (gradient,) = torch.autograd.grad(loss, flat)
        optimizer.gradient.copy_(gradient)
        statistics.log_ratio[rows] = log_ratio
        statistics.values[rows] = values
        statistics.entropy[index] = entropy
        descend(numbers, optimizer, taken + index + 1, statistics.gradient_norm[index])
    optimizer.step.add_(minibatches)
