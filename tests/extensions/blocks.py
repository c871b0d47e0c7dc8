"""A recurrent block as somebody else's package would bring it."""

from __future__ import annotations

import torch

from tau_trainer.models import Recurrent
from tau_trainer.models.graph import GraphWriter
from tau_trainer.settings import MemorySettings


class SummingMemory(Recurrent):
    """``state = state + tanh(W x)``; what it says is the input and the state side by side."""

    def __init__(self, inputs: int, settings: MemorySettings) -> None:
        super().__init__()
        self.size, self.state_size = inputs + settings.memory_size, settings.memory_size
        self.input = torch.nn.Linear(inputs, settings.memory_size)
        torch.nn.init.normal_(self.input.weight)  # it learns from one step at a time, so it should remember at once

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        after = state + torch.tanh(self.input(x))
        return torch.cat([x, after], dim=1), after

    def write(self, graph: GraphWriter, x: str, state: str) -> tuple[str, str]:
        weight, bias = (values.detach().numpy() for values in (self.input.weight.T, self.input.bias))
        new = graph.add("Tanh", [graph.linear(weight, bias, x, "sum.input")], "sum.new")
        after = graph.add("Add", [state, new], "sum.state")
        return graph.concat([x, after], "sum.features"), after
