"""Minibatches with torch's own differentiation: works for every network and every objective.

For plain networks with PPO, :mod:`tau_trainer.algorithms.accelerators.fused` computes the same numbers faster.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tau_trainer.algorithms.losses import CLIPPED, Objective, minibatch_loss
from tau_trainer.algorithms.minibatches import Coefficients, EpochStatistics, Samples
from tau_trainer.algorithms.parameters import FlatParameters, clip_gradient
from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.models.actor_critic import ActorCritic, NetworkOutput


class AutogradEpochs:
    """Epochs of consecutive minibatches, for any network.

    Args:
        network: the network to train.
        parameters: its parameters.
        ranks: the processes that learn together; each has rows of every minibatch.
        objective: the objective to minimize.
    """

    rows: int = 8192
    """Rows of one network to differentiate at once, so that the values between its layers stay in the cache."""

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
        hyper: Coefficients,
        samples: Samples,
        statistics: EpochStatistics,
        batch: int,
        sizes: Sequence[int] | None = None,
    ) -> None:
        """Learn from consecutive minibatches of ``batch`` shuffled ``samples``.

        ``sizes``: local number of rows of each minibatch, if a rank has only a part; members of a population have
        ``batch`` each.
        """
        gradient = self._parameters.optimizer.gradient  # [S], or [P, S] of P members
        end = 0
        for index, size in enumerate(sizes or [batch] * len(statistics.entropy)):
            first, end = end, end + size
            gradient.zero_()
            statistics.entropy[index] = 0.0
            piece = self.rows if gradient.dim() == 1 else max(1, size)  # members' rows follow one another
            for begin in range(first, end, piece):
                self._differentiate(hyper, samples, statistics, slice(begin, min(begin + piece, end)), index, batch)
            self._ranks.add(gradient)  # shares refer to the whole minibatch, so ranks' gradients add up
            statistics.gradient_norm[index] = clip_gradient(gradient, hyper.max_grad_norm)
            self._parameters.descend(hyper.learning_rate)

    def answer(self, minibatch: Samples) -> NetworkOutput:
        """The network's outputs for a minibatch."""
        answer: NetworkOutput = self._network(minibatch.inputs, minibatch.past)
        return answer

    def _differentiate(
        self, hyper: Coefficients, samples: Samples, statistics: EpochStatistics, rows: slice, index: int, batch: int
    ) -> None:
        """Add the gradient of ``rows`` of a minibatch.

        For members, the loss is the sum over them, so each gets its own.
        """
        minibatch = samples.map(lambda values: values[rows])  # views, not copies: rows are contiguous
        # Losses are means, so a piece's weight is its share of rows; P for P members.
        share = len(minibatch.returns) / batch
        with torch.enable_grad():
            loss, log_ratio, values, entropies = minibatch_loss(
                self._network, hyper, minibatch, self._objective, self.answer(minibatch)
            )
            self._parameters.differentiate(loss * share)  # adds to the flat gradient
        statistics.log_ratio[rows], statistics.values[rows] = log_ratio, values
        entropy = statistics.entropy[index]  # [], or [P]
        entropy += entropies.view(*entropy.shape, -1).mean(dim=-1) * (share / max(1, entropy.numel()))
