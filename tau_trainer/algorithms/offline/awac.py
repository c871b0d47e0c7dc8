"""Advantage-weighted actor-critic (Nair et al. 2020, arXiv 2006.09359).

- Both Qs follow ``r + gamma Q(s', a')`` of the smaller target Q, with ``a'`` drawn from the policy.
- The policy clones recorded actions, weighted by ``exp(inverse_temperature (Q(s, a) - Q(s, a')))`` (equation 13, where
  it is one over lambda), at most ``largest_weight``; ``a'`` is drawn from the policy again. For branches both are
  expectations.

Recordings do not contain the mask of the next state: a policy that was cloned from masked play has little probability
for forbidden values there.
"""

from __future__ import annotations

import torch
from typing_extensions import override

from tau_trainer.algorithms.off_policy.transitions import Transitions
from tau_trainer.algorithms.offline.base import OfflineCritic
from tau_trainer.metrics import keys


class AWAC(OfflineCritic):
    """The learner of one behavior."""

    name = "awac"
    reported = (keys.POLICY_LOSS, keys.Q1_LOSS, keys.Q2_LOSS)

    @override
    def losses(self, batch: Transitions) -> tuple[torch.Tensor, list[torch.Tensor]]:
        outputs, forbidden = self.network.outputs(batch.inputs), batch.forbidden  # outputs [n, c + M]
        of_actions = self.of_actions(self.module.q, batch)  # [2, n, S]
        with torch.no_grad():
            outputs_after = self.network.outputs(batch.following)
            # [n, S], the smaller one.
            after = self.of_policy(self.module.target, batch.following, outputs_after, None).amin(dim=0)
            backup = torch.addcmul(batch.rewards, batch.goes_on * self.discounts, after)  # [n, S]
            masked = forbidden if forbidden.shape[1] else None
            value = self.of_policy(self.module.q, batch.inputs, outputs, masked).amin(dim=0)  # [n, S]
            # [n]; no gradient: constants in the policy's loss.
            weights = self.weights_of(of_actions.amin(dim=0) - value)
        q = (of_actions - backup).square().mean(dim=(1, 2))  # [2]
        policy = -(weights * self.log_prob_of(outputs, batch)).mean()
        return policy + q.sum(), [policy, q[0], q[1]]
