"""Memories that hold experience for the learner."""

from __future__ import annotations

from tau_trainer.memory.base import Memory, StepFacts, Work, WorkData
from tau_trainer.memory.groups import Groups, together
from tau_trainer.memory.hindsight import ACHIEVED, Hindsight, RewardDone
from tau_trainer.memory.joining import gathered, joined
from tau_trainer.memory.prioritized import Priorities
from tau_trainer.memory.recorded import recorded
from tau_trainer.memory.replay import Links, Replay
from tau_trainer.memory.rollout import RolloutMemory
from tau_trainer.memory.tensors import TensorRollout
from tau_trainer.memory.trajectories import NO_TRANSITIONS, Rollout, experience

__all__ = [
    "ACHIEVED",
    "NO_TRANSITIONS",
    "Groups",
    "Hindsight",
    "Links",
    "Memory",
    "Priorities",
    "Replay",
    "RewardDone",
    "Rollout",
    "RolloutMemory",
    "StepFacts",
    "TensorRollout",
    "Work",
    "WorkData",
    "experience",
    "gathered",
    "joined",
    "recorded",
    "together",
]
