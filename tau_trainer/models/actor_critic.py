"""The network of an on-policy trainer: observations through a body of swish layers to action heads and values.

Actor and critic have a body each (*towers* of the same shape, kept in stacked ``[towers, in, out]`` matrices so that
one batched product serves both) or share one. Weights are ``[in, out]``: a layer is ``x @ W + b``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from tau_trainer.models.initialization import LOGITS_GAIN, MEAN_GAIN, kaiming_normal_, xavier_uniform_
from tau_trainer.models.layout import ParameterLayout
from tau_trainer.specs import ActionSpec

Parameters = Mapping[str, torch.Tensor]
"""Parameters by name, as :meth:`ParameterLayout.views` gives them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorCritic:
    """Shape of the network; the parameters live outside, in a flat vector with this :attr:`layout`.

    Attributes:
        observation_size: ``D``, floats of all sensors together.
        actions: continuous actions get a Gaussian mean each and a log sigma that does not depend on the observation;
            discrete branches get logits.
        hidden_units: width ``H`` of every hidden layer.
        num_layers: hidden layers; 0 makes heads that are linear in the observation.
        values: ``R``, outputs of the critic.
        shared_critic: one body for both.
    """

    observation_size: int
    actions: ActionSpec
    hidden_units: int = 128
    num_layers: int = 2
    values: int = 1
    shared_critic: bool = False

    @property
    def towers(self) -> int:
        """Number of bodies: the actor's is the first, the critic's the last."""
        return 1 if self.shared_critic else 2

    @property
    def layout(self) -> ParameterLayout:
        """The parameters and their shapes.

        ``body.<l>.weight`` [towers, in, H], ``body.<l>.bias`` [towers, 1, H], ``action.weight`` [H, c + M] (means,
        then logits of all branches), ``action.bias`` [c + M], ``action.log_sigma`` [c], ``value.weight`` [H, R],
        ``value.bias`` [R].
        """
        units, outputs = self.hidden_units, self.actions.continuous_size + self.actions.mask_size
        inputs = [self.observation_size] + [units] * self.num_layers
        weights: dict[str, tuple[int, ...]] = {
            f"body.{layer}.weight": (self.towers, inputs[layer], units) for layer in range(self.num_layers)
        }
        weights |= {"action.weight": (inputs[-1], outputs), "value.weight": (inputs[-1], self.values)}
        others: dict[str, tuple[int, ...]] = {
            f"body.{layer}.bias": (self.towers, 1, units) for layer in range(self.num_layers)
        }
        others |= {
            "action.bias": (outputs,),
            "action.log_sigma": (self.actions.continuous_size,),
            "value.bias": (self.values,),
        }
        return ParameterLayout(weights | others, decayed=len(weights))

    def initialize(self, flat: torch.Tensor, generator: torch.Generator) -> None:
        """Fill the flat vector with initial weights: Kaiming-normal layers, zero biases, log sigma 0."""
        flat.zero_()
        parameters, continuous = self.layout.views(flat), self.actions.continuous_size
        for layer in range(self.num_layers):
            kaiming_normal_(parameters[f"body.{layer}.weight"], generator)
        kaiming_normal_(parameters["action.weight"][:, :continuous], generator, MEAN_GAIN)
        kaiming_normal_(parameters["action.weight"][:, continuous:], generator, LOGITS_GAIN)
        xavier_uniform_(parameters["value.weight"], generator)

    def forward(self, parameters: Parameters, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Action outputs [n, c + M] (means, then logits) and values [n, R] of normalised observations [n, D]."""
        return self.action_outputs(parameters, observations), self.value(parameters, observations)

    def action_outputs(self, parameters: Parameters, observations: torch.Tensor) -> torch.Tensor:
        """Means and logits [n, c + M] of normalised observations [n, D]."""
        hidden = self._body(parameters, observations, tower=0)
        return torch.addmm(parameters["action.bias"], hidden, parameters["action.weight"])

    def value(self, parameters: Parameters, observations: torch.Tensor) -> torch.Tensor:
        """Values [n, R] of normalised observations [n, D]."""
        hidden = self._body(parameters, observations, tower=self.towers - 1)
        return torch.addmm(parameters["value.bias"], hidden, parameters["value.weight"])

    def _body(self, parameters: Parameters, hidden: torch.Tensor, tower: int) -> torch.Tensor:
        for layer in range(self.num_layers):
            weight, bias = parameters[f"body.{layer}.weight"], parameters[f"body.{layer}.bias"]
            hidden = torch.nn.functional.silu(torch.addmm(bias[tower], hidden, weight[tower]))
        return hidden
