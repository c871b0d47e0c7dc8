"""Environments whose copies are tensors: thousands of them step at once on one device."""

from tau_trainer.envs.batched.contract import BatchedEnv, BatchedStep, Outcome, Player, Starts, State, Twin
from tau_trainer.envs.batched.draws import Draws
from tau_trainer.envs.batched.starts import Pool

__all__ = ["BatchedEnv", "BatchedStep", "Draws", "Outcome", "Player", "Pool", "Starts", "State", "Twin"]
