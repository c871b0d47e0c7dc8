"""Where the values of one ``AgentInfoProto`` lie.

Field numbers are those of ``AgentInfoProto`` and ``ObservationProto`` in ML-Agents 1.x to 4.x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tau_trainer.bridge.image_order import DECLARED, ImageOrder
from tau_trainer.bridge.images import ImageDecoder
from tau_trainer.bridge.records import (
    BYTES,
    FIXED32,
    VARINT,
    Bytes,
    RecordLayout,
    Span,
    fields,
    float_span,
    join_floats,
    join_varints,
    read_varint,
    varint_spans,
)
from tau_trainer.errors import DecodeError
from tau_trainer.specs import (
    BehaviorSpec,
    BoolArray,
    DimensionProperty,
    FloatArray,
    IntArray,
    ObservationSpec,
    ObservationType,
)

REWARD, DONE, MAX_STEP, ID, MASK, OBSERVATION, GROUP, GROUP_REWARD = 7, 8, 9, 10, 11, 13, 14, 15
"""Fields of ``AgentInfoProto``."""
SHAPE, COMPRESSION, COMPRESSED, FLOATS, MAPPING, PROPERTIES, TYPE, NAME = range(1, 9)
"""Fields of ``ObservationProto``."""

_MOST_DIMENSIONS = 16
_MOST_FLOATS = 2**31


def _integers(data: bytes, start: int, stop: int) -> list[int]:
    """A repeated int32 field, packed or not. Negative ones travel sign-extended to 64 bits; the lower 32 say all."""
    values = [read_varint(data, span.start)[0] & 0xFFFFFFFF for span in varint_spans(data, start, stop)]
    return [value - 2**32 if value >= 2**31 else value for value in values]


_IMAGE = (DimensionProperty.NONE, *[DimensionProperty.TRANSLATIONAL_EQUIVARIANCE] * 2)
"""Of an image's channels, height and width."""


@dataclass(slots=True)
class _Observation:
    spec: ObservationSpec
    """Channels first, whatever is on the wire."""
    turned: bool
    """Whether its floats come channels last, so that they have to be turned around."""
    unsettled: bool
    """Whether that is a guess."""
    floats: list[Span]
    mapping: tuple[int, ...]
    """Where the channels of its PNG files go."""
    decoder: ImageDecoder | None = None
    """Reads these, once it is known that they can be read."""

    def read(self, rows: Bytes) -> FloatArray:
        """Its floats: float32 [k, *shape]."""
        if not self.turned:
            return join_floats(self.floats, rows).reshape(len(rows), *self.spec.shape)
        channels, height, width = self.spec.shape
        values = self.floats[0].view(rows) if len(self.floats) == 1 else join_floats(self.floats, rows)
        images = values.reshape(len(rows), height, width, channels).transpose(0, 3, 1, 2)
        return images.astype(np.float32, order="C")  # read and turned around in one copy


def _observation(data: bytes, start: int, stop: int, images: ImageOrder) -> _Observation:
    """Parse one ``ObservationProto``: its spec and where its floats lie. PNG files were taken out before."""
    shape: list[int] = []
    properties: list[int] = []
    mapping: list[int] = []
    floats: list[Span] = []
    kind, compression, name = 0, 0, ""
    for number, wire, first, last in fields(data, start, stop):
        if number == SHAPE and wire in (VARINT, BYTES):
            shape += _integers(data, first, last)
        elif number == PROPERTIES and wire in (VARINT, BYTES):
            properties += _integers(data, first, last)
        elif number == MAPPING and wire in (VARINT, BYTES):
            mapping += _integers(data, first, last)
        elif number == COMPRESSION and wire == VARINT:
            compression, _ = read_varint(data, first)
        elif number == TYPE and wire == VARINT:
            kind, _ = read_varint(data, first)
        elif number == NAME and wire == BYTES:
            name = data[first:last].decode("utf-8", "replace")
        elif number == FLOATS and wire == BYTES:
            floats += _float_data(data, first, last)
    count = sum(span.stop - span.start for span in floats) // 4
    if not _can_be(shape) or (len(shape) != 3 if compression else math.prod(shape) != count):
        sent = "PNG images" if compression else f"{count} floats"
        raise DecodeError(f"sensor '{name}' declares shape {tuple(shape)} but sends {sent}")
    flags = tuple(map(DimensionProperty, properties))
    last = len(shape) == 3 and _channels_last(flags, images.declared_last)
    if last:
        shape, flags = [shape[2], *shape[:2]], (*flags[2:], *flags[:2])
    if len(shape) == 3 and not flags:
        flags = _IMAGE
    dtype = np.uint8 if compression else np.float32
    spec = ObservationSpec(name, tuple(shape), flags, ObservationType(kind & 1), dtype)
    # Of one channel, or of one pixel, all orders are the same.
    ordered = len(shape) == 3 and not compression and shape[0] > 1 and shape[1] * shape[2] > 1
    by_version = ordered and not last and name not in images.flat
    turned = (ordered and last) or (by_version and images.written_last)
    return _Observation(spec, turned, by_version and not images.settled, floats, tuple(mapping))


