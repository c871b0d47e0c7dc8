"""The networks of soft actor-critic: a policy with its values, a copy of the values that lags behind, and twin Qs."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from tau_trainer.models.actor_critic import ActorCritic, make_memories
from tau_trainer.models.blocks import Recurrent
from tau_trainer.models.heads import Acting
from tau_trainer.models.hyper import HyperLayer, make_body
from tau_trainer.models.mlp import MLP
from tau_trainer.models.observation_encoder import Inputs, Seen, make_encoders

if TYPE_CHECKING:
    from tau_trainer.settings import NetworkSettings
    from tau_trainer.specs import ActionSpec, BehaviorSpec

TWINS = 2
"""Estimates of Q, of which the smaller one counts (Fujimoto et al. 2018)."""


class TwinQ(torch.nn.Module):
    """Two estimates of Q (or any number ``E``), each with layers of its own: [E, n, S, A] for all ``S`` streams.

    Continuous actions go in beside the features; ``A`` is 1 then, or with branches the sum of their sizes: a number
    for each discrete action. Heads begin at zero, as those of values do.

    Args:
        spec: the behavior with the sensors that the policy sees.
        choices: what is drawn.
        settings: shape of the layers.
        streams: how many reward streams there are, ``S``.
        generator: source of the initial weights.
        estimates: ``E``.
    """

    def __init__(
        self,
        spec: BehaviorSpec,
        choices: ActionSpec,
        settings: NetworkSettings,
        streams: int,
        generator: torch.Generator,
        estimates: int = TWINS,
    ) -> None:
        super().__init__()
        self.streams = streams
        self.estimates = estimates
        self.encoders, size, goal = make_encoders(spec, settings, estimates, generator)
        self.body, self.hyper = make_body(size + choices.continuous_size, goal, settings, estimates, generator)
        outputs = streams * max(1, choices.mask_size)
        size = self.body.size if self.hyper is None else self.hyper.size
        self.memories = torch.nn.ModuleList()
        if settings.memory is not None:
            self.memories, size = make_memories(size, settings.memory, estimates, generator)
        self.weight = torch.nn.Parameter(torch.zeros(estimates, size, outputs))
        self.bias = torch.nn.Parameter(torch.zeros(estimates, 1, outputs))

    def see(self, inputs: Inputs) -> list[Seen]:
        """What each of them makes of observations."""
        return [encoder(inputs) for encoder in self.encoders] or [Seen(inputs[0], inputs[0])] * self.estimates

    def forward(
        self,
        seen: Sequence[Seen],
        continuous: torch.Tensor,
        begins: torch.Tensor | None = None,
        *,
        frozen: bool = False,
    ) -> torch.Tensor:
        """Q [E, n, S, A] of what they :meth:`see` and continuous actions [n, c] in [-1, 1].

        Args:
            seen: by each of them.
            continuous: the actions.
            begins: bool [n], where sequences begin; a memory begins each of them empty, as in ML-Agents.
            frozen: gradients go to the actions alone.
        """
        if frozen:
            # Encoders learn nothing either; the actions' gradient is not cut.
            seen = [Seen(*(values.detach() for values in parts)) for parts in seen]
        x = torch.stack([torch.cat((parts.features, continuous), dim=1) for parts in seen])  # [E, n, features + c]
        x = self.body.together(x, frozen=frozen)  # [E, n, H]
        if self.hyper is not None:
            x = self.hyper.together(x, [parts.goal for parts in seen], frozen=frozen)
        if begins is not None:
            x = torch.stack(
                [self._remembered(tower, x[tower], begins, frozen=frozen) for tower in range(self.estimates)]
            )
        weight, bias = (self.weight.detach(), self.bias.detach()) if frozen else (self.weight, self.bias)
        return torch.baddbmm(bias, x, weight).view(self.estimates, len(continuous), self.streams, -1)  # [E, n, S, A]

    def _remembered(self, tower: int, x: torch.Tensor, begins: torch.Tensor, *, frozen: bool) -> torch.Tensor:
        memory = self.memories[tower]
        assert isinstance(memory, Recurrent)
        memory.requires_grad_(not frozen)  # torch's LSTM takes no detached copies of its weights
        # The state that was stored is the policy's, not Q's.
        features = memory.unrolled(x, x.new_zeros(len(x), memory.state_size), begins)
        memory.requires_grad_(True)
        return features


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
        self.network = ActorCritic(spec, settings, streams, acting=Acting(squashed=True), generator=generator)
        self.target = copy.deepcopy(self.network).requires_grad_(False)
        """Of which the values alone are asked; what goes in, :attr:`network` has prepared."""
        self.target.normalizer = None
        choices = self.network.action.choices
        self.q = TwinQ(spec, choices, settings, len(streams), generator)
        self.log_coefficients = log_coefficients(choices, entropy_coefficient)


class NormalizedSoftActorCritic(torch.nn.Module):
    """A policy, twin Qs with layer normalisation, and a copy of the Qs that lags behind.

    Args:
        spec: the behavior with the sensors that the policy sees.
        settings: shape of all networks.
        streams: how many reward streams there are.
        entropy_coefficient: at the start.
        generator: source of the initial weights.
    """

    scale: torch.Tensor
    """float32 []: size of the returns that the Qs say now, by which they are divided."""

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: NetworkSettings,
        streams: int,
        entropy_coefficient: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        acting = Acting(squashed=True)
        self.network = ActorCritic(spec, settings, {}, shared_critic=True, acting=acting, generator=generator)
        choices = self.network.action.choices
        self.q = TwinQ(spec, choices, settings, streams, generator)
        for layers in (self.q.body, self.q.hyper):  # a net_arch says itself what it normalises
            if isinstance(layers, MLP | HyperLayer):
                layers.normalized = True
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
        self.log_coefficients = log_coefficients(choices, entropy_coefficient)
        self.register_buffer("scale", torch.ones(()))

    @torch.no_grad()
    def rescale(self, scale: float) -> None:
        """Let the Qs say the same returns in another unit (van Hasselt et al. 2016, PopArt)."""
        factor = self.scale / scale
        for head in (self.q.weight, self.q.bias, self.q_target.weight, self.q_target.bias):
            head.mul_(factor)
        self.scale.fill_(scale)


def log_coefficients(choices: ActionSpec, entropy_coefficient: float) -> torch.nn.Parameter:
    """Logarithms of the entropy coefficients: of all continuous actions together, then of each branch."""
    logarithm = math.log(max(entropy_coefficient, 1e-8))  # 0 has no logarithm, and this is as good as none
    return torch.nn.Parameter(torch.full((int(choices.continuous_size > 0) + choices.discrete_size,), logarithm))
