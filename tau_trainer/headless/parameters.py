"""The engine's side of ML-Agents' environment parameters: numbers, or distributions sampled at each use."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tau_trainer.bridge.side_channels import Sampler, SamplerKind
from tau_trainer.errors import DecodeError
from tau_trainer.specs import Float64Array


class EnvironmentParameters:
    """Environment parameters as the trainer last set them (Unity's ``EnvironmentParameters``)."""

    def __init__(self, values: Mapping[str, float | Sampler] | None = None) -> None:
        self._values: dict[str, float | tuple[Sampler, np.random.Generator]] = {}
        for name, value in (values or {}).items():
            self.set(name, value)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def set(self, name: str, value: float | Sampler) -> None:
        """Set a number, or a distribution with random draws that start from its seed.

        Raises DecodeError if a number is not finite or the distribution lacks numbers that it needs.
        """
        if isinstance(value, Sampler):
            _check(name, value)
            self._values[name] = value, np.random.default_rng(value.seed % 2**32)
        else:
            if not np.isfinite(value):
                raise DecodeError(f"environment parameter '{name}' is {value}; set it to a finite number")
            self._values[name] = float(value)

    def get(self, name: str, default: float) -> float:
        """The parameter's current value, as in Unity's ``GetWithDefault``; from a distribution, a new draw."""
        value = self._values.get(name, default)
        return float(self.draw(name, default, 1)[0]) if isinstance(value, tuple) else value

    def draw(self, name: str, default: float, count: int) -> Float64Array:
        """``count`` draws from the parameter's distribution: float64 [count]. A plain number is repeated."""
        value = self._values.get(name, default)
        if not isinstance(value, tuple):
            return np.full(count, value)
        sampler, generator = value
        if sampler.kind == SamplerKind.GAUSSIAN:
            return generator.normal(sampler.values[0], sampler.values[1], count)
        low, high = np.array(sampler.values[0::2]), np.array(sampler.values[1::2])
        return _uniform(low, high, generator.random(count))


def _check(name: str, sampler: Sampler) -> None:
    values = np.array(sampler.values)
    low, high = values[0::2], values[1::2]
    sound = len(low) == len(high) > 0 and bool(np.isfinite(values).all())
    if sound and sampler.kind == SamplerKind.GAUSSIAN:
        sound = len(values) == 2 and values[1] >= 0.0
    elif sound:
        sound = bool((low <= high).all())
    if not sound:
        raise DecodeError(
            f"environment parameter '{name}' has a {sampler.kind.name.lower()} sampler with the values "
            f"{sampler.values}; give finite numbers, each minimum not above its maximum and no negative deviation"
        )


def _uniform(low: Float64Array, high: Float64Array, unit: Float64Array) -> Float64Array:
    """Map draws in [0, 1) onto ranges: each range gets a share of the draws in proportion to its width."""
    width = high - low
    total = float(width.sum())
    if total == 0.0:  # ranges of one point each
        points: Float64Array = low[(unit * len(low)).astype(np.intp)]
        return points
    place = unit * total
    start = np.concatenate([[0.0], np.cumsum(width)[:-1]])
    which = np.clip(np.searchsorted(start, place, side="right") - 1, 0, len(low) - 1)
    drawn: Float64Array = np.minimum(low[which] + (place - start[which]), high[which])
    return drawn
