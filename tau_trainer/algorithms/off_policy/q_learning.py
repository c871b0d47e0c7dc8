"""The gradient step of deep Q-learning (Mnih et al. 2015), for minibatches from engines or on tensors.

The gradient of the loss at the network's values is written by hand here, and torch continues it through any network.
Shapes: ``n`` transitions, ``b`` branches, ``M`` their sizes together.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from tau_trainer.algorithms.off_policy.transitions import Transitions, targets, values_after
from tau_trainer.algorithms.parameters import FlatParameters, clip_gradient, follower
from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.metrics import keys
from tau_trainer.models.action_values import ActionValues
from tau_trainer.models.actor_critic import ActorCritic
from tau_trainer.models.distributions import MASKED_LOGIT
from tau_trainer.models.mlp import Noise

if TYPE_CHECKING:
    from tau_trainer.settings import DQNHyperparameters


class QLearning:
    """Takes gradient steps.

    Args:
        module: the networks.
        parameters: the trained parameters, with their optimizer.
        hyperparameters: numbers of the algorithm.
        gamma: discount.
        noise: noise of noisy weights; None: no noise.
        ranks: the processes that learn together, each from the same number of rows.
    """

    def __init__(
        self,
        module: ActionValues,
        parameters: FlatParameters,
        hyperparameters: DQNHyperparameters,
        gamma: float,
        noise: Noise | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        self._module, self._parameters, self._hyperparameters = module, parameters, hyperparameters
        self._gamma, self._noise, self._ranks = gamma, noise, ranks or Ranks()
        self._follow = follower(module.target, module.network)
        self._bounds = module.network.action.bounds
        begins = [begin for begin, _ in self._bounds]
        self._begins = torch.tensor(begins, device=parameters.optimizer.parameters.device)  # int64 [b]
        """Column of each branch's first value."""
        self.clip = math.inf if hyperparameters.clip_td_err is None else hyperparameters.clip_td_err
        """Largest error that the memory learns."""
        self.limit = min(math.inf if hyperparameters.loss == "mse" else 1.0, self.clip)
        """Largest gradient of one error: where Huber's loss turns from squares to straight lines."""

    def goals(self, batch: Transitions) -> torch.Tensor:
        """``r + gamma max Q'`` [n] of the target network; with ``double`` the trained network chooses the maximum.

        Doubling: van Hasselt et al. 2016, equation 4. The value of a whole action is the mean over its branches.
        """
        network, target = self._module.network, self._module.target
        worth = self._after(target, batch)  # [n, M]
        scores = self._after(network, batch) if self._hyperparameters.double else worth  # [n, M]: scores to choose by
        following = worth.gather(1, self.best(scores, batch)).mean(1, keepdim=True)  # [n, 1]
        return targets(batch, self._gamma, following, self._hyperparameters.n_step)[:, 0]

    def best(self, scores: torch.Tensor, batch: Transitions) -> torch.Tensor:
        """The columns with the best ``scores`` [n, M] for the next decision, int64 [n, b]."""
        scores = scores.masked_fill(batch.forbidden_after, MASKED_LOGIT)
        return torch.stack([begin + scores[:, begin:end].argmax(dim=1) for begin, end in self._bounds], dim=1)

    @torch.no_grad()
    def step(self, batch: Transitions, learning_rate: float) -> torch.Tensor:
        """Take a gradient step.

        Returns:
            Loss, mean value of the stored actions, and norm of the gradient, [3]: see :func:`names_of`.
        """
        with torch.enable_grad():
            values = self.values(batch)  # [n, M]; the only part that torch differentiates
        chosen = batch.discrete + self._begins  # columns [n, b]
        worth = values.detach().gather(1, chosen).mean(dim=1)  # [n], of the stored actions
        errors = worth - self.goals(batch)  # temporal differences [n]
        sizes, limited = errors.abs(), errors.clamp(-self.limit, self.limit)
        weights = batch.weights if len(batch.weights) else None
        # d mean(w huber(e)) / d value = w clip(e) / (n b), in the columns of the stored actions
        upstream = limited / chosen.numel() if weights is None else limited * weights / chosen.numel()
        gradient = torch.zeros_like(values).scatter_(1, chosen, upstream[:, None].expand_as(chosen))
        self._parameters.optimizer.gradient.zero_()
        values.backward(gradient)  # type: ignore[no-untyped-call]
        norm = self.descend(learning_rate)
        if len(batch.errors):
            batch.errors.copy_(sizes.clamp(max=self.clip))  # priorities of the memory
        # Huber: e²/2, and beyond the limit d (|e| - d/2)
        losses = limited.abs() * (sizes - 0.5 * limited.abs())
        return torch.stack(((losses if weights is None else losses * weights).mean(), worth.mean(), norm))

    def descend(self, learning_rate: float) -> torch.Tensor:
        """Step along the gradient, then let the target follow; returns the gradient's norm [] before clipping."""
        gradient = self._ranks.mean(self._parameters.optimizer.gradient)
        norm = clip_gradient(gradient, self._hyperparameters.max_grad_norm or 0.0)
        self._parameters.descend(learning_rate)
        if int(self._parameters.optimizer.step) % self._hyperparameters.target_update_interval == 0:
            self._follow(self._hyperparameters.tau)
        return norm

    def values(self, batch: Transitions) -> torch.Tensor:
        """The network's values of the observations, [n, M]."""
        return self._module.values(self._module.network, batch.inputs, batch.past, self._noise)

    def _after(self, network: ActorCritic, batch: Transitions) -> torch.Tensor:
        """A network's values [n, M] of the next observations."""
        return values_after(lambda inputs, past: self._module.values(network, inputs, past, self._noise), batch)


def names_of(stream: str) -> tuple[str, ...]:
    """TensorBoard names of :meth:`QLearning.step`'s results; ``stream``: the reward that is learned from."""
    return keys.Q_LOSS, keys.value(stream), keys.GRADIENT_NORM
