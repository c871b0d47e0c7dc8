"""Reward streams; binary rewards: success predicates, aggregation over steps, and the reward that a learner sees."""

from __future__ import annotations

from tau_trainer.rewards.rewarder import EngineReward, Rewarder, RewardResult
from tau_trainer.rewards.streams import RewardStream

__all__ = [
    "EngineReward",
    "RewardResult",
    "RewardStream",
    "Rewarder",
]
