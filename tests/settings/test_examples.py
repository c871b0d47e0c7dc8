"""ML-Agents' own example files, in short: all parse, and what this version cannot train says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer.settings import RunSettings, SACHyperparameters, load_settings

TRAINABLE = {
    "ppo/3DBall": """
behaviors:
  3DBall:
    trainer_type: ppo
    hyperparameters: {batch_size: 64, buffer_size: 12000, learning_rate: 0.0003, beta: 0.001, epsilon: 0.2,
      lambd: 0.99, num_epoch: 3, learning_rate_schedule: linear}
    network_settings: {normalize: true, hidden_units: 128, num_layers: 2, vis_encode_type: simple}
    reward_signals: {extrinsic: {gamma: 0.99, strength: 1.0}}
    keep_checkpoints: 5
    max_steps: 500000
    time_horizon: 1000
    summary_freq: 12000
    threaded: true
""",
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
  scale: {sampler_type: uniform, sampler_parameters: {min_value: 0.75, max_value: 3}}
  gravity: 9.81
  drag: {sampler_type: gaussian, sampler_parameters: {mean: 1, st_dev: .3}}
  angle: {sampler_type: multirangeuniform, sampler_parameters: {intervals: [[0, 1], [4, 7.5]]}}
""",
    "ppo/Basic": """
behaviors:
  Basic:
    trainer_type: ppo
    hyperparameters: {batch_size: 32, buffer_size: 256, learning_rate: 0.0003, beta: 0.005, epsilon: 0.2,
      lambd: 0.95, num_epoch: 3, learning_rate_schedule: linear}
    network_settings: {normalize: false, hidden_units: 20, num_layers: 1, vis_encode_type: simple}
    reward_signals: {extrinsic: {gamma: 0.9, strength: 1.0}}
    time_horizon: 3
    summary_freq: 2000
""",
    "ppo/Match3 (constant rate)": """
default_settings:
  trainer_type: ppo
  hyperparameters: {batch_size: 64, buffer_size: 12000, learning_rate_schedule: constant, lambd: 0.99}
  network_settings: {normalize: true}
  max_steps: 5000000
behaviors:
  Match3SimpleHeuristic: {max_steps: 2500}
  Match3VectorObs: {}
""",
    "ppo/Sorter_curriculum": """
behaviors:
  Sorter:
    trainer_type: ppo
    hyperparameters: {batch_size: 512, buffer_size: 40960}
    time_horizon: 256
    max_steps: 5000000
env_settings: {num_envs: 8, env_path: Builds/Sorter}
environment_parameters:
  num_tiles:
    curriculum:
      - name: Lesson0
        completion_criteria: {measure: progress, behavior: Sorter, signal_smoothing: true, min_lesson_length: 100,
          threshold: 0.3}
        value: 2.0
      - name: Lesson1
        completion_criteria: {measure: progress, behavior: Sorter, threshold: 0.5}
        value: 4.0
      - {name: Lesson2, value: 6.0}
""",
    "ppo/WallJump_curriculum": """
behaviors:
  BigWallJump: {trainer_type: ppo, hyperparameters: {batch_size: 128, buffer_size: 2048}, max_steps: 20000000}
  SmallWallJump: {trainer_type: ppo, hyperparameters: {batch_size: 128, buffer_size: 2048}, max_steps: 5000000}
environment_parameters:
  big_wall_height:
    curriculum:
      - name: Lesson0
        completion_criteria: {measure: progress, behavior: BigWallJump, threshold: 0.1}
        value: {sampler_type: uniform, sampler_parameters: {min_value: 0.0, max_value: 4.0}}
      - {name: Lesson1, value: 8.0}
  small_wall_height:
    curriculum:
      - name: Lesson0
        completion_criteria: {measure: reward, behavior: BigWallJump, threshold: 0.1, require_reset: true}
        value: 1.5
      - {name: Lesson1, value: 4.0, completion_criteria: {behavior: SmallWallJump, threshold: 2}}
""",
    "sac/3DBall": """
behaviors:
  3DBall:
    trainer_type: sac
    hyperparameters: {learning_rate: 0.0003, learning_rate_schedule: constant, batch_size: 64, buffer_size: 200000,
      buffer_init_steps: 0, tau: 0.005, steps_per_update: 10.0, save_replay_buffer: false, init_entcoef: 0.5,
      reward_signal_steps_per_update: 10.0}
    network_settings: {normalize: true, hidden_units: 64}
    max_steps: 100000
    time_horizon: 1000
""",
    "ppo/Hallway": """
behaviors:
  Hallway:
    trainer_type: ppo
    hyperparameters: {batch_size: 128, buffer_size: 1024, beta: 0.03}
    network_settings: {memory: {sequence_length: 64, memory_size: 128}}
    max_steps: 10000000
""",
    "ppo/images of a board": """
behaviors:
  Match3VisualObs:
    trainer_type: ppo
    hyperparameters: {batch_size: 64, buffer_size: 12000, learning_rate_schedule: constant}
    network_settings: {normalize: true, vis_encode_type: match3}
""",
    "sac/Hallway": """
behaviors:
  Hallway:
    trainer_type: sac
    hyperparameters: {batch_size: 512, buffer_size: 200000, init_entcoef: 0.1}
    network_settings: {memory: {sequence_length: 64, memory_size: 128}}
""",
    "ppo/PyramidsRND": """
behaviors:
  Pyramids:
    trainer_type: ppo
    hyperparameters: {batch_size: 128, buffer_size: 2048, beta: 0.01}
    network_settings: {hidden_units: 512}
    reward_signals:
      extrinsic: {gamma: 0.99}
      rnd: {gamma: 0.99, strength: 0.01, network_settings: {hidden_units: 64, num_layers: 3}, learning_rate: 0.0001}
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
    "poca/SoccerTwos": """
behaviors:
  SoccerTwos:
    trainer_type: poca
    hyperparameters: {batch_size: 2048, buffer_size: 20480, learning_rate_schedule: constant}
    network_settings: {hidden_units: 512}
    self_play: {save_steps: 50000, team_change: 200000, swap_steps: 2000, window: 10,
      play_against_latest_model_ratio: 0.5, initial_elo: 1200.0}
""",
}


@pytest.fixture
def written(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    path = tmp_path / "example.yaml"
    path.write_text(request.param, encoding="utf-8")
    return path


@pytest.mark.parametrize("written", TRAINABLE.values(), ids=TRAINABLE.keys(), indirect=True)
def test_an_example_loads(written: Path) -> None:
    settings = load_settings(written)
    assert isinstance(settings, RunSettings)
    assert settings.behaviors
    assert all(behavior.trainer_type in ("ppo", "sac", "poca") for behavior in settings.behaviors.values())


def test_the_numbers_of_3dball_for_sac_arrive(tmp_path: Path) -> None:
    path = tmp_path / "3DBall.yaml"
    path.write_text(TRAINABLE["sac/3DBall"], encoding="utf-8")
    numbers = load_settings(path).behaviors["3DBall"].hyperparameters
    assert isinstance(numbers, SACHyperparameters)
    assert (numbers.batch_size, numbers.buffer_size, numbers.tau, numbers.init_entcoef) == (64, 200000, 0.005, 0.5)
    assert (numbers.steps_per_update, numbers.buffer_init_steps, numbers.save_replay_buffer) == (10.0, 0, False)
