"""Test inputs for an exported model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.models.distributions import branch_bounds
from tau_trainer.specs import (
    BehaviorSpec,
    BoolArray,
    DimensionProperty,
    FloatArray,
    Observations,
    ObservationSpec,
)

_LARGE = 1e3


@dataclass(frozen=True)
class Case:
    """One batch of inputs."""

    name: str
    obs: Observations
    """One array [n, *shape] for each sensor of the behavior, in the sensor's dtype."""
    forbidden: BoolArray | None
    """bool [n, sum of branches], True = forbidden; None for policies without discrete actions."""
    state: FloatArray | None
    """float32 [n, M]: recurrent state; None for policies without memory."""


def cases(spec: BehaviorSpec, memory: int, rng: np.random.Generator) -> Iterator[Case]:
    """Test inputs: batches of 1 and 7; zero, ordinary and large values; free, random and single-action masks."""
    for n in (1, 7):
        for name, scale in (("zeros", 0.0), ("ordinary", 1.0), ("large", _LARGE)):
            obs = random_observations(spec, n, scale, rng)
            state = rng.uniform(-1.0, 1.0, (n, memory)).astype(np.float32) if memory else None
            if not spec.actions.discrete_size:
                yield Case(f"{name} observations, batch {n}", obs, None, state)
                continue
            for mask, allowed in (("no", 1.0), ("a random", 0.5), ("a single-action", 0.0)):
                forbidden = random_mask(spec, n, allowed, rng)
                yield Case(f"{name} observations, {mask} mask, batch {n}", obs, forbidden, state)


def random_observations(spec: BehaviorSpec, n: int, scale: float, rng: np.random.Generator) -> Observations:
    """Gaussian numbers of that scale; whole numbers from 0 to 255 for uint8 sensors.

    In lists of entities, the first agent has all entities, the second has none, and the others have some.
    """
    return tuple(_random(sensor, n, scale, rng) for sensor in spec.observations)


def _random(sensor: ObservationSpec, n: int, scale: float, rng: np.random.Generator) -> NDArray[Any]:
    shape = n, *sensor.shape
    if sensor.dtype == np.uint8:
        return rng.integers(0, 256 if scale else 1, shape, np.uint8)
    values = (scale * rng.standard_normal(shape)).astype(np.float32)
    if DimensionProperty.VARIABLE_SIZE in sensor.dimension_property[:1]:
        share = rng.random((n, 1))
        share[:2] = np.array([[1.0], [0.0]])[:n]
        values[rng.random(shape[:2]) >= share] = 0.0
    return values


def random_mask(spec: BehaviorSpec, n: int, allowed: float, rng: np.random.Generator) -> BoolArray:
    """A mask, True = forbidden; allows each action with probability ``allowed``, and at least one per branch."""
    branches = spec.actions.discrete_branches
    forbidden = rng.random((n, spec.actions.mask_size)) >= allowed
    for (begin, _), size in zip(branch_bounds(branches), branches, strict=True):
        forbidden[np.arange(n), begin + rng.integers(size, size=n)] = False
    return forbidden
