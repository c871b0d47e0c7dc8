"""A hidden layer whose weights another network makes from the agent's goal (Ha et al. 2016), as in ML-Agents."""

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
"""Where a goal is shared by so many rows in the mean, each goal's weights are made once."""
_AT_ONCE = 2**24
"""Weights that are made at once: 64 MiB."""


class HyperLayer(torch.nn.Module):
    """``swish(x @ W(goal) + bias)`` for every tower.

    ``W`` comes from two hidden layers with swish, a normalisation and a linear layer over the goal.

    Args:
        inputs: features ``I`` that go in.
        goals: features ``G`` of the goal.
        units: features ``H`` that come out, and width of the layers that make the weights.
        towers: how many.
    """

    normalized = False
    """Whether the activation is, see :func:`activate`; for whoever makes it to set."""

    def __init__(self, inputs: int, goals: int, units: int, towers: int, generator: torch.Generator) -> None:
        super().__init__()
        self.inputs, self.size = inputs, units
        self.first, self.second = Layer(towers, goals, units), Layer(towers, units, units)
        self.made = Layer(towers, units, inputs * units)
        self.bias = torch.nn.Parameter(torch.zeros(towers, 1, units))
        for layer in (self.first, self.second):
            kaiming_normal_(layer.weight, generator)
        bound = math.sqrt(1.0 / (units * inputs))  # as torch's own linear layers begin, with the inputs that W has
        with torch.no_grad():
            self.made.weight.uniform_(-bound, bound, generator=generator)

    def forward(self, x: torch.Tensor, goal: torch.Tensor, tower: int, *, frozen: bool = False) -> torch.Tensor:
        """Features [n, H] of one tower from inputs [n, I] and goals [n, G]; ``frozen``: gradients go to ``x`` alone."""
        rows = max(1, _AT_ONCE // (self.inputs * self.size))  # goals whose weights are made at once
        # Differing goals are found only where no gradient flows to them.
        groups = None if goal.requires_grad else _by_goal(goal, rows)
        if groups is None:
            each = zip(torch.split(x, rows), torch.split(goal, rows), strict=True)
            # [part, H]: a product of its own for each row.
            products = [torch.bmm(part[:, None], self._weights(some, tower, frozen))[:, 0] for part, some in each]
            product = torch.cat(products)
        else:
            different, order, sizes = groups
            # One product for all rows of a goal.
            each = zip(torch.split(x[order], sizes), self._weights(different, tower, frozen), strict=True)
            # Rows in their own order again.
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
    """The hidden layers over ``inputs`` features; where ``goals`` of them make weights, the last layer's: never noisy.

    ML-Agents' ``ConditionalEncoder`` has one such layer too; behind a ``net_arch`` it is one more.

    Raises:
        SettingsError: a ``net_arch`` is to be noisy.
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
    """Different goals [U, G], the rows ordered by goal [n], and how many have each; None where most rows differ."""
    different, which, counts = torch.unique(goal, dim=0, return_inverse=True, return_counts=True)
    if 0 < len(different) <= min(most, len(goal) // _FEW):
        return different, which.argsort(), counts.tolist()
    return None
