"""Demonstrations, as algorithms learn from them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tau_trainer.bridge.demonstrations import read_demonstrations
from tau_trainer.memory import WorkData, recorded
from tau_trainer.models import ActorCritic
from tau_trainer.rewards.streams import EXTRINSIC
from tau_trainer.specs import BehaviorSpec


def recorded_work(paths: Iterable[str | Path], spec: BehaviorSpec, network: ActorCritic) -> WorkData:
    """All that was recorded, as if ``network`` had acted so.

    Raises:
        DataError: a file is missing, damaged, or of agents with other sensors or actions than ``spec``.
    """
    demonstration = read_demonstrations(paths, spec)
    continuous, discrete = network.action.remembered(demonstration.actions)
    return recorded(
        demonstration.obs,
        {"continuous": continuous, "discrete": discrete, "mask": demonstration.mask},
        {EXTRINSIC: demonstration.reward[:, None]},
        begins=demonstration.begins,
        ended=demonstration.ended,
        truncated=demonstration.truncated,
    )
