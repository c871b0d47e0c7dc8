"""The tracker of Weights & Biases, against a stand-in for what is used of its library, which is no part of the gate."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tau_trainer.errors import SettingsError
from tau_trainer.metrics.trackers.wandb import WeightsAndBiases
from tau_trainer.settings import RunSettings


class Tracked:
    """A run of theirs."""

    def __init__(self, **options: Any) -> None:
        self.options, self.id = options, options["id"]
        self.told: list[Any] = []
        self.config = SimpleNamespace(update=lambda values, allow_val_change: self.told.append((values, True)))

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.told.append((name, step_metric))

    def log(self, row: dict[str, float]) -> None:
        self.told.append(row)

    def log_artifact(self, artifact: Any) -> None:
        self.told.append((artifact.name, artifact.files))

    def finish(self, exit_code: int) -> None:
        self.told.append(exit_code)


class Artifact:
    def __init__(self, name: str, type: str) -> None:  # noqa: A002 - theirs
        self.name = f"{name} of type {type}"
        self.files: list[str] = []

    def add_file(self, path: str, name: str) -> None:
        assert Path(path).name == name
        self.files.append(name)


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("wandb")
    module.__dict__.update(
        init=Tracked, Artifact=Artifact, Settings=lambda **options: options, login=lambda prompt: prompt
    )
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    return module


def test_scalars_are_over_each_behaviors_own_step(tmp_path: Path) -> None:
    tracked = WeightsAndBiases(RunSettings(), tmp_path / "3DBall-1")
    tracked.parameters = {"a.b": 1}
    name = tracked.begin(None)
    tracked.write({"B/x": 1.0}, "B", 40, 9.0)
    tracked.write({"B/x": 2.0}, "B", 20, 10.0)
    tracked.end("completed", [tmp_path / "B.onnx"])
    run = tracked._tracked
    assert run.told == [
        ({"a.b": 1}, True),
        ("B/step", None),
        ("B/*", "B/step"),
        {"B/x": 1.0, "B/step": 40, "_timestamp": 9.0},
        {"B/x": 2.0, "B/step": 20, "_timestamp": 10.0},
        (f"run-{name} of type run", ["B.onnx"]),
        0,
    ]
    assert len(name) == 16
    assert (run.options["project"], run.options["name"], run.options["resume"]) == ("mine", "3DBall-1", "allow")
    assert run.options["dir"] == str(tmp_path / "3DBall-1")
    assert run.options["settings"]["console"] == "off"
    again = WeightsAndBiases(RunSettings(), tmp_path)
    assert again.begin("r1") == "r1"
    again.end("failed", [])
    assert again._tracked.told[1:] == [1], "an exit code"


def test_nobody_is_asked_for_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracked = WeightsAndBiases(RunSettings(), tmp_path)
    monkeypatch.delenv("WANDB_MODE")
    with pytest.raises(SettingsError, match="run `wandb login`, or set WANDB_MODE=offline"):
        tracked.begin(None)
