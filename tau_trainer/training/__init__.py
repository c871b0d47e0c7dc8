"""Pairs of TauAgent and AgentTrainer, and everything that runs them: the names that users see.

Names are loaded when they are first used: a process that only learns needs few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tau_trainer.training.agents import AgentTrainer, TauAgent
    from tau_trainer.training.api import run_in_foreground
    from tau_trainer.training.manager import ParallelTrainerManager, Session
    from tau_trainer.training.pair import AgentTrainerPair
    from tau_trainer.training.parallel import ParallelTrainer
    from tau_trainer.training.states import PairMetrics, PairState, RunReport
    from tau_trainer.training.stored import evaluate_run, export_run

_HOMES = {
    "agents": ("AgentTrainer", "TauAgent"),
    "api": ("run_in_foreground",),
    "manager": ("ParallelTrainerManager", "Session"),
    "pair": ("AgentTrainerPair",),
    "parallel": ("ParallelTrainer",),
    "states": ("PairMetrics", "PairState", "RunReport"),
    "stored": ("evaluate_run", "export_run"),
}

__all__ = [
    "AgentTrainer",
    "AgentTrainerPair",
    "PairMetrics",
    "PairState",
    "ParallelTrainer",
    "ParallelTrainerManager",
    "RunReport",
    "Session",
    "TauAgent",
    "evaluate_run",
    "export_run",
    "run_in_foreground",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"tau_trainer.training.{home}"), name)
    raise AttributeError(f"module 'tau_trainer.training' has no attribute '{name}'")
