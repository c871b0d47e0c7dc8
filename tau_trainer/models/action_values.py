"""The networks of deep Q-learning: values of actions, and a slowly following copy of them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch

from tau_trainer.models.actor_critic import CLOCK, ActorCritic
from tau_trainer.models.blocks import NO_PAST, Past
from tau_trainer.models.distributions import branch_bounds
from tau_trainer.models.mlp import Noise
from tau_trainer.models.observation_encoder import Inputs

if TYPE_CHECKING:
    from tau_trainer.models.heads import Acting
    from tau_trainer.settings import NetworkSettings
    from tau_trainer.specs import BehaviorSpec


class ActionValues(torch.nn.Module):
    """All networks that deep Q-learning trains.

    The network's logits are the values of all actions. *Dueling* ones (Wang et al. 2016) are advantages, and the
    critic's tower gives the value of the observation itself. The best action, and by how much it is best, depends only
    on advantages, so acting and exporting need nothing else.

    Args:
        spec: the behavior with the sensors that the policy sees.
        settings: shape of the networks.
        acting: how agents act.
        dueling: whether there is a tower for the observation's value.
        generator: source of the initial weights.
    """

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: NetworkSettings,
        acting: Acting,
        *,
        dueling: bool,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.network = ActorCritic(
            spec,
            settings,
            {"value": 1} if dueling else {},
            shared_critic=not dueling,
            acting=acting,
            generator=generator,
        )
        self.target = copy.deepcopy(self.network).requires_grad_(False)
        """Its inputs are prepared by :attr:`network`."""
        # Its inputs are normalised already, and it does not explore.
        self.target.normalizer = self.target.exploration = None
        delattr(self.target, CLOCK)
        self.dueling = dueling
        sizes = self.network.action.choices.discrete_branches
        shares = torch.zeros(sum(sizes), len(sizes))  # [M, b]
        for branch, (begin, end) in enumerate(branch_bounds(sizes)):
            shares[begin:end, branch] = 1.0 / (end - begin)
        self.shares: torch.Tensor
        """[M, b]: one over the size of the branch that a value belongs to, 0 for other branches."""
        self.register_buffer("shares", shares, persistent=False)

    def values(
        self, network: ActorCritic, inputs: Inputs, past: Past = NO_PAST, noise: Noise | None = None
    ) -> torch.Tensor:
        """The values of all branches, [n, M]; ``network`` is ours or the target, the other arguments are its inputs."""
        if not self.dueling:
            return network.outputs(inputs, past, noise)
        answer = network(inputs, past, noise)
        advantages: torch.Tensor = answer.outputs  # [n, M]
        means = torch.mm(advantages, self.shares)  # [n, b], one for each branch
        # Q = V + A - mean A (Wang et al. 2016, equation 9), separately in each branch.
        worth: torch.Tensor = advantages - torch.mm(means, (self.shares > 0).float().t()) + answer.values
        return worth
