"""Pairs of TauAgent and AgentTrainer, and everything that runs them: the names that users see."""

from __future__ import annotations

from tau_trainer.training.agents import AgentTrainer, TauAgent
from tau_trainer.training.api import run_learn, run_parallel
from tau_trainer.training.manager import ParallelTrainerManager, Session
from tau_trainer.training.pair import AgentTrainerPair
from tau_trainer.training.parallel import ParallelTrainer
from tau_trainer.training.states import PairMetrics, PairState, RunReport
from tau_trainer.training.stored import evaluate_run, export_run

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
    "run_learn",
    "run_parallel",
]
