"""Demonstrations in the form that algorithms learn from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tau_trainer.bridge.demonstrations import Demonstration, read_demonstrations
from tau_trainer.columns import EXTRINSIC
from tau_trainer.errors import DataError
from tau_trainer.memory import Rollout, WorkData, recorded
from tau_trainer.models import ActorCritic

if TYPE_CHECKING:
    from tau_trainer.algorithms.base import Setup


def recorded_work(demonstration: Demonstration, network: ActorCritic) -> WorkData:
    """All recorded data, as if ``network`` had acted; the state of a memory is that at the start of an episode."""
    continuous, discrete = network.action.remembered(demonstration.actions)
    states = {column.name: column.empty(len(demonstration)) for column in network.state_columns}  # none was recorded
    return recorded(
        demonstration.obs,
        {"continuous": continuous, "discrete": discrete.astype(np.int32), "mask": demonstration.mask, **states},
        {EXTRINSIC: demonstration.reward[:, None]},
        begins=demonstration.begins,
        ended=demonstration.ended,
        truncated=demonstration.truncated,
    )


def demonstrated(path: str, setup: Setup, network: ActorCritic) -> Rollout:
    """All transitions of the demonstrations at ``path``.

    Raises:
        DataError: they cannot be read, are of other agents, or are empty.
    """
    rollout = Rollout(recorded_work(read_demonstrations([path], setup.spec, setup.images), network))
    if not len(rollout):
        raise DataError(f"demonstration '{path}' has no decision with a known outcome")
    return rollout
