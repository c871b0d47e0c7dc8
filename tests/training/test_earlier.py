"""Checkpoints that an earlier version wrote, of every way to gather experience, are gone on from.

``earlier/`` holds what version 0.1.0 left of five small runs; nothing there is written again.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.metrics import RunReport
from tau_trainer.settings import load_settings
from tau_trainer.training.api import train
from tau_trainer.training.plan import RunKind

EARLIER = Path(__file__).parent / "earlier"


def go_on(folder: Path, steps: int) -> RunReport:
    """Resume the run in ``folder`` until it has had so many steps."""
    file = folder / "configuration.yaml"
    overrides: dict[str, Any] = {
        "checkpoint_settings.resume": True,
        "checkpoint_settings.results_dir": str(folder.parent),
    }
    overrides["behaviors.*.max_steps"] = steps
    if folder.name == "recordings":
        overrides["behaviors.*.demo_path"] = str(folder / "cartpole.demo")
    command: RunKind = "parallel" if folder.name == "population" else "learn"
    return train(load_settings(file, overrides), command, terminal="quiet")


@pytest.mark.parametrize(
    ("kind", "before", "after", "decisions"),
    [
        ("pairs", 512, 800, 800),
        ("actors", 400, 450, 450),
        ("population", 256, 512, 1024),  # of two pairs, 512 each
        ("batched", 2048, 4096, 4096),
        ("recordings", 100, 150, 150),
    ],
)
def test_a_run_of_an_earlier_version_goes_on(
    tmp_path: Path, kind: str, before: int, after: int, decisions: int
) -> None:
    folder = tmp_path / kind
    shutil.copytree(EARLIER / kind, folder)
    report = go_on(folder, after)
    assert (report.outcome, report.errors, report.decisions) == ("completed", (), decisions)
    records = [json.loads(line) for line in (folder / "log.jsonl").read_text("utf-8").splitlines()]
    steps = [record["step"] for record in records if record["type"] == "summary"]
    assert steps
    assert min(steps) > before, "it began where the earlier run had come to"
    warnings = [record for record in records if record.get("kind") == "warning"]
    assert len(warnings) == (kind == "actors"), "its file says that the replay memory is not kept"
    assert report.models
