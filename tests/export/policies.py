"""Policies that do not do what their network says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from typing_extensions import override

from tau_trainer.models import ActorCritic, Decision, Policy
from tau_trainer.specs import BoolArray, Observations
from tests.networks import policy_of

Change = Callable[[Decision, BoolArray | None], Decision]
"""From what the network decides, and the mask, to what is done."""


class OtherPolicy(Policy):
    """Decides as a network does, then otherwise."""

    def __init__(self, network: ActorCritic, change: Change, *, careless: bool = False) -> None:
        """``careless``: takes no notice of masks."""
        self._real = policy_of(network)
        self.spec, self.weights, self.version = self._real.spec, self._real.weights, self._real.version
        self.state_columns = self._real.state_columns
        self._change, self._careless = change, careless

    @override
    def act(self, obs: Observations, mask: BoolArray | None, rng: np.random.Generator, **options: Any) -> Decision:
        assert options["deterministic"]
        return self._change(self._real.act(obs, None if self._careless else mask, rng, **options), mask)

    @override
    def network(self) -> ActorCritic:
        return self._real.network()


def shifted(network: ActorCritic, by: float) -> OtherPolicy:
    """Its continuous actions are off by as much."""
    return OtherPolicy(network, lambda decision, _: replace(decision, continuous=decision.continuous + np.float32(by)))
