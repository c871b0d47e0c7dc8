"""Toy blocks as somebody else's package would bring them: a recurrent memory and an image encoder."""

from __future__ import annotations

import numpy as np
import torch

from tau_trainer.models import Encoder, Recurrent
from tau_trainer.models.graph import GraphWriter
from tau_trainer.settings import MemorySettings, NetworkSettings
from tau_trainer.specs import ObservationSpec


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


class FlatImage(Encoder):
    """A hidden layer over the pixels, bytes from 0 to 255."""

    def __init__(self, sensor: ObservationSpec, settings: NetworkSettings) -> None:
        super().__init__()
        assert sensor.dtype == np.uint8
        self.size = 16
        self.layer = torch.nn.Linear(sensor.size, self.size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.dtype == torch.uint8
        return torch.tanh(self.layer(x.flatten(1).to(self.layer.weight.dtype) / 255))

    def write(self, graph: GraphWriter, x: str) -> str:
        weight, bias = (values.detach().numpy() for values in (self.layer.weight.T, self.layer.bias))
        flat = graph.reshape(x, "pixels", [-1, len(weight)])
        return graph.add("Tanh", [graph.linear(weight, bias, flat, "pixels.layer")], "pixels.features")
