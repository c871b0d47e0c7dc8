"""Demonstrations, as algorithms learn from them."""

from __future__ import annotations

import numpy as np

from tau_trainer.bridge.demonstrations import Demonstration
from tau_trainer.memory import WorkData, recorded
from tau_trainer.models import ActorCritic
from tau_trainer.rewards.streams import EXTRINSIC


def recorded_work(demonstration: Demonstration, network: ActorCritic) -> WorkData:
    """All that was recorded, as if ``network`` had acted so; a memory's state is what it is at an episode's begin."""
    continuous, discrete = network.action.remembered(demonstration.actions)
    states = {column.name: column.empty(len(demonstration)) for column in network.state_columns}  # nobody recorded any
    return recorded(
        demonstration.obs,
        {"continuous": continuous, "discrete": discrete.astype(np.int32), "mask": demonstration.mask, **states},
        {EXTRINSIC: demonstration.reward[:, None]},
        begins=demonstration.begins,
        ended=demonstration.ended,
        truncated=demonstration.truncated,
    )
