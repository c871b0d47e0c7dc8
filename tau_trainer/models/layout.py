"""Named parameters inside one flat vector: what makes an optimizer step, a copy or a rollback one operation."""

from __future__ import annotations

from collections.abc import Mapping

import torch

_ALIGNMENT = 16
"""Floats; every parameter begins on a 64-byte boundary of the vector. The gaps stay zero."""


class ParameterLayout:
    """Where each named parameter lies in a flat float32 vector.

    Args:
        shapes: name to shape, in the order in which they lie. Names of weight matrices, which weight decay touches,
            must come before all others.
        decayed: how many of the first names are weight matrices.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], decayed: int) -> None:
        self.shapes: dict[str, tuple[int, ...]] = dict(shapes)
        self.offsets: dict[str, int] = {}
        self.decayed_size = 0
        offset = 0
        for index, (name, shape) in enumerate(self.shapes.items()):
            self.offsets[name] = offset
            offset += -(-_count(shape) // _ALIGNMENT) * _ALIGNMENT
            if index + 1 == decayed:
                self.decayed_size = offset
        self.size = offset
        """Length of the flat vector, gaps included."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ParameterLayout) and list(self.shapes.items()) == list(other.shapes.items())

    __hash__ = None  # type: ignore[assignment]

    @property
    def parameter_count(self) -> int:
        """Number of parameters, gaps not counted."""
        return sum(_count(shape) for shape in self.shapes.values())

    def zeros(self, device: torch.device | str = "cpu") -> torch.Tensor:
        """A flat float32 vector of zeros."""
        return torch.zeros(self.size, device=device)

    def views(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """Each parameter as a view of ``flat``, differentiable with respect to it."""
        return {
            name: flat.narrow(0, offset, _count(self.shapes[name])).view(self.shapes[name])
            for name, offset in self.offsets.items()
        }


def _count(shape: tuple[int, ...]) -> int:
    return int(torch.Size(shape).numel())