def _channels_last(flags: tuple[DimensionProperty, ...], otherwise: bool) -> bool:
    """Whether an image is [H, W, C], as those of packages before 3.0 are: which dimensions may be moved tells."""
    moved = tuple(bool(flag & DimensionProperty.TRANSLATIONAL_EQUIVARIANCE) for flag in flags)
    return otherwise if moved not in ((True, True, False), (False, True, True)) else moved[0]


def _float_data(data: bytes, start: int, stop: int) -> list[Span]:
    """Where the floats of a ``FloatData`` lie: one span if they are packed, as engines do it."""
    return [
        float_span(first, last)
        for number, wire, first, last in fields(data, start, stop)
        if number == 1 and wire in (BYTES, FIXED32)
    ]


def _can_be(shape: list[int]) -> bool:
    """Whether an array of ``shape`` can be made at all."""
    return (
        len(shape) <= _MOST_DIMENSIONS
        and all(size >= 0 for size in shape)
        and math.prod(max(size, 1) for size in shape) < _MOST_FLOATS
    )


class AgentLayout(RecordLayout):
    """The layout of an ``AgentInfoProto``: where id, reward, flags, mask and observations lie."""

    def __init__(self, record: bytes, images: ImageOrder = DECLARED) -> None:
        self.fits: BehaviorSpec | None = None
        """The behavior whose sensors were last found to be these."""
        self.spans: dict[int, Span] = {}
        self.mask: list[Span] = []
        self.observations: list[_Observation] = []
        for number, wire, start, stop in fields(record, 0, len(record)):
            if number == OBSERVATION and wire == BYTES:
                self.observations.append(_observation(record, start, stop, images))
            elif number == MASK and wire in (BYTES, VARINT):
                self.mask += varint_spans(record, start, stop)
            elif (number in (REWARD, GROUP_REWARD) and wire == FIXED32) or (
                number in (DONE, MAX_STEP, ID, GROUP) and wire == VARINT
            ):
                self.spans[number] = Span(start, stop)  # of a field that stands twice the last one counts
        self.shapes = tuple(observation.spec.shape for observation in self.observations)
        self.compressed = sum(observation.spec.dtype == np.uint8 for observation in self.observations)
        """Sensors that send PNG files."""
        super().__init__(
            record,
            [self.spans[n] for n in (REWARD, GROUP_REWARD) if n in self.spans]
            + [span for observation in self.observations for span in observation.floats],
            [self.spans[n] for n in (DONE, MAX_STEP, ID, GROUP) if n in self.spans] + self.mask,
        )

    def floats(self, number: int, rows: Bytes) -> FloatArray:
        """float32 [k]; zeros where the field is absent (proto3 leaves defaults out)."""
        span = self.spans.get(number)
        return np.zeros(len(rows), np.float32) if span is None else span.floats(rows)[:, 0]

    def integers(self, number: int, rows: Bytes) -> IntArray:
        """int32 [k]; zeros where the field is absent."""
        span = self.spans.get(number)
        if span is None:
            return np.zeros(len(rows), np.int32)
        if span.stop - span.start == 1:
            return rows[:, span.start].astype(np.int32)
        return span.varints(rows).astype(np.int32)

    def masks(self, rows: Bytes, size: int) -> BoolArray:
        """Flat masks bool [k, size]; absent or of another length means that nothing is masked."""
        if len(self.mask) != size:
            return np.zeros((len(rows), size), np.bool_)
        forbidden: BoolArray = join_varints(self.mask, rows) != 0
        return forbidden
