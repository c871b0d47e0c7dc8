from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tau_trainer.export import Linear, Normalization, PolicyGraph
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec

MakeGraph = Callable[..., PolicyGraph]


def _linear(rng: np.random.Generator, inputs: int, outputs: int, gain: float = 1.0) -> Linear:
    weight = gain * rng.standard_normal((inputs, outputs)) * np.sqrt(2 / inputs)
    return Linear(weight.astype(np.float32), (0.1 * rng.standard_normal(outputs)).astype(np.float32))


@pytest.fixture
def make_graph() -> MakeGraph:
    """Random policies of any shape."""

    def make(
        continuous: int = 0,
        branches: tuple[int, ...] = (),
        shapes: tuple[tuple[int, ...], ...] = ((5,),),
        visible: tuple[int, ...] | None = None,
        hidden: tuple[int, ...] = (16, 16),
        normalize: bool = False,
        seed: int = 0,
    ) -> PolicyGraph:
        rng = np.random.default_rng(seed)
        observations = tuple(ObservationSpec(f"sensor {i}", shape) for i, shape in enumerate(shapes))
        size = sum(observations[i].size for i in (visible if visible is not None else range(len(shapes))))
        statistics = Normalization(
            rng.standard_normal(size).astype(np.float32), (0.1 + rng.random(size)).astype(np.float32)
        )
        sizes = (size, *hidden)
        return PolicyGraph(
            observations=observations,
            actions=ActionSpec(continuous, branches),
            body=[_linear(rng, sizes[i], sizes[i + 1]) for i in range(len(hidden))],
            mu=_linear(rng, sizes[-1], continuous, 0.5) if continuous else None,
            log_sigma=rng.uniform(-1, 0.5, continuous).astype(np.float32) if continuous else None,
            branches=[_linear(rng, sizes[-1], options, 0.5) for options in branches],
            normalization=statistics if normalize else None,
            visible=visible,
        )

    return make


@pytest.fixture
def behavior_of() -> Callable[[PolicyGraph], BehaviorSpec]:
    """The behavior whose sensors and actions a graph has."""
    return lambda graph: BehaviorSpec("Test?team=0", graph.observations, graph.actions)
