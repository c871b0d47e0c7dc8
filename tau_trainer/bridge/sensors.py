"""Reads one sensor (``ObservationProto``) in an agent's record."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tau_trainer.bridge.images import ImageDecoder
from tau_trainer.bridge.package import ImageOrder
from tau_trainer.bridge.protocol import Observation
from tau_trainer.bridge.records import BYTES, FIXED32, VARINT, Span, fields, float_span, read_varint, varint_spans
from tau_trainer.errors import DecodeError
from tau_trainer.specs import DimensionProperty, ObservationSpec, ObservationType

_MOST_DIMENSIONS = 16
_MOST_FLOATS = 2**31


def _integers(data: bytes, start: int, stop: int) -> list[int]:
    """A repeated int32 field, packed or not. Negative values are sign-extended to 64 bits; the lower 32 are enough."""
    values = [read_varint(data, span.start)[0] & 0xFFFFFFFF for span in varint_spans(data, start, stop)]
    return [value - 2**32 if value >= 2**31 else value for value in values]


_IMAGE = (DimensionProperty.NONE, *[DimensionProperty.TRANSLATIONAL_EQUIVARIANCE] * 2)
"""Properties of an image's channels, height and width."""


@dataclass(slots=True)
class Sensor:
    """One ``ObservationProto``: its spec, and the positions of its floats in the record."""

    spec: ObservationSpec
    """Always channels first, independent of the message."""
    turned: bool
    """Whether its floats come channels last and must be transposed."""
    unsettled: bool
    """Whether :attr:`turned` is a guess."""
    floats: list[Span]
    mapping: tuple[int, ...]
    """Target of each channel of its PNG files."""
    decoder: ImageDecoder | None = None
    """Decodes the PNG files; set once they are known to be valid."""


def read_sensor(data: bytes, start: int, stop: int, images: ImageOrder, numbers: Observation) -> Sensor:
    """Parse one ``ObservationProto``: its spec and the positions of its floats. PNG files were removed before."""
    integers: dict[int, list[int]] = {numbers.shape: [], numbers.properties: [], numbers.mapping: []}
    floats: list[Span] = []
    kind, compression, name = 0, 0, ""
    for number, wire, first, last in fields(data, start, stop):
        if number in integers and wire in (VARINT, BYTES):
            integers[number] += _integers(data, first, last)
        elif number == numbers.compression and wire == VARINT:
            compression, _ = read_varint(data, first)
        elif number == numbers.type and wire == VARINT:
            kind, _ = read_varint(data, first)
        elif number == numbers.name and wire == BYTES:
            name = data[first:last].decode("utf-8", "replace")
        elif number == numbers.floats and wire == BYTES:
            floats += _float_data(data, first, last)
    shape, properties, mapping = integers.values()
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
    # With one channel, or one pixel, all orders are the same.
    ordered = len(shape) == 3 and not compression and shape[0] > 1 and shape[1] * shape[2] > 1
    by_version = ordered and not last and name not in images.flat
    turned = (ordered and last) or (by_version and images.written_last)
    return Sensor(spec, turned, by_version and not images.settled, floats, tuple(mapping))


def _channels_last(flags: tuple[DimensionProperty, ...], otherwise: bool) -> bool:
    """Whether an image is [H, W, C], as in packages before 3.0; the dimensions' properties tell."""
    moved = tuple(bool(flag & DimensionProperty.TRANSLATIONAL_EQUIVARIANCE) for flag in flags)
    return otherwise if moved not in ((True, True, False), (False, True, True)) else moved[0]


def _float_data(data: bytes, start: int, stop: int) -> list[Span]:
    """Positions of the floats of a ``FloatData``: one span if they are packed, as engines send them."""
    return [
        float_span(first, last)
        for number, wire, first, last in fields(data, start, stop)
        if number == 1 and wire in (BYTES, FIXED32)
    ]


def _can_be(shape: list[int]) -> bool:
    """Whether numpy can make an array of ``shape``."""
    return (
        len(shape) <= _MOST_DIMENSIONS
        and all(size >= 0 for size in shape)
        and math.prod(max(size, 1) for size in shape) < _MOST_FLOATS
    )
