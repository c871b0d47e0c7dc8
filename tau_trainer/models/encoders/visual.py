"""The common parts of image encoders: pixels to numbers around 0, and one layer over everything at the end."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from typing_extensions import override

from tau_trainer.columns import Arrays
from tau_trainer.errors import SettingsError
from tau_trainer.models.blocks import Encoder
from tau_trainer.specs import ObservationSpec

if TYPE_CHECKING:
    from tau_trainer.models.graph import GraphWriter
    from tau_trainer.settings import NetworkSettings

DENSE_GAIN = 1.41
"""Factor on the last layer's initial weights, N(0, gain² / inputs) (ML-Agents ``encoders.py``)."""
LEAK = 0.01
"""Slope of LeakyReLU below zero."""
CAMERAS = 1, 3
"""Numbers of channels of a camera's images; others are planes of a grid or a board, which are mostly 0."""
MIDDLE = 0.5
"""The value of a camera's image that encoders see as 0."""
_KEPT = re.compile(r"(^|\.)images\.\d+\.middle$")
"""Name of the buffer that keeps it in a network; no other part is called so."""


class VisualEncoder(Encoder):
    """A map of the image, then one layer of ``hidden_units`` over all of it.

    Ours: a camera's images, in [0, 1], are moved to [-0.5, 0.5]. Bright backgrounds make all pixels large and alike,
    and gradient steps would first have to learn to leave this common part out (LeCun et al. 1998, "Efficient BackProp",
    section 4.3).

    Args:
        sensor: the images, [C, H, W].
        settings: of the network.

    Raises:
        SettingsError: the images are too small.
    """

    name: ClassVar[str]
    """Its ``vis_encode_type``."""
    least: ClassVar[int]
    """Smallest side of an image that it can read, in pixels."""
    layout = torch.contiguous_format
    """Order of the pixels in memory."""
    middle: torch.Tensor | None
    """float32 []: the value that is seen as 0; None: 0 itself."""

    def __init__(self, sensor: ObservationSpec, settings: NetworkSettings) -> None:
        super().__init__()
        channels, height, width = sensor.shape
        if min(height, width) < self.least:
            raise SettingsError(
                f"sensor '{sensor.name}' sends images of {height} x {width} pixels (height x width), but "
                f"vis_encode_type {self.name} needs at least {self.least} a side; make the sensor's images larger or "
                "choose another vis_encode_type (smallest side: nature_cnn 36, simple 20, resnet 15, match3 5, "
                "fully_connected any)"
            )
        self.size = settings.hidden_units
        self.register_buffer("middle", torch.tensor(MIDDLE) if channels in CAMERAS else None)
        self.build(channels)
        with torch.no_grad():
            # By trying: sizes depend on kernels and strides.
            self.flat = self.map(torch.zeros(1, *sensor.shape)).numel()
        self.dense = torch.nn.Linear(self.flat, self.size)
        torch.nn.init.normal_(self.dense.weight, std=DENSE_GAIN / math.sqrt(self.flat))
        torch.nn.init.zeros_(self.dense.bias)

    @abstractmethod
    def build(self, channels: int) -> None:
        """Make the layers of :meth:`map`."""

    @abstractmethod
    def map(self, x: torch.Tensor) -> torch.Tensor:
        """Maps [n, ...] of images [n, C, H, W]."""

    @abstractmethod
    def write_map(self, graph: GraphWriter, x: str) -> str:
        """The same as nodes."""

    def activate(self, x: torch.Tensor) -> torch.Tensor:
        """The activation after the last layer."""
        return torch.nn.functional.leaky_relu(x, LEAK)

    def write_activation(self, graph: GraphWriter, x: str, output: str) -> str:
        """The same as nodes."""
        return graph.add("LeakyRelu", [x], output, alpha=LEAK)

    @override
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        images = x.to(self.dense.weight.dtype, memory_format=self.layout)
        # Of bytes, this is a copy, so it may be overwritten.
        scale, result = (1.0 / 255.0, images) if x.dtype == torch.uint8 else (1.0, None)
        if self.middle is not None:
            images = torch.add(-self.middle.to(images.dtype), images, alpha=scale, out=result)
        elif result is not None:
            images = images.mul_(scale)
        return self.activate(self.dense(self.map(images).flatten(1)))  # [n, flat], then [n, size]

    @override
    def write(self, graph: GraphWriter, x: str) -> str:
        centred = x
        if self.middle is not None:
            centred = graph.add("Sub", [x, graph.scalar(f"{x}.middle", float(self.middle))], f"{x}.centred")
        flat = graph.reshape(self.write_map(graph, centred), f"{x}.flat", [-1, self.flat])
        return self.write_activation(graph, graph.dense(self.dense, flat, f"{x}.dense"), f"{x}.features")


def with_middles(names: Iterable[str], arrays: Arrays) -> Arrays:
    """Arrays of a checkpoint and, for those of ``names`` that are :attr:`VisualEncoder.middle` and missing, 0.

    In checkpoints of earlier versions they are missing, and images were seen as they are.
    """
    missing = (name for name in names if name not in arrays and _KEPT.search(name))
    return {**arrays, **dict.fromkeys(missing, np.zeros((), np.float32))}
