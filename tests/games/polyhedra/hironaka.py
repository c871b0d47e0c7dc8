"""Runs of the polyhedra game from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tau_trainer.metrics import RunReport
from tau_trainer.settings import load_batched
from tau_trainer.training.batched import train_batched


def write(values: dict[str, Any], tmp_path: Path) -> Path:
    path = tmp_path / "game.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def train(values: dict[str, Any], tmp_path: Path, run_id: str, **more: Any) -> RunReport:
    overrides = {"checkpoint_settings.run_id": run_id} | {key.replace("__", "."): value for key, value in more.items()}
    return train_batched(load_batched(write(values, tmp_path), overrides), "quiet")
