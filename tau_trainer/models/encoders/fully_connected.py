"""The encoder of images that is one layer over all pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from typing_extensions import override

from tau_trainer.models.encoders.visual import VisualEncoder

if TYPE_CHECKING:
    from tau_trainer.models.graph import GraphWriter


class FullyConnected(VisualEncoder):
    """``fully_connected``: the map is the image itself."""

    name, least = "fully_connected", 1

    @override
    def build(self, channels: int) -> None:
        pass

    @override
    def map(self, x: torch.Tensor) -> torch.Tensor:
        return x

    @override
    def write_map(self, graph: GraphWriter, x: str) -> str:
        return x
