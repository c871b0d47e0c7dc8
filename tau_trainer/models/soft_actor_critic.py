"""The networks of soft actor-critic: a policy with its values, a copy of the values that lags behind, and twin Qs."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from tau_trainer.models.actor_critic import ActorCritic, Inputs, make_towers
from tau_trainer.models.mlp import MLP

if TYPE_CHECKING:
    from tau_trainer.settings import NetworkSettings
    from tau_trainer.specs import ActionSpec, BehaviorSpec

TWINS = 2
"""Estimates of Q, of which the smaller one counts (Fujimoto et al. 2018)."""


class TwinQ(torch.nn.Module):
    """Two estimates of Q, each with layers of its own: [2, n, S, A] for all ``S`` streams.

    Continuous actions go in beside the features; ``A`` is 1 then, or with branches the sum of their sizes: a number
    for each discrete action. Heads begin at zero, as those of values do.

    Args:
        spec: the behavior with the sensors that the policy sees.
        choices: what is drawn.
        settings: shape of the layers.
        streams: how many reward streams there are, ``S``.
        generator: source of the initial weights.
    """

    def __init__(
        self,
        spec: BehaviorSpec,
        choices: ActionSpec,
        settings: NetworkSettings,
        streams: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.streams = streams
        self.encoders, size = make_towers(spec, settings, TWINS, generator)
        self.body = MLP(size + choices.continuous_size, settings.hidden_units, settings.num_layers, TWINS, generator)
        outputs = streams * max(1, choices.mask_size)
        self.weight = torch.nn.Parameter(torch.zeros(TWINS, self.body.size, outputs))
        self.bias = torch.nn.Parameter(torch.zeros(TWINS, 1, outputs))

    def forward(self, inputs: Inputs, continuous: torch.Tensor, *, frozen: bool = False) -> torch.Tensor:
        """Q [2, n, S, A] of continuous actions [n, c] in [-1, 1]; ``frozen``: gradients go to the actions alone."""
        if not self.encoders:
            x = torch.cat((inputs[0], continuous), dim=1).expand(TWINS, -1, -1)
        else:
            with torch.set_grad_enabled(torch.is_grad_enabled() and not frozen):
                seen = [self._seen(tower, inputs) for tower in range(TWINS)]
            x = torch.stack([torch.cat((one, continuous), dim=1) for one in seen])
        weight, bias = (self.weight.detach(), self.bias.detach()) if frozen else (self.weight, self.bias)
        q = torch.baddbmm(bias, self.body.together(x, frozen=frozen), weight)
        return q.view(TWINS, len(continuous), self.streams, -1)

    def _seen(self, tower: int, inputs: Inputs) -> torch.Tensor:
        own = self.encoders[tower]
        assert isinstance(own, torch.nn.ModuleList)
        return torch.cat([inputs[0], *(encoder(one) for encoder, one in zip(own, inputs[1:], strict=True))], dim=1)


class SoftActorCritic(torch.nn.Module):
    """Everything that soft actor-critic learns.

    Args:
        spec: the behavior with the sensors that the policy sees.
        settings: shape of all networks.
        streams: name of each reward stream and its width, 1.
        entropy_coefficient: at the start.
        generator: source of the initial weights.
    """

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: NetworkSettings,
        streams: Mapping[str, int],
        entropy_coefficient: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.network = ActorCritic(spec, settings, streams, squashed=True, generator=generator)
        self.target = copy.deepcopy(self.network).requires_grad_(False)
        """Of which the values alone are asked; what goes in, :attr:`network` has prepared."""
        self.target.normalizer = None
        choices = self.network.action.choices
        self.q = TwinQ(spec, choices, settings, len(streams), generator)
        log_coefficient = math.log(max(entropy_coefficient, 1e-8))  # 0 has no logarithm, and this is as good as none
        sizes = int(choices.continuous_size > 0) + choices.discrete_size
        self.log_coefficients = torch.nn.Parameter(torch.full((sizes,), log_coefficient))
        """Logarithms of the entropy coefficients: of all continuous actions together, then of each branch."""
