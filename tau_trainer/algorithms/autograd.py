"""Minibatches with torch's own differentiation: the path of every network and every objective.

Where plain networks learn by PPO, :mod:`tau_trainer.algorithms.accelerators.fused` computes the same numbers faster.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tau_trainer.algorithms.batch import EpochStatistics, Numbers, Samples
from tau_trainer.algorithms.losses import CLIPPED, Objective, minibatch_loss
from tau_trainer.algorithms.parameters import FlatParameters, clip_gradient
from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.models.actor_critic import ActorCritic, Answer


class AutogradEpochs:
    """Epochs of consecutive minibatches, whatever the network.

    Args:
        network: what learns.
        parameters: of it.
        ranks: who learns together; each has rows of every minibatch.
        objective: what is minimised.
    """

    rows: int = 8192
    """Of one network that are differentiated at once: what lies between its layers stays in the cache."""

    def __init__(
        self,
        network: ActorCritic,
        parameters: FlatParameters,
        ranks: Ranks | None = None,
        objective: Objective = CLIPPED,
    ) -> None:
        self._network, self._parameters, self._objective = network, parameters, objective
        self._ranks = ranks or Ranks()

    def run(
        self,
        numbers: Numbers,
        samples: Samples,
        statistics: EpochStatistics,
        batch: int,
        sizes: Sequence[int] | None = None,
    ) -> None:
        """Learn from consecutive minibatches of ``batch`` shuffled ``samples``.

        ``sizes``: how many of each are here, where a rank has fewer, and members of a population ``batch`` each.
        """
        gradient = self._parameters.optimizer.gradient  # [S], or [P, S] of P members
        end = 0
        for index, size in enumerate(sizes or [batch] * len(statistics.entropy)):
            first, end = end, end + size
            gradient.zero_()
            statistics.entropy[index] = 0.0
            piece = self.rows if gradient.dim() == 1 else max(1, size)  # members' rows lie one behind the other
            for begin in range(first, end, piece):
                self._differentiate(numbers, samples, statistics, slice(begin, min(begin + piece, end)), index, batch)
            self._ranks.add(gradient)  # shares are of the whole minibatch, so ranks' gradients add up to its own
            statistics.gradient_norm[index] = clip_gradient(gradient, numbers.max_grad_norm)
            self._parameters.descend(numbers.learning_rate)

    def answer(self, minibatch: Samples) -> Answer:
        """What the network says of it."""
        answer: Answer = self._network(minibatch.inputs, *minibatch.past)
        return answer

    def _differentiate(
        self, numbers: Numbers, samples: Samples, statistics: EpochStatistics, rows: slice, index: int, batch: int
    ) -> None:
        """Add the gradient of ``rows`` of a minibatch to the others'; of members it is the sum, and so each one's."""
        minibatch = samples.map(lambda values: values[rows])  # views, not copies: rows are contiguous
        # Losses are means, so a piece weighs as much as it has rows; P of P members.
        share = len(minibatch.returns) / batch
        with torch.enable_grad():
            loss, log_ratio, values, entropies = minibatch_loss(
                self._network, numbers, minibatch, self._objective, self.answer(minibatch)
            )
            self._parameters.differentiate(loss * share)  # adds to the flat gradient
        statistics.log_ratio[rows], statistics.values[rows] = log_ratio, values
        entropy = statistics.entropy[index]  # [], or [P]
        entropy += entropies.view(*entropy.shape, -1).mean(dim=-1) * (share / max(1, entropy.numel()))
