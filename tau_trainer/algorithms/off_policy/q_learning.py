"""The gradient step of deep Q-learning (Mnih et al. 2015), whoever draws its minibatches: from engines or on tensors.

The gradient of the loss at the network's values is written down here, and torch takes it from there through any
network. Shapes: ``n`` transitions, ``b`` branches, ``M`` their sizes together.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from tau_trainer.algorithms.off_policy.transitions import Transitions, values_after
from tau_trainer.algorithms.parameters import FlatParameters, clip_gradient, follower
from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.metrics import keys
from tau_trainer.models.action_values import ActionValues
from tau_trainer.models.actor_critic import ActorCritic
from tau_trainer.models.distributions import MASKED_LOGIT, branch_bounds
from tau_trainer.models.mlp import Noise

if TYPE_CHECKING:
    from tau_trainer.settings import DQNHyperparameters


class QLearning:
    """Takes gradient steps.

    Args:
        module: the networks.
        parameters: of what is learned, with their optimizer.
        hyperparameters: numbers of the algorithm.
        gamma: discount.
        noise: of noisy weights; None: without.
        ranks: who learns together, each from as many rows.
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
        self._bounds = branch_bounds(module.network.action.choices.discrete_branches)
        begins = [begin for begin, _ in self._bounds]
        self._begins = torch.tensor(begins, device=parameters.optimizer.parameters.device)  # int64 [b]
        """Column of each branch's first value."""
        self.clip = math.inf if hyperparameters.clip_td_err is None else hyperparameters.clip_td_err
        """Largest error that the memory learns of."""
        self.limit = min(math.inf if hyperparameters.loss == "mse" else 1.0, self.clip)
        """Largest gradient of one error: where Huber's loss turns from squares to straight lines."""

    def goals(self, batch: Transitions) -> torch.Tensor:
        """``r + gamma max Q'`` [n] of the target network; with ``double`` our network says which is the largest.

        Doubling: van Hasselt et al. 2016, equation 4. A whole action is worth the mean over its branches.
        """
        network, target = self._module.network, self._module.target
        worth = self._after(target, batch)  # [n, M]
        scores = self._after(network, batch) if self._hyperparameters.double else worth  # [n, M]: who chooses
        following = worth.gather(1, self.best(scores, batch)).mean(dim=1)  # [n]
        return torch.addcmul(batch.rewards[:, 0], batch.goes_on[:, 0], following, value=self._gamma)

    def best(self, scores: torch.Tensor, batch: Transitions) -> torch.Tensor:
        """The columns of the next decision by ``scores`` [n, M], int64 [n, b]."""
        scores = scores.masked_fill(batch.forbidden_after, MASKED_LOGIT)
        return torch.stack([begin + scores[:, begin:end].argmax(dim=1) for begin, end in self._bounds], dim=1)

    @torch.no_grad()
    def step(self, batch: Transitions, learning_rate: float) -> torch.Tensor:
        """Take one.

        Returns:
            Loss, mean value of what was done, and norm of the gradient, [3]: see :func:`names_of`.
        """
        with torch.enable_grad():
            values = self.values(batch)  # [n, M]; the only part that torch differentiates
        chosen = batch.discrete + self._begins  # columns [n, b]
        worth = values.detach().gather(1, chosen).mean(dim=1)  # [n], of what was done
        errors = worth - self.goals(batch)  # temporal differences [n]
        sizes, limited = errors.abs(), errors.clamp(-self.limit, self.limit)
        weights = batch.weights if len(batch.weights) else None
        # d mean(w huber(e)) / d value = w clip(e) / (n b), in the columns of what was done
        upstream = limited / chosen.numel() if weights is None else limited * weights / chosen.numel()
        gradient = torch.zeros_like(values).scatter_(1, chosen, upstream[:, None].expand_as(chosen))
        self._parameters.optimizer.gradient.zero_()
        values.backward(gradient)  # type: ignore[no-untyped-call]
        norm = self.descend(learning_rate)
        if len(batch.errors):
            batch.errors.copy_(sizes.clamp(max=self.clip))  # what the memory draws by
        # Huber: e²/2, and beyond the limit d (|e| - d/2)
        losses = limited.abs() * (sizes - 0.5 * limited.abs())
        return torch.stack(((losses if weights is None else losses * weights).mean(), worth.mean(), norm))

    def descend(self, learning_rate: float) -> torch.Tensor:
        """Go along the gradient, and the target after us; the norm [] that it had before it was clipped."""
        gradient = self._ranks.mean(self._parameters.optimizer.gradient)
        norm = clip_gradient(gradient, self._hyperparameters.max_grad_norm or 0.0)
        self._parameters.descend(learning_rate)
        if int(self._parameters.optimizer.step) % self._hyperparameters.target_update_interval == 0:
            self._follow(self._hyperparameters.tau)
        return norm

    def values(self, batch: Transitions) -> torch.Tensor:
        """What our network says of the observations that were decided upon, [n, M]."""
        return self._module.values(self._module.network, batch.inputs, *batch.past, self._noise)

    def _after(self, network: ActorCritic, batch: Transitions) -> torch.Tensor:
        """What a network says [n, M] of the observations that came after."""
        return values_after(
            lambda inputs, state, begins: self._module.values(network, inputs, state, begins, self._noise), batch
        )


def names_of(stream: str) -> tuple[str, ...]:
    """TensorBoard names of what :meth:`QLearning.step` returns; ``stream``: the reward that is learned from."""
    return keys.Q_LOSS, keys.value(stream), keys.GRADIENT_NORM
