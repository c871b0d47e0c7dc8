from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tau_trainer.models import ActorCritic
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.networks import make_network

MakeNetwork = Callable[..., ActorCritic]


@pytest.fixture
def network_of() -> MakeNetwork:
    """Random networks of any shape; their ``spec`` is the behavior that sees no more than they do."""

    def make(
        continuous: int = 0,
        branches: tuple[int, ...] = (),
        sensors: tuple[tuple[int, ...] | ObservationSpec, ...] = ((5,),),
        **settings: Any,
    ) -> ActorCritic:
        seen = tuple(
            sensor if isinstance(sensor, ObservationSpec) else ObservationSpec(f"sensor {i}", sensor)
            for i, sensor in enumerate(sensors)
        )
        return make_network(BehaviorSpec("Test?team=0", seen, ActionSpec(continuous, branches)), **settings)

    return make
