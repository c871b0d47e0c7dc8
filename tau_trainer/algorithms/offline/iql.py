"""Implicit Q-learning (Kostrikov, Nair and Levine 2022, arXiv 2110.06169): it evaluates only recorded actions.

- V follows an expectile of the target Qs of recorded actions (equation 5), the smaller of both.
- Both Qs follow ``r + gamma V(s')`` (equation 6); their targets follow them at ``tau``.
- The policy clones recorded actions, weighted by ``exp(inverse_temperature (Q - V))`` (equation 7), at most
  ``largest_weight``.

All losses use the weights before the step, so one optimizer step for everything is the same as one for each.
"""

from __future__ import annotations

import torch
from typing_extensions import override

from tau_trainer.algorithms.off_policy.transitions import Transitions
from tau_trainer.algorithms.offline.base import OfflineCritic
from tau_trainer.metrics import keys
from tau_trainer.settings import IQLHyperparameters


class IQL(OfflineCritic):
    """The learner of one behavior."""

    name = "iql"
    reported = (keys.POLICY_LOSS, keys.VALUE_LOSS, keys.Q1_LOSS, keys.Q2_LOSS)

    @override
    def losses(self, batch: Transitions) -> tuple[torch.Tensor, list[torch.Tensor]]:
        expectile = IQLHyperparameters.of(self.own).expectile
        answer = self.network(batch.inputs)
        with torch.no_grad():
            # [n, S].
            backup = torch.addcmul(batch.rewards, batch.goes_on * self.discounts, self.network.values(batch.following))
            advantage = self.of_actions(self.module.target, batch).amin(dim=0) - answer.values  # [n, S]
            weights = self.weights_of(advantage)  # [n]
            better = torch.where(advantage > 0.0, expectile, 1.0 - expectile)  # |tau - 1(u < 0)|, [n, S]
        # The sum is the advantage again, now with V's gradient.
        value = (better * (advantage + answer.values.detach() - answer.values).square()).mean()
        q = (self.of_actions(self.module.q, batch) - backup).square().mean(dim=(1, 2))  # [2]
        policy = -(weights * self.log_prob_of(answer.outputs, batch)).mean()
        return policy + value + q.sum(), [policy, value, q[0], q[1]]
