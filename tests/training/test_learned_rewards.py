"""Whole runs with every signal that is learned and with imitation beside: what they leave, and that they resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tau_trainer.errors import DataError
from tau_trainer.metrics import RunReport, read_log
from tau_trainer.settings import load_settings
from tau_trainer.training.api import train
from tests.algorithms.demonstrations import CARTPOLE, balance, demo_file, played
from tests.training.pairs.test_collector import cut_off, hashes

NUMBERS = {
    "ppo": "{batch_size: 32, buffer_size: 128, num_epoch: 2, learning_rate_schedule: constant}",
    "sac": "{batch_size: 32, buffer_size: 500, steps_per_update: 8, save_replay_buffer: true}",
}


def learn(kind: str, folder: Path, run_id: str, **more: Any) -> RunReport:
    demo, file = demo_file(folder, played(CARTPOLE, balance, copies=2)), folder / f"{run_id}.yaml"
    small = "network_settings: {hidden_units: 8, num_layers: 1}"
    file.write_text(
        f"""
behaviors:
  CartPole-v1:
    trainer_type: {kind}
    hyperparameters: {NUMBERS[kind]}
    {small}
    reward_signals:
      extrinsic: {{strength: 0.001}}
      curiosity: {{strength: 1.0, {small}}}
      rnd: {{strength: 0.01, {small}}}
      gail: {{strength: 0.1, use_vail: true, use_actions: true, demo_path: {demo}, {small}}}
    behavioral_cloning: {{demo_path: {demo}, steps: 500, samples_per_update: 64}}
    max_steps: 800
    checkpoint_interval: 200
    keep_checkpoints: 0
    summary_freq: 400
checkpoint_settings: {{results_dir: {folder}, run_id: {run_id}}}
collection: {{deterministic: true}}
env_settings: {{env_path: "gym:CartPole-v1", num_areas: 4, seed: 3}}
"""
    )
    return train(load_settings(file, {key.replace("__", "."): value for key, value in more.items()}), terminal="quiet")


@pytest.mark.parametrize("kind", ["ppo", "sac"])
def test_a_run_with_all_of_them_tells_of_each_and_resumes_to_the_bit(kind: str, tmp_path: Path) -> None:
    whole = learn(kind, tmp_path, "whole")
    assert (whole.outcome, whole.exit_code, len(whole.models)) == ("completed", 0, 1)
    log = list(read_log(whole.folder / "log.jsonl"))
    text = (whole.folder / "log.jsonl").read_text()
    for stream in ("Extrinsic", "Curiosity", "Rnd", "Gail"):
        assert f"Policy/{stream} Reward" in text
        assert f"Policy/{stream} Value{' Estimate' if kind == 'ppo' else ''}" in text
    losses = "Curiosity Forward Loss", "Curiosity Inverse Loss", "RND Loss", "GAIL Loss", "GAIL KL Loss"
    for name in (*losses, "Pretraining Loss"):
        assert f"Losses/{name}" in text
    for name in ("Policy Estimate", "Expert Estimate", "Grad Mag Loss", "Beta"):
        assert f"Policy/GAIL {name}" in text
    sentence = "the reward signal gail drowns the environment's own"
    drowned = [record for record in log if record.get("kind") == "warning" and sentence in str(record)]
    assert len(drowned) == 1, "a thousandth of a reward a step is not much"
    cut_off(whole, tmp_path / "cut", 2)
    assert hashes(learn(kind, tmp_path, "cut", checkpoint_settings__resume=True)) == hashes(whole)


def test_a_demonstration_that_is_not_there_is_told_before_anything_begins(tmp_path: Path) -> None:
    for place in ("reward_signals.gail", "behavioral_cloning"):
        with pytest.raises(DataError, match=r"there is no demonstration 'gone\.demo'"):
            learn("ppo", tmp_path, "gone", **{f"behaviors.CartPole-v1.{place}.demo_path": "gone.demo"})
    assert not (tmp_path / "gone").exists()
