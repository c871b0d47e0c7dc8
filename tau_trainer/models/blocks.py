"""Building blocks of networks: every block computes in torch and writes the same computation as nodes of an ONNX graph.

Plug-ins provide encoders and recurrent memories under a name (:mod:`tau_trainer.plugins`); our own encoders are in
:mod:`.encoders`, and the parts of every network in :mod:`.normalizer`, :mod:`.mlp` and :mod:`.heads`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch

from tau_trainer import plugins
from tau_trainer.errors import SettingsError
from tau_trainer.specs import DimensionProperty, ObservationSpec

if TYPE_CHECKING:
    from tau_trainer.models.graph import GraphWriter
    from tau_trainer.settings import NetworkSettings

LISTS = "lists"
"""The encoder of lists of entities."""
VISUAL = "visual:"
"""Prefix of the names of image encoders; ``network_settings.vis_encode_type`` is the rest."""

Kind = Literal["vector", "image", "list"]

_UNSAID, _NONE = DimensionProperty.UNSPECIFIED, DimensionProperty.NONE
_SHIFTED = DimensionProperty.TRANSLATIONAL_EQUIVARIANCE
_VARIABLE = DimensionProperty.VARIABLE_SIZE
_DRAWING = threading.RLock()
_KINDS: dict[tuple[DimensionProperty, ...], Kind] = {
    (_NONE, _SHIFTED, _SHIFTED): "image",
    (_UNSAID, _UNSAID, _UNSAID): "image",
    (_VARIABLE, _NONE): "list",
}
"""The kind of a sensor with several dimensions, by their properties, as in ML-Agents."""


class Encoder(torch.nn.Module, ABC):
    """Turns images of one sensor into features. Made from ``(ObservationSpec, NetworkSettings)``."""

    size: int
    """Number of features."""

    @abstractmethod
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Features [n, size] of images [n, C, H, W]: uint8 unscaled, or floats in [0, 1]."""

    @abstractmethod
    def write(self, graph: GraphWriter, x: str) -> str:
        """The same as nodes, named after ``x``: float32 [batch, C, H, W], scaled to [0, 1] like Unity's."""


class ListEncoder(torch.nn.Module, ABC):
    """Turns all lists of entities together into features, in addition to the features of everything else.

    A list is [n, most, entity]: rows of zeros are absent. Made from ``(Sequence[ObservationSpec], features of
    everything else, NetworkSettings)``.
    """

    size: int
    """Number of features."""

    @abstractmethod
    def forward(self, lists: Sequence[torch.Tensor], seen: torch.Tensor) -> torch.Tensor:
        """Features [n, size] from one [n, most, entity] for each sensor, and features [n, seen] of everything else."""

    @abstractmethod
    def write(self, graph: GraphWriter, lists: Sequence[str], seen: str) -> str:
        """The same as nodes; ``seen`` is an empty text if there are no other features."""


class Past(NamedTuple):
    """What a network remembers before each of ``n`` rows."""

    state: torch.Tensor | None = None
    """[n, towers, M]; None = as at the start of an episode."""
    begins: torch.Tensor | None = None
    """bool [n]; if given, the rows are sequences, which are run step by step: see :meth:`Recurrent.unrolled`."""

    def of(self, rows: slice | torch.Tensor) -> Past:
        """That of some rows."""
        return Past(*(None if values is None else values[rows] for values in self))


NO_PAST = Past()


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
        """``T`` steps, one after another: features [T, n, size] from inputs [T, n, inputs] and the state [n, M]."""
        said = []
        for step in x:
            features, state = self(step, state)
            said.append(features)
        return torch.stack(said)

    def unrolled(self, x: torch.Tensor, state: torch.Tensor, begins: torch.Tensor) -> torch.Tensor:
        """Sequences of any lengths, end to end: features [n, size]; gradients flow through time.

        Args:
            x: inputs [n, inputs] of all sequences.
            state: [n, M]; only those at the start of a sequence count.
            begins: bool [n], starts of sequences; the first row always starts one.
        """
        # int64 [sequences]: first rows; row 0 always starts one.
        first = torch.cat((torch.zeros(1, dtype=torch.int64, device=x.device), begins[1:].nonzero()[:, 0] + 1))
        sequence = torch.cat((begins.new_zeros(1), begins[1:])).cumsum(0)  # int64 [n]: number of each row's sequence
        step = torch.arange(len(x), device=x.device) - first[sequence]  # int64 [n]: step within it
        # [T, sequences, in]; the padding after short ones is never read.
        padded = x.new_zeros(int(step.max()) + 1, len(first), x.shape[1]).index_put((step, sequence), x)
        return self.along(padded, state[first])[step, sequence]  # back to rows without padding


def kind_of(sensor: ObservationSpec) -> Kind:
    """The kind of a sensor.

    Raises:
        SettingsError: networks do not support the sensor.
    """
    if len(sensor.shape) == 1 or not sensor.size:
        return "vector"
    said = tuple(sensor.dimension_property) or (_UNSAID,) * len(sensor.shape)
    if said not in _KINDS or len(said) != len(sensor.shape):
        raise SettingsError(
            f"sensor '{sensor.name}' of shape {sensor.shape} is neither a vector, nor an image (channels, height, "
            "width), nor a list of entities as a BufferSensor sends it (its first dimension marked as of variable "
            "size); flatten it to a vector, mark its dimensions or remove the sensor"
        )
    return _KINDS[said]


def make_encoder(sensor: ObservationSpec, settings: NetworkSettings) -> Encoder:
    """The encoder of images that ``vis_encode_type`` names. Raises SettingsError if the images do not suit it."""
    encoder: Encoder = plugins.load("encoders", VISUAL + settings.vis_encode_type)(sensor, settings)
    return encoder


def make_list_encoder(sensors: Sequence[ObservationSpec], seen: int, settings: NetworkSettings) -> ListEncoder:
    """The encoder of lists of entities, in addition to ``seen`` features of everything else."""
    encoder: ListEncoder = plugins.load("encoders", LISTS)(sensors, seen, settings)
    return encoder


@contextmanager
def drawn_from(generator: torch.Generator) -> Iterator[None]:
    """Inside, torch's own random numbers come from ``generator``: for blocks that initialise themselves.

    One thread at a time: torch's generator belongs to the whole process, which may have several runs.
    """
    with _DRAWING, torch.random.fork_rng(devices=[]):  # the caller's own random numbers stay as they were
        torch.default_generator.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        yield
