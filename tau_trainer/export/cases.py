"""Inputs that an exported model is tried on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tau_trainer.export.graph import PolicyGraph
from tau_trainer.specs import BoolArray, FloatArray

_LARGE = 1e3


@dataclass(frozen=True)
class Case:
    """One batch of inputs."""

    name: str
    obs: tuple[FloatArray, ...]
    """One float32 [n, *shape] per sensor."""
    forbidden: BoolArray | None
    """bool [n, sum of branches], True = forbidden; None for policies without discrete actions."""


def cases(graph: PolicyGraph, rng: np.random.Generator) -> Iterator[Case]:
    """Inputs worth trying: batches of 1 and 7; zeros, ordinary, large; free, random and single-action masks."""
    for n in (1, 7):
        for name, scale in (("zeros", 0.0), ("ordinary", 1.0), ("large", _LARGE)):
            obs = tuple(
                (scale * rng.standard_normal((n, *sensor.shape))).astype(np.float32) for sensor in graph.observations
            )
            if not graph.branches:
                yield Case(f"{name} observations, batch {n}", obs, None)
                continue
            for mask, allowed in (("no", 1.0), ("a random", 0.5), ("a single-action", 0.0)):
                yield Case(f"{name} observations, {mask} mask, batch {n}", obs, random_mask(graph, n, allowed, rng))


def random_mask(graph: PolicyGraph, n: int, allowed: float, rng: np.random.Generator) -> BoolArray:
    """A mask, True = forbidden, that leaves each action with probability ``allowed`` and one per branch for certain."""
    forbidden = rng.random((n, graph.actions.mask_size)) >= allowed
    for part, size in zip(graph.branch_slices, graph.actions.discrete_branches, strict=True):
        forbidden[np.arange(n), part.start + rng.integers(size, size=n)] = False
    return forbidden
