"""Encoders of images that are a few convolutions, each followed by LeakyReLU."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from typing_extensions import override

from tau_trainer.models.encoders.visual import LEAK, VisualEncoder

if TYPE_CHECKING:
    from tau_trainer.models.graph import GraphWriter


class _Convolutional(VisualEncoder):
    """Convolutions without padding, one after another."""

    layers: ClassVar[tuple[tuple[int, int, int], ...]]
    """Output channels, side of the kernel, stride."""

    @override
    def build(self, channels: int) -> None:
        self.convolutions = torch.nn.ModuleList()
        for size, kernel, stride in self.layers:
            self.convolutions.append(torch.nn.Conv2d(channels, size, kernel, stride))
            channels = size

    @override
    def map(self, x: torch.Tensor) -> torch.Tensor:
        for convolution in self.convolutions:
            x = torch.nn.functional.leaky_relu(convolution(x), LEAK, inplace=True)  # [n, channels, side, side]
        return x

    @override
    def write_map(self, graph: GraphWriter, x: str) -> str:
        result = x
        for i, convolution in enumerate(self.convolutions):
            assert isinstance(convolution, torch.nn.Conv2d)
            result = graph.convolution(convolution, result, f"{x}.convolution_{i}")
            result = graph.add("LeakyRelu", [result], f"{x}.map_{i}", alpha=LEAK)
        return result


class Simple(_Convolutional):
    """``simple``: two convolutions."""

    name, least = "simple", 20
    layers = (16, 8, 4), (32, 4, 2)


class NatureCNN(_Convolutional):
    """``nature_cnn``: the three of Mnih et al. 2015."""

    name, least = "nature_cnn", 36
    layers = (32, 8, 4), (64, 4, 2), (64, 3, 1)


class Match3(_Convolutional):
    """``match3``: two small ones for boards (Gudmundsson et al. 2018)."""

    name, least = "match3", 5
    layers = (35, 3, 1), (144, 3, 1)


class FullyConnected(_Convolutional):
    """``fully_connected``: no convolutions; one layer reads all pixels."""

    name, least = "fully_connected", 1
    layers = ()
