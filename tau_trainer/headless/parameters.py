"""The engine's side of ML-Agents' environment parameters: numbers, or distributions that are drawn at each use."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tau_trainer.bridge.side_channels import Sampler, SamplerKind
from tau_trainer.errors import DecodeError


class EnvironmentParameters:
    """Environment parameters as the trainer last set them (Unity's ``EnvironmentParameters``)."""

    def __init__(self, values: Mapping[str, float | Sampler] | None = None) -> None:
        self._numbers: dict[str, float] = {}
        self._samplers: dict[str, tuple[Sampler, np.random.Generator]] = {}
        for name, value in (values or {}).items():
            self.set(name, value)

    def __contains__(self, name: str) -> bool:
        return name in self._numbers or name in self._samplers

    def set(self, name: str, value: float | Sampler) -> None:
        """Set a number, or a distribution whose draws start from its seed.

        Raises DecodeError for a number that is not finite, or a distribution without the numbers it needs.
        """
        if isinstance(value, Sampler):
            _check(name, value)
            self._samplers[name] = value, np.random.default_rng(value.seed % 2**32)
            self._numbers.pop(name, None)
        else:
            if not np.isfinite(value):
                raise DecodeError(f"environment parameter '{name}' is {value}; give a finite number")
            self._numbers[name] = float(value)
            self._samplers.pop(name, None)

    def get(self, name: str, default: float) -> float:
        """The parameter's value now (``GetWithDefault``): a distribution is drawn."""
        if name in self._samplers:
            return float(self.draw(name, default, 1)[0])
        return self._numbers.get(name, default)

    def draw(self, name: str, default: float, count: int) -> NDArray[np.float64]:
        """``count`` values, one for each use: float64 [count]. A plain number is repeated."""
        if name not in self._samplers:
            return np.full(count, self._numbers.get(name, default))
        sampler, generator = self._samplers[name]
        if sampler.kind == SamplerKind.GAUSSIAN:
            return generator.normal(sampler.values[0], sampler.values[1], count)
        low, high = np.array(sampler.values[0::2]), np.array(sampler.values[1::2])
        return _uniform(low, high, generator.random(count))


def _check(name: str, sampler: Sampler) -> None:
    values = sampler.values
    if sampler.kind == SamplerKind.GAUSSIAN:
        sound = len(values) == 2 and values[1] >= 0.0
    else:
        sound = len(values) >= 2 and len(values) % 2 == 0 and all(a <= b for a, b in zip(*_pairs(values), strict=True))
    if not sound or not np.isfinite(values).all():
        raise DecodeError(
            f"environment parameter '{name}' has a {sampler.kind.name.lower()} sampler with the values {values}; "
            "give finite numbers, each minimum not above its maximum and no negative deviation"
        )


def _pairs(values: tuple[float, ...]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return values[0::2], values[1::2]


def _uniform(low: NDArray[np.float64], high: NDArray[np.float64], unit: NDArray[np.float64]) -> NDArray[np.float64]:
    """Map draws in [0, 1) onto ranges: each range gets a share of the draws in proportion to its width."""
    width = high - low
    total = float(width.sum())
    if total == 0.0:  # ranges of one point each
        points: NDArray[np.float64] = low[(unit * len(low)).astype(np.intp)]
        return points
    place = unit * total
    start = np.concatenate([[0.0], np.cumsum(width)[:-1]])
    which = np.clip(np.searchsorted(start, place, side="right") - 1, 0, len(low) - 1)
    drawn: NDArray[np.float64] = np.minimum(low[which] + (place - start[which]), high[which])
    return drawn
