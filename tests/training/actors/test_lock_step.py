"""Actors in lock step: the same seed is the same run to the bit, also where its trainer was killed and went on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.settings import RunSettings
from tests.trainers import tau_train
from tests.training.fakes import WAIT_S, begin, newest, settings_from, train, until
from tests.training.toys import SECONDS

MAX_STEPS = 183
"""Neither the rollouts of 20 nor the two actors divide it."""

FILE = f"""
behaviors:
  Count-v0:
    trainer_type: sac
    hyperparameters: {{batch_size: 8, buffer_size: 300, steps_per_update: 4.0, save_replay_buffer: true, n_step: 3}}
    network_settings: {{hidden_units: 8, num_layers: 1, normalize: true}}
    max_steps: {MAX_STEPS}
    summary_freq: 100
    checkpoint_interval: 60
env_settings: {{env_path: "gym:tests.training.toys:Count-v0", env_args: ["length=15"], seed: 7}}
execution: async
async_trainer: {{mode: lock_step, actors: 2, n_buffer: 20, eval_interval: 15, eval_episodes: 2}}
"""


ROLLOUTS = FILE.replace("trainer_type: sac", "trainer_type: ppo").replace(
    "{batch_size: 8, buffer_size: 300, steps_per_update: 4.0, save_replay_buffer: true, n_step: 3}",
    "{batch_size: 8, buffer_size: 30, num_epoch: 2}",
)
"""The same of an algorithm that learns from rollouts, which 30 is one of: 15 of each actor."""


def settings_of(folder: Path, run_id: str, file: str, **overrides: Any) -> RunSettings:
    return settings_from(file, folder, run_id, **overrides)


def assert_same(folder: Path, first: str, second: str) -> None:
    """Every array of their last checkpoints, all counts, and the exported policies."""
    one, other = (newest(folder / run_id, "Count-v0") for run_id in (first, second))
    assert one.tensors.keys() == other.tensors.keys()
    assert any(name.startswith("best.") for name in one.tensors)
    np.testing.assert_equal(one.tensors, other.tensors)
    assert one.manifest["pairs"] == other.manifest["pairs"]
    data, others = one.manifest["learner"], other.manifest["learner"]
    assert data["decisions"] == others["decisions"] == sum(one.manifest["pairs"].values()) == MAX_STEPS
    for name in ("opts", "samples", "best", "recent_returns"):
        assert data[name] == others[name], name
    model = "Count-v0.onnx"
    assert (folder / first / model).read_bytes() == (folder / second / model).read_bytes()


@pytest.mark.parametrize("file", [FILE, ROLLOUTS], ids=["replay", "rollouts"])
def test_the_same_seed_is_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    """One is slower, its trainer is killed, and it is resumed; of another an actor dies before it handed over data."""
    monkeypatch.setattr(RestartBudget, "FIRST_WAIT_S", 0.01)
    whole = begin(settings_of(tmp_path, "whole", file), command="learn")
    words = ["--results-dir", str(tmp_path), "--run-id", "killed", "--quiet"]
    with tau_train(tmp_path, "learn", "settings.yaml", *words, environment={SECONDS: "0.004"}) as killed:
        until(lambda: list((tmp_path / "killed" / "checkpoints").glob("Count-v0-*/manifest.json")))
        killed.kill()
        killed.wait()
    assert newest(tmp_path / "killed", "Count-v0").step < MAX_STEPS
    again = begin(settings_of(tmp_path, "killed", file, checkpoint_settings__resume=True), command="learn")
    assert [session.wait(WAIT_S).outcome for session in (whole, again)] == ["completed"] * 2
    monkeypatch.setenv(SECONDS, "0.002")
    dies: dict[str, Any] = {"env_settings__env_args": ["length=15", "dies_at=12", f"once={tmp_path / 'died'}"]}
    report = train(settings_of(tmp_path, "dies", file, **dies, async_trainer__channel_capacity=1), command="learn")
    assert report.outcome == "completed"
    assert sum(pair.restarts for pair in report.pairs) == 1
    for run_id in ("killed", "dies"):
        assert_same(tmp_path, "whole", run_id)
