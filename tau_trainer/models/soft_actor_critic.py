"""The networks of soft actor-critic: a policy with its values, a slowly following copy of the values, and twin Qs."""

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
from tau_trainer.models.observation_encoder import Inputs, TowerFeatures, make_encoders

if TYPE_CHECKING:
    from tau_trainer.settings import NetworkSettings
    from tau_trainer.specs import ActionSpec, BehaviorSpec

TWINS = 2
"""Estimates of Q, of which the smaller one counts (Fujimoto et al. 2018)."""


class TwinQ(torch.nn.Module):
    """Two estimates of Q (or any number ``E``), each with separate layers: [E, n, S, A] for all ``S`` streams.

    Continuous actions are inputs together with the features, and ``A`` is 1; with branches, ``A`` is the sum of their
    sizes: a number for each discrete action. Heads start at zero, like those of values.

    Args:
        spec: the behavior with the sensors that the policy sees.
        choices: the random choices.
        settings: shape of the layers.
        streams: number of reward streams, ``S``.
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

    def see(self, inputs: Inputs) -> list[TowerFeatures]:
        """Each estimate's features of observations."""
        seen = [encoder(inputs) for encoder in self.encoders] or [TowerFeatures(inputs[0], inputs[0])]
        return seen * (self.estimates // len(seen))  # one encoder serves all of them

    def forward(
        self,
        seen: Sequence[TowerFeatures],
        continuous: torch.Tensor,
        begins: torch.Tensor | None = None,
        *,
        frozen: bool = False,
    ) -> torch.Tensor:
        """Q [E, n, S, A] from what they :meth:`see` and continuous actions [n, c] in [-1, 1].

        Args:
            seen: by each of them.
            continuous: the actions.
            begins: bool [n], starts of sequences; a memory starts each of them empty, as in ML-Agents.
            frozen: gradients go only to the actions.
        """
        if frozen:
            # Encoders do not learn either; the actions' gradient is kept.
            seen = [TowerFeatures(*(values.detach() for values in parts)) for parts in seen]
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
        # The stored state is the policy's, not Q's.
        features = memory.unrolled(x, x.new_zeros(len(x), memory.state_size), begins)
        memory.requires_grad_(True)
        return features


class SoftActorCritic(torch.nn.Module):
    """All networks that soft actor-critic trains.

    Args:
        spec: the behavior with the sensors that the policy sees.
        settings: shape of all networks.
        streams: name of each reward stream and its width, 1.
        entropy_coefficient: initial value.
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
        """Only its values are used; its inputs are prepared by :attr:`network`."""
        self.target.normalizer = None
        choices = self.network.action.choices
        self.q = TwinQ(spec, choices, settings, len(streams), generator)
        self.log_coefficients = log_coefficients(choices, entropy_coefficient)


class NormalizedSoftActorCritic(torch.nn.Module):
    """A policy, twin Qs with layer normalisation, and a slowly following copy of the Qs.

    Args:
        spec: the behavior with the sensors that the policy sees.
        settings: shape of all networks.
        streams: number of reward streams.
        entropy_coefficient: initial value.
        generator: source of the initial weights.
    """

    scale: torch.Tensor
    """float32 []: current size of returns, by which those of the Qs are divided."""

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
        self.q.encoders = self.network.encoders
        for layers in (self.q.body, self.q.hyper):  # a net_arch has its own normalisation
            if isinstance(layers, MLP | HyperLayer):
                layers.normalized = True
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
        self.log_coefficients = log_coefficients(choices, entropy_coefficient)
        self.register_buffer("scale", torch.ones(()))

    @torch.no_grad()
    def rescale(self, scale: float | torch.Tensor) -> None:
        """Change the unit of the Qs, but not the returns that they represent (van Hasselt et al. 2016, PopArt)."""
        factor = self.scale / scale
        for head in (self.q.weight, self.q.bias, self.q_target.weight, self.q_target.bias):
            head.mul_(factor)
        self.scale.fill_(scale)


def log_coefficients(choices: ActionSpec, entropy_coefficient: float) -> torch.nn.Parameter:
    """Logarithms of the entropy coefficients: of all continuous actions together, then of each branch."""
    logarithm = math.log(max(entropy_coefficient, 1e-8))  # 0 has no logarithm; this is close enough
    return torch.nn.Parameter(torch.full((int(choices.continuous_size > 0) + choices.discrete_size,), logarithm))
