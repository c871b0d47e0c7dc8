"""What networks are made of: every block computes in torch and writes the same as nodes of an ONNX graph.

Plug-ins bring encoders and recurrent memories under a name (:mod:`tau_trainer.plugins`); the blocks of plain networks
are in :mod:`.normalizer`, :mod:`.mlp`, :mod:`.action_head` and :mod:`.value_head`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from tau_trainer import plugins
from tau_trainer.errors import SettingsError
from tau_trainer.specs import ObservationSpec

if TYPE_CHECKING:
    from tau_trainer.models.graph import GraphWriter
    from tau_trainer.settings import NetworkSettings


class Encoder(torch.nn.Module, ABC):
    """Turns one sensor that is no vector into features. Made from ``(ObservationSpec, NetworkSettings)``."""

    size: int
    """Number of features."""

    @abstractmethod
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Features [n, size] of observations [n, *shape] in the sensor's own dtype (uint8 of images, unscaled)."""

    @abstractmethod
    def write(self, graph: GraphWriter, x: str) -> str:
        """The same as nodes, named after ``x``: float32 [batch, *shape], images scaled to [0, 1] as Unity's are."""


class Recurrent(torch.nn.Module, ABC):
    """Carries state from decision to decision. Made from ``(inputs, MemorySettings)``."""

    size: int
    """Number of features."""
    state_size: int
    """``M``, floats of state."""

    @abstractmethod
    def forward(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """One step: features [n, size] and the new state [n, M] from inputs [n, inputs] and state [n, M]."""

    @abstractmethod
    def write(self, graph: GraphWriter, x: str, state: str) -> tuple[str, str]:
        """One step as nodes, from and to [batch, ...]."""

    def along(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """``T`` steps, one after the other: features [T, n, size] from inputs [T, n, inputs] and the state [n, M]."""
        said = []
        for one in x:
            features, state = self(one, state)
            said.append(features)
        return torch.stack(said)

    def unrolled(self, x: torch.Tensor, state: torch.Tensor, begins: torch.Tensor) -> torch.Tensor:
        """Sequences of any lengths that lie end to end: features [n, size], gradients flow through time.

        Args:
            x: inputs [n, inputs] of all sequences.
            state: [n, M], of which only those at the beginning of a sequence count.
            begins: bool [n], where a sequence begins; the first row begins one in any case.
        """
        first = torch.cat((torch.zeros(1, dtype=torch.int64, device=x.device), begins[1:].nonzero()[:, 0] + 1))
        sequence = torch.cat((begins.new_zeros(1), begins[1:])).cumsum(0)
        step = torch.arange(len(x), device=x.device) - first[sequence]
        padded = x.new_zeros(int(step.max()) + 1, len(first), x.shape[1]).index_put((step, sequence), x)
        return self.along(padded, state[first])[step, sequence]


def encoder_name(sensor: ObservationSpec, settings: NetworkSettings) -> str:
    """The plug-in that a sensor needs: ``visual:<vis_encode_type>`` for images, ``buffer`` for lists of entities."""
    return f"visual:{settings.vis_encode_type}" if len(sensor.shape) == 3 else "buffer"


def make_encoder(sensor: ObservationSpec, settings: NetworkSettings) -> Encoder:
    """The encoder of a sensor that is no vector.

    Raises:
        SettingsError: this version has none.
    """
    name = encoder_name(sensor, settings)
    if name not in plugins.names("encoders"):
        raise SettingsError(
            f"sensor '{sensor.name}' has shape {sensor.shape}, and this version learns from vector observations only; "
            "remove the sensor"
        )
    encoder: Encoder = plugins.load("encoders", name)(sensor, settings)
    return encoder


@contextmanager
def drawn_from(generator: torch.Generator) -> Iterator[None]:
    """Inside, torch's own random numbers follow from ``generator``: for blocks that initialise themselves."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        yield
