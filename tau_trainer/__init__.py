"""Tau Trainer: trains Unity ML-Agents projects, and pairs of TauAgent and AgentTrainer, on current Python versions.

This module holds the public Python API; import everything else from its own subpackage. Each name is loaded on first
use, so importing the package is cheap.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # importing `typing` takes ten times as long as this module, and Ctrl-C does nothing meanwhile
if TYPE_CHECKING:
    from typing import Any

    from tau_trainer.algorithms import Agent
    from tau_trainer.metrics import RunReport
    from tau_trainer.runs.callbacks import Callback, LambdaCallback
    from tau_trainer.settings import RunSettings, load_batched, load_settings
    from tau_trainer.training.api import train
    from tau_trainer.training.batched import train_batched
    from tau_trainer.training.manager import ParallelTrainerManager

__version__ = "0.1.0"

_HOMES = {
    "Agent": "tau_trainer.algorithms",
    "Callback": "tau_trainer.runs.callbacks",
    "LambdaCallback": "tau_trainer.runs.callbacks",
    "ParallelTrainerManager": "tau_trainer.training.manager",
    "RunReport": "tau_trainer.metrics",
    "RunSettings": "tau_trainer.settings",
    "load_batched": "tau_trainer.settings",
    "load_settings": "tau_trainer.settings",
    "train": "tau_trainer.training.api",
    "train_batched": "tau_trainer.training.batched",
}

__all__ = [
    "Agent",
    "Callback",
    "LambdaCallback",
    "ParallelTrainerManager",
    "RunReport",
    "RunSettings",
    "__version__",
    "load_batched",
    "load_settings",
    "train",
    "train_batched",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tau_trainer' has no attribute '{name}'")
