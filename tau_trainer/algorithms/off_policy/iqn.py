"""Implicit quantile networks (Dabney et al. 2018): deep Q-learning of the whole distribution of returns.

The network gives the value of an action at any fraction tau of the distribution; see
:class:`~tau_trainer.models.heads.QuantileHead`. Everything else is DQN's: with several branches, the quantiles of a
whole action are the mean over its branches, and with ``double`` the network chooses the action whose distribution the
target gives. Shapes: ``N`` and ``N'`` are numbers of fractions for the stored action and for the target.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from typing_extensions import override

from tau_trainer.algorithms.off_policy.dqn import DQN
from tau_trainer.algorithms.off_policy.q_learning import QLearning
from tau_trainer.algorithms.off_policy.transitions import Transitions, targets, values_after
from tau_trainer.models.actor_critic import ActorCritic
from tau_trainer.models.heads import Acting, QuantileHead
from tau_trainer.settings import IQNHyperparameters


class IQN(DQN):
    """The learner of one behavior. Raises SettingsError like :class:`DQN`."""

    name = "iqn"
    data_parallel = False

    @override
    def acting(self) -> Acting:
        hyper = IQNHyperparameters.of(self.hyperparameters)
        return replace(super().acting(), head=partial(QuantileHead, hyper=hyper))

    @override
    def learning(self) -> QLearning:
        hyper = IQNHyperparameters.of(self.hyperparameters)
        return QuantileLearning(self.module, self.parameters, hyper, float(self.gammas[0]), self._fractions)

    def _fractions(self, rows: int, size: int) -> torch.Tensor:
        source = self.generator
        return torch.rand(rows, size, generator=source, device=source.device).to(self.device)


class QuantileLearning(QLearning):
    """Takes gradient steps like :class:`QLearning`; its ``noise`` draws fractions, uniform in [0, 1)."""

    @override
    @torch.no_grad()
    def step(self, batch: Transitions, learning_rate: float) -> torch.Tensor:
        """Take a gradient step.

        Returns:
            Loss, mean value of the stored actions, and norm of the gradient, [3].
        """
        hyper, draw = IQNHyperparameters.of(self._hyperparameters), self._noise
        assert draw is not None
        rows, chosen = len(batch.rewards), batch.discrete + self._begins
        fractions = draw(rows, hyper.num_tau_samples)  # [n, N]
        goals = self._quantile_goals(batch, draw(rows, hyper.num_tau_prime_samples))  # [n, N']
        self._parameters.optimizer.gradient.zero_()
        with torch.enable_grad():
            features = self._module.network.features(batch.inputs, batch.past)
            worth = _worth(self._module.network, features, fractions, chosen)  # [n, N]
            losses = quantile_huber(worth, goals, fractions, hyper.kappa)  # [n]
            loss = (losses * batch.weights if len(batch.weights) else losses).mean()
            self._parameters.differentiate(loss)
        norm = self.descend(learning_rate)
        if len(batch.errors):
            batch.errors.copy_(losses)  # priorities of the memory: the loss, as in Rainbow
        return torch.stack((loss.detach(), worth.detach().mean(), norm))

    def _quantile_goals(self, batch: Transitions, fractions: torch.Tensor) -> torch.Tensor:
        """``r + gamma Z'_tau`` [n, N'] of the action with the best mean over fixed fractions."""
        network, target = self._module.network, self._module.target
        after = values_after(target.features, batch)
        judge = (network, values_after(network.features, batch)) if self._hyperparameters.double else (target, after)
        best = self.best(judge[0].action(judge[1]), batch)
        return targets(batch, self._gamma, _worth(target, after, fractions, best), self._hyperparameters.n_step)


def quantile_huber(worth: torch.Tensor, goals: torch.Tensor, fractions: torch.Tensor, kappa: float) -> torch.Tensor:
    """The quantile Huber loss (Dabney et al. 2018, equation 3), [n]: a sum over ``N`` of means over ``N'``.

    Args:
        worth: quantiles [n, N].
        goals: their targets [n, N'].
        fractions: of ``worth``, [n, N].
        kappa: error at which squares turn to straight lines.
    """
    errors = goals[:, None] - worth[:, :, None]  # [n, N, N']
    limited = errors.abs().clamp(max=kappa)
    huber = limited * (errors.abs() - 0.5 * limited)  # e²/2, and beyond kappa: kappa (|e| - kappa / 2)
    shares = (fractions[:, :, None] - (errors.detach() < 0).to(errors.dtype)).abs()
    return (shares * huber / kappa).mean(dim=2).sum(dim=1)


def _worth(network: ActorCritic, features: torch.Tensor, fractions: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """Values of actions (columns [n, b]) at these fractions, [n, N]: the mean over their branches."""
    head = network.action
    assert isinstance(head, QuantileHead)
    values = head.quantiles(features, fractions)  # [n, N, M]
    return values.gather(2, chosen[:, None].expand(-1, fractions.shape[1], -1)).mean(dim=2)
