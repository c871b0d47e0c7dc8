"""Learning algorithms: a loss and an update each, independent of where the data came from."""

from __future__ import annotations

from tau_trainer.algorithms.agent import Agent, Batch
from tau_trainer.algorithms.base import (
    Algorithm,
    Counters,
    OnBatch,
    Publish,
    Setup,
    State,
    check_served,
    check_shared,
    make_algorithm,
)
from tau_trainer.algorithms.off_policy.base import OffPolicy
from tau_trainer.algorithms.ppo import PPO

__all__ = [
    "PPO",
    "Agent",
    "Algorithm",
    "Batch",
    "Counters",
    "OffPolicy",
    "OnBatch",
    "Publish",
    "Setup",
    "State",
    "check_served",
    "check_shared",
    "make_algorithm",
]
