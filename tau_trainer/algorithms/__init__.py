"""Learning algorithms: a loss and an update, nothing about where data came from."""

from __future__ import annotations

from tau_trainer.algorithms.ppo import PPO

__all__ = ["PPO"]
