"""A hidden layer whose weights another network computes from the agent's goal (Ha et al. 2016), as in ML-Agents."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from tau_trainer.errors import SettingsError
from tau_trainer.models.graph import NORM_EPSILON
from tau_trainer.models.mlp import MLP, Layer, activate, kaiming_normal_
from tau_trainer.models.net_arch import NetArch

if TYPE_CHECKING:
    from tau_trainer.models.graph import GraphWriter
    from tau_trainer.settings import NetworkSettings

_FEW = 2
"""Mean number of rows per goal from which each goal's weights are computed only once."""
_AT_ONCE = 2**24
"""Number of weights to compute at once: 64 MiB."""


class HyperLayer(torch.nn.Module):
    """``swish(x @ W(goal) + bias)`` for every tower.

    ``W`` comes from two hidden layers with swish, a normalisation and a linear layer over the goal.

    Args:
        inputs: number of input features, ``I``.
        goals: number of features of the goal, ``G``.
        units: number of output features, ``H``, and width of the layers that compute the weights.
        towers: number of towers.
    """

    normalized = False
    """Whether the activation is normalized, see :func:`activate`; set it after construction."""

    def __init__(self, inputs: int, goals: int, units: int, towers: int, generator: torch.Generator) -> None:
        super().__init__()
        self.inputs, self.size = inputs, units
        self.first, self.second = Layer(towers, goals, units), Layer(towers, units, units)
        self.made = Layer(towers, units, inputs * units)
        self.bias = torch.nn.Parameter(torch.zeros(towers, 1, units))
        for layer in (self.first, self.second):
            kaiming_normal_(layer.weight, generator)
        bound = math.sqrt(1.0 / (units * inputs))  # as torch initialises linear layers, for the inputs of W
        with torch.no_grad():
            self.made.weight.uniform_(-bound, bound, generator=generator)

    def forward(self, x: torch.Tensor, goal: torch.Tensor, tower: int, *, frozen: bool = False) -> torch.Tensor:
        """Features [n, H] of one tower from inputs [n, I] and goals [n, G]; ``frozen``: gradients go only to ``x``."""
        rows = max(1, _AT_ONCE // (self.inputs * self.size))  # goals whose weights are computed at once
        # Group equal goals only if no gradient flows to them.
        groups = None if goal.requires_grad else _by_goal(goal, rows)
        if groups is None:
            each = zip(torch.split(x, rows), torch.split(goal, rows), strict=True)
            # [part, H]: a separate product for each row.
            products = [torch.bmm(part[:, None], self._weights(some, tower, frozen))[:, 0] for part, some in each]
            product = torch.cat(products)
        else:
            different, order, sizes = groups
            # One product for all rows of a goal.
            each = zip(torch.split(x[order], sizes), self._weights(different, tower, frozen), strict=True)
            # Restore the order of rows.
            product = torch.cat([part @ weights for part, weights in each])[order.argsort()]
        bias = self.bias[tower].detach() if frozen else self.bias[tower]
        return activate(product + bias, normalized=self.normalized)

    def together(self, x: torch.Tensor, goals: list[torch.Tensor], *, frozen: bool = False) -> torch.Tensor:
        """Features [towers, n, H] of all towers from their inputs [towers, n, I] and goals [n, G]."""
        return torch.stack([self(x[tower], goal, tower, frozen=frozen) for tower, goal in enumerate(goals)])

    def write(self, graph: GraphWriter, x: str, goal: str, tower: int) -> str:
        """The same as nodes."""
        for i, layer in enumerate((self.first, self.second)):
            goal = graph.swish(layer.write(graph, goal, f"hyper_{i}.linear", tower), f"hyper_{i}")
        goal = graph.layer_norm(goal, "hyper.normalized", axis=1)
        weights = self.made.write(graph, goal, "hyper.made", tower)
        weights = graph.reshape(weights, "hyper.weights", [-1, self.inputs, self.size])
        row = graph.reshape(x, "hyper.row", [-1, 1, self.inputs])
        product = graph.reshape(graph.add("MatMul", [row, weights], "hyper.product"), "hyper.flat", [-1, self.size])
        bias = graph.constant("hyper.bias", self.bias[tower].detach().cpu().numpy())
        return graph.swish(graph.add("Add", [product, bias], "hyper.linear"), "hyper")

    def _weights(self, goal: torch.Tensor, tower: int, frozen: bool) -> torch.Tensor:
        """Weights [n, I, H] for goals [n, G]."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not frozen):
            for layer in (self.first, self.second):
                goal = torch.nn.functional.silu(torch.addmm(layer.bias[tower], goal, layer.weight[tower]))
            goal = torch.nn.functional.layer_norm(goal, (self.size,), eps=NORM_EPSILON)
            flat = torch.addmm(self.made.bias[tower], goal, self.made.weight[tower])  # [n, I H]
            return flat.view(-1, self.inputs, self.size)


def make_body(
    inputs: int,
    goals: int,
    settings: NetworkSettings,
    towers: int,
    generator: torch.Generator,
    *,
    noisy: bool = False,
) -> tuple[MLP | NetArch, HyperLayer | None]:
    """The hidden layers over ``inputs`` features. With ``goals``, they make the weights of the last layer: never noisy.

    ML-Agents' ``ConditionalEncoder`` has one such layer too; after a ``net_arch`` it is an additional one.

    Raises:
        SettingsError: a noisy ``net_arch``.
    """
    units, layers = settings.hidden_units, settings.num_layers
    if settings.net_arch is not None:
        if noisy:
            raise SettingsError("network_settings.net_arch has no noisy layers; remove it, or hyperparameters.noisy")
        body = NetArch(inputs, settings.net_arch, towers, generator)
        return body, HyperLayer(body.size, goals, units, towers, generator) if goals else None
    if not goals or not layers:
        return MLP(inputs, units, layers, towers, generator, noisy=noisy), None
    before = MLP(inputs, units, layers - 1, towers, generator, noisy=noisy)
    return before, HyperLayer(before.size, goals, units, towers, generator)


def _by_goal(goal: torch.Tensor, most: int) -> tuple[torch.Tensor, torch.Tensor, list[int]] | None:
    """Different goals [U, G], the rows ordered by goal [n], and the number of rows of each.

    None if most rows differ.
    """
    different, which, counts = torch.unique(goal, dim=0, return_inverse=True, return_counts=True)
    if 0 < len(different) <= min(most, len(goal) // _FEW):
        return different, which.argsort(), counts.tolist()
    return None
