"""ML-Agents' own example files, in short: all parse, and what this version cannot train says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer.settings import SACHyperparameters, find_config, load_settings

SHIPPED = "3DBall 3DBallSAC Basic FoodCollector GridWorld Hallway Pyramids SoccerTwos Sorter WallJump"
TRAINABLE = {name: find_config(name).read_text("utf-8") for name in SHIPPED.split()} | {
    "ppo/3DBall_randomize": """
behaviors:
  3DBall:
    trainer_type: ppo
    hyperparameters: {batch_size: 64, buffer_size: 12000, learning_rate: 3e-4, beta: 1e-3, lambd: 0.99}
    network_settings: {normalize: true}
    time_horizon: 1000
    max_steps: 1.0e7
environment_parameters:
  mass: {sampler_type: uniform, sampler_parameters: {min_value: 0.5, max_value: 10}}
  gravity: 9.81
  drag: {sampler_type: gaussian, sampler_parameters: {mean: 1, st_dev: .3}}
  angle: {sampler_type: multirangeuniform, sampler_parameters: {intervals: [[0, 1], [4, 7.5]]}}
""",
    "ppo/Match3 (constant rate)": """
default_settings:
  trainer_type: ppo
  hyperparameters: {batch_size: 64, buffer_size: 12000, learning_rate_schedule: constant, lambd: 0.99}
  network_settings: {normalize: true, vis_encode_type: match3}
  max_steps: 5000000
behaviors:
  Match3SimpleHeuristic: {max_steps: 2500}
  Match3VisualObs: {}
""",
    "imitation/Pyramids": """
behaviors:
  Pyramids:
    trainer_type: ppo
    reward_signals:
      extrinsic: {gamma: 0.99}
      curiosity: {strength: 0.02, gamma: 0.99, network_settings: {hidden_units: 256}}
      gail: {strength: 0.01, gamma: 0.99, demo_path: Project/Demos/ExpertPyramid.demo}
    behavioral_cloning: {demo_path: Project/Demos/ExpertPyramid.demo, steps: 150000, strength: 0.5,
      samples_per_update: 0}
""",
}


@pytest.mark.parametrize("name", TRAINABLE)
def test_an_example_loads(name: str, tmp_path: Path) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(TRAINABLE[name], encoding="utf-8")
    behaviors = load_settings(path).behaviors
    assert {behavior.trainer_type for behavior in behaviors.values()} < {"ppo", "sac", "poca"}


def test_the_numbers_of_3dball_for_sac_arrive() -> None:
    numbers = load_settings("3DBallSAC").behaviors["3DBall"].hyperparameters
    assert isinstance(numbers, SACHyperparameters)
    assert (numbers.batch_size, numbers.buffer_size, numbers.tau, numbers.init_entcoef) == (64, 200000, 0.005, 0.5)
    assert (numbers.steps_per_update, numbers.buffer_init_steps, numbers.save_replay_buffer) == (10.0, 0, False)
