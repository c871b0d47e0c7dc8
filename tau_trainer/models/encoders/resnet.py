"""The residual encoder of images of IMPALA (Espeholt et al. 2018), with swish as in ML-Agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from typing_extensions import override

from tau_trainer.models.encoders.visual import VisualEncoder

if TYPE_CHECKING:
    from tau_trainer.models.graph import GraphWriter

CHANNELS = 16, 32, 32
"""Output channels of each stack."""
BLOCKS = 2
"""Number of residual blocks in a stack."""


class ResidualConvolutions(torch.nn.Module):
    """``x`` plus two convolutions of it, each after a swish."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(channels, channels, 3, padding=1)
        self.second = torch.nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps [n, channels, H, W] of maps of the same shape."""
        swish = torch.nn.functional.silu
        inner = self.first(swish(x))  # before the convolution: pre-activation (He et al. 2016b)
        # In place only if no gradient needs it.
        result: torch.Tensor = x + self.second(swish(inner, inplace=not inner.requires_grad))
        return result

    def write(self, graph: GraphWriter, x: str, output: str) -> str:
        """The same as nodes."""
        inner = graph.convolution(self.first, graph.swish(x, f"{output}.in"), f"{output}.first")
        inner = graph.convolution(self.second, graph.swish(inner, f"{output}.between"), f"{output}.second")
        return graph.add("Add", [x, inner], output)


class Stack(torch.nn.Module):
    """A convolution, the largest of every 3 x 3 at stride 2, and residual blocks."""

    def __init__(self, inputs: int, channels: int) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(inputs, channels, 3, padding=1)
        self.blocks = torch.nn.ModuleList(ResidualConvolutions(channels) for _ in range(BLOCKS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps [n, channels, (H - 1) // 2, (W - 1) // 2] of maps [n, inputs, H, W]."""
        x = torch.nn.functional.max_pool2d(self.convolution(x), 3, 2)  # about half the side
        for block in self.blocks:
            x = block(x)
        return x

    def write(self, graph: GraphWriter, x: str, output: str) -> str:
        """The same as nodes."""
        x = graph.convolution(self.convolution, x, f"{output}.convolution")
        x = graph.add("MaxPool", [x], f"{output}.pool", kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 0, 0])
        for i, block in enumerate(self.blocks):
            assert isinstance(block, ResidualConvolutions)
            x = block.write(graph, x, f"{output}.block_{i}")
        return x


class ResNet(VisualEncoder):
    """``resnet``: three stacks, and ReLU after the layer at the end."""

    name, least = "resnet", 15
    layout = torch.channels_last
    """On a CPU, pooling and small convolutions take less than half the time in this order."""

    @override
    def build(self, channels: int) -> None:
        self.stacks = torch.nn.ModuleList()
        for size in CHANNELS:
            self.stacks.append(Stack(channels, size))
            channels = size

    @override
    def map(self, x: torch.Tensor) -> torch.Tensor:
        for stack in self.stacks:
            x = stack(x)
        return torch.nn.functional.silu(x, inplace=not x.requires_grad)

    @override
    def write_map(self, graph: GraphWriter, x: str) -> str:
        result = x
        for i, stack in enumerate(self.stacks):
            assert isinstance(stack, Stack)
            result = stack.write(graph, result, f"{x}.stack_{i}")
        return graph.swish(result, f"{x}.map")

    @override
    def activate(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)

    @override
    def write_activation(self, graph: GraphWriter, x: str, output: str) -> str:
        return graph.add("Relu", [x], output)
