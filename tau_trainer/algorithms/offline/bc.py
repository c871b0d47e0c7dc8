"""Behavioral cloning: the policy that makes the recorded actions most likely (Pomerleau 1989).

The loss is the negative log-likelihood of whole actions, summed over their components, in nats: of Gaussians in raw
units (three times the environment's), of branches and levels as they are. Rewards do not matter.
"""

from __future__ import annotations

import torch
from typing_extensions import override

from tau_trainer.algorithms.off_policy.transitions import Transitions
from tau_trainer.algorithms.offline.base import Offline
from tau_trainer.metrics import keys
from tau_trainer.models import ActorCritic


class BC(Offline):
    """The learner of one behavior; recurrent networks learn from sequences that start without a past."""

    name = "bc"
    reported = (keys.POLICY_LOSS,)

    @override
    def build(self) -> ActorCritic:
        self.network = self.new_network()
        return self.network

    @override
    def losses(self, batch: Transitions) -> tuple[torch.Tensor, list[torch.Tensor]]:
        loss = -self.log_prob_of(self.network.outputs(batch.inputs, batch.past), batch).mean()
        return loss, [loss]
