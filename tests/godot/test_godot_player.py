"""A real Godot: the small project beside this file in `godot3-server`, with a Sync node of our own in GDScript 3."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tau_trainer.settings import load_settings
from tests.training.fakes import WAIT_S, Memory, begin

PROJECT = Path(__file__).parent / "project"
LEARNS = """
behaviors:
  CartPole:
    trainer_type: ppo
    hyperparameters:
      {batch_size: 64, buffer_size: 1024, learning_rate: 1.0e-3, beta: 0.0, lambd: 0.9, num_epoch: 10}
    network_settings: {hidden_units: 64, num_layers: 2}
    reward_signals: {extrinsic: {gamma: 0.98, strength: 1.0}}
    max_steps: 100000
    time_horizon: 500
    summary_freq: 10000
    criterion: 499.0
    trial_count: 8
collection: {truncate_after: 500, max_policy_age: 0}
engine_settings: {time_scale: 100}
env_settings: {seed: 1, timeout_wait: 300}
"""


@pytest.mark.nightly
@pytest.mark.slow
def test_a_cart_pole_in_godot_is_balanced_to_its_limit(tmp_path: Path) -> None:
    program = shutil.which("godot3-server")
    if program is None:
        pytest.skip("Godot is not installed; install Debian's package godot3-server")
    config = tmp_path / "cart_pole.yaml"
    config.write_text(LEARNS, "utf-8")
    given = {
        "env_settings.env_path": f"godot:{program}",
        "env_settings.env_args": ["--path", str(PROJECT)],
        "checkpoint_settings.results_dir": str(tmp_path),
        "checkpoint_settings.run_id": "cart_pole",
    }
    memory = Memory()
    report = begin(load_settings(config, given), memory, "learn").wait(WAIT_S)
    assert report.exit_code == 0
    assert report.decisions < 100_000  # else it was not solved
