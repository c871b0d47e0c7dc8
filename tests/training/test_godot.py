"""A whole run in Godot's editor, which the headless engine plays in a thread of this process."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tau_trainer.cli.look.export import export_command
from tau_trainer.envs import engines
from tests.bridge.conftest import free_port
from tests.headless.conftest import EngineThread
from tests.training.fakes import WAIT_S, Memory, begin, settings_from
from tests.waiting import HANG_S

FILE = """
behaviors:
  3DBall:
    trainer_type: ppo
    hyperparameters: {batch_size: 32, buffer_size: 128, num_epoch: 1}
    network_settings: {hidden_units: 16, num_layers: 1}
    max_steps: 300
env_settings: {env_path: godot, seed: 3, timeout_wait: 300}
"""


def outputs(path: Path) -> list[str]:
    return [value.name for value in onnx.load(path).graph.output]


def test_a_run_in_the_editor_leaves_a_model_for_the_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr(engines, "GODOT_PORT", port)
    memory = Memory()
    flags = ["--dialect", "godot", "--scene", "balance", "--agents", "4", f"--port={port}"]
    game = EngineThread([*flags, "--connect-seconds", str(HANG_S)])
    game.start()
    report = begin(settings_from(FILE, tmp_path), memory, "learn").wait(WAIT_S)
    assert game.finish() == 0
    assert (report.outcome, report.exit_code) == ("completed", 0)
    assert report.decisions >= 300
    (model,) = report.models
    assert outputs(model) == ["output", "state_outs"]
    (said,) = [event.message for event in memory.events if event.message and "truncate_after" in event.message]
    assert "does not tell an end from a time limit" in said
    # The checkpoint knows the game's actions, so that the model can be written again.
    model.unlink()
    assert export_command(str(tmp_path / "run")) == 0
    assert outputs(model) == ["output", "state_outs"]
    assert export_command(str(tmp_path / "run"), form="unity") == 0
    assert "deterministic_continuous_actions" in outputs(model)
