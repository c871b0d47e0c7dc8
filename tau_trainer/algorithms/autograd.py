"""PPO's minibatch with torch's own differentiation: the path of every network.

Plain networks take :mod:`tau_trainer.algorithms.fused` instead, which computes the same numbers faster.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tau_trainer.algorithms.batch import EpochStatistics, Samples
from tau_trainer.algorithms.fused import Numbers
from tau_trainer.algorithms.parameters import FlatParameters
from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.models.actor_critic import ActorCritic
from tau_trainer.models.distributions import evaluate_actions
from tau_trainer.specs import ActionSpec


def minibatch_loss(
    network: ActorCritic, numbers: Numbers, samples: Samples
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Loss of one minibatch (Schulman et al. 2017, equation 9).

    ``- mean(min(r A, clip(r, 1 - epsilon, 1 + epsilon) A)) + 0.5 mean((V - R)²) - beta H``, the first mean over
    samples and action components, each of which has a ratio of its own.

    Returns:
        The loss [], and of each sample the log ratio [B, K], the value [B, R]; the mean entropy [].
    """
    answer = network(samples.inputs, *samples.past)
    action = network.action
    loss, log_ratio, entropies = loss_of(
        numbers, action.choices, answer.outputs, action.log_sigma, answer.values, samples
    )
    return loss, log_ratio, answer.values.detach(), entropies.mean()


def loss_of(
    numbers: Numbers,
    actions: ActionSpec,
    outputs: torch.Tensor,
    log_sigma: torch.Tensor,
    values: torch.Tensor,
    samples: Samples,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """:func:`minibatch_loss` of what networks have said: outputs [B, c + M], log sigma [c] or [B, c], values [B, R].

    Returns:
        The loss [], and of each sample the log ratio [B, K] and the entropy [B].
    """
    mask = samples.mask if len(samples.mask) else None
    log_prob, entropies = evaluate_actions(actions, outputs, log_sigma, samples.continuous, samples.discrete, mask)
    log_ratio = log_prob - samples.log_prob
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1.0 - numbers.epsilon, 1.0 + numbers.epsilon)
    policy_loss = -torch.minimum(ratio * samples.advantage, clipped * samples.advantage).mean()
    value_loss = (values - samples.returns).square().mean()
    loss = policy_loss + 0.5 * value_loss - numbers.beta * entropies.mean()
    return loss, log_ratio.detach(), entropies.detach()


class AutogradEpochs:
    """Epochs of consecutive minibatches, whatever the network.

    Args:
        network: what learns.
        parameters: of it.
        ranks: who learns together; each has rows of every minibatch.
    """

    def __init__(self, network: ActorCritic, parameters: FlatParameters, ranks: Ranks | None = None) -> None:
        self._network, self._parameters, self._ranks = network, parameters, ranks or Ranks()

    def run(
        self,
        numbers: Numbers,
        samples: Samples,
        statistics: EpochStatistics,
        batch: int,
        sizes: Sequence[int] | None = None,
    ) -> None:
        """Learn from consecutive minibatches of ``batch`` shuffled ``samples``, or of ``sizes`` that are here."""
        gradient = self._parameters.optimizer.gradient
        end = 0
        for index, size in enumerate(sizes or [batch] * len(statistics.entropy)):
            begin, end = end, end + size
            rows = slice(begin, end)
            minibatch = samples.map(lambda values, rows=rows: values[rows])  # type: ignore[misc]
            gradient.zero_()
            if size:
                with torch.enable_grad():
                    loss, log_ratio, values, entropy = minibatch_loss(self._network, numbers, minibatch)
                    (loss * (size / batch)).backward()  # type: ignore[no-untyped-call]
                statistics.log_ratio[rows], statistics.values[rows] = log_ratio, values
                statistics.entropy[index] = entropy * (size / batch)
            else:
                statistics.entropy[index] = 0.0
            self._ranks.add(gradient)
            norm = torch.linalg.vector_norm(gradient)
            statistics.gradient_norm[index] = norm
            if numbers.max_grad_norm > 0.0:
                gradient.mul_(torch.clamp(numbers.max_grad_norm / (norm + 1e-6), max=1.0))
            self._parameters.descend(numbers.learning_rate)
