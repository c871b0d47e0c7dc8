"""Small populations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tau_trainer.metrics import RunReport
from tau_trainer.runs.checkpoints import Checkpoint
from tau_trainer.settings import RunSettings
from tests.training import fakes

STEPS = 800


POPULATION: dict[str, Any] = {
    "env_settings__env_path": "batched:tau",
    "tau__policy": "independent",
    "behaviors__TauAgent__max_steps": STEPS,
    "behaviors__TauAgent__checkpoint_interval": 256,
    "behaviors__TauAgent__summary_freq": "auto",
    "behaviors__TauAgent__hyperparameters__num_epoch": 2,
}


def settings(folder: Path, run_id: str = "run", **more: Any) -> RunSettings:
    return fakes.tau_settings(folder, run_id, **POPULATION | more)


def newest(report: RunReport, pair: int) -> Checkpoint:
    return fakes.newest(report.folder, f"TauAgent-pair{pair}")


def assert_same(one: Checkpoint, other: Checkpoint, tolerance: float = 0.0) -> None:
    assert one.tensors.keys() == other.tensors.keys()
    for name, values in other.tensors.items():
        np.testing.assert_allclose(one.tensors[name], values, rtol=tolerance, atol=tolerance, err_msg=name)
