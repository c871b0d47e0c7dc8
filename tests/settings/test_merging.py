"""Behaviors over default_settings, and flags over the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer.errors import SettingsError
from tau_trainer.settings import PPOHyperparameters, SACTrainerSettings, load_settings
from tau_trainer.settings.merging import apply_overrides, deep_merge
from tests.settings.reading import parse_settings


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.yaml"


def test_deep_merge_leaves_its_arguments_alone() -> None:
    below, above = {"a": {"x": 1, "y": 2}, "b": [1]}, {"a": {"y": 3}, "b": [2]}
    merged = deep_merge(below, above)
    assert merged == {"a": {"x": 1, "y": 3}, "b": [2]}
    merged["a"]["x"] = 9
    assert below == {"a": {"x": 1, "y": 2}, "b": [1]}


def test_a_behavior_wins_over_the_defaults(path: Path) -> None:
    path.write_text("""
default_settings:
  trainer_type: ppo
  hyperparameters: {batch_size: 64, beta: 0.01}
  network_settings: {hidden_units: 32, normalize: true}
behaviors:
  A: {hyperparameters: {beta: 0.02}, network_settings: {hidden_units: 16}}
""")
    behavior = load_settings(path).behaviors["A"]
    assert isinstance(behavior.hyperparameters, PPOHyperparameters)
    assert (behavior.hyperparameters.batch_size, behavior.hyperparameters.beta) == (64, 0.02)
    assert (behavior.network_settings.hidden_units, behavior.network_settings.normalize) == (16, True)


def test_the_defaults_count_in_full_as_in_mlagents(path: Path) -> None:
    """There the defaults' own schedules, written or not, are given values that a behavior's rate does not change."""
    path.write_text("""
default_settings: {max_steps: 100}
behaviors:
  A: {trainer_type: ppo, hyperparameters: {learning_rate_schedule: constant}}
""")
    numbers = load_settings(path).behaviors["A"].hyperparameters
    assert isinstance(numbers, PPOHyperparameters)
    assert (numbers.learning_rate_schedule, numbers.beta_schedule) == ("constant", "linear")


@pytest.mark.parametrize(
    "defaults",
    ["{max_steps: 7}", "{trainer_type: ppo, max_steps: 7, hyperparameters: {beta: 0.1, learning_rate: 0.01}}"],
)
def test_defaults_of_another_trainer_type_work(path: Path, defaults: str) -> None:
    """`mlagents-learn` fails here: a full PPO settings object lies under the SAC behavior."""
    path.write_text(f"default_settings: {defaults}\nbehaviors:\n  A: {{trainer_type: sac}}\n")
    behavior = parse_settings(path).behaviors["A"]
    assert isinstance(behavior, SACTrainerSettings)
    assert behavior.max_steps == 7
    assert behavior.hyperparameters.batch_size == 128
    assert behavior.hyperparameters.learning_rate == (0.01 if "0.01" in defaults else 3e-4)


def test_a_mistake_in_the_defaults_is_told_once_and_where_it_stands(path: Path) -> None:
    path.write_text("default_settings:\n  max_stepz: 7\nbehaviors: {A: {}, B: {}}\n")
    with pytest.raises(SettingsError) as error:
        load_settings(path)
    assert str(error.value) == f"{path}:2: default_settings.max_stepz is no known key; did you mean max_steps?"


def test_the_defaults_trainer_type_serves_the_behaviors_hyperparameters(path: Path) -> None:
    path.write_text("default_settings: {trainer_type: ppo}\nbehaviors: {A: {hyperparameters: {batch_size: 8}}}\n")
    assert load_settings(path).behaviors["A"].hyperparameters.batch_size == 8


def test_an_override_makes_sections_on_its_way() -> None:
    data, places = apply_overrides({"behaviors": {}}, {"env_settings.seed": 3, "tau.reward.credit": "aggregate"})
    assert data == {"behaviors": {}, "env_settings": {"seed": 3}, "tau": {"reward": {"credit": "aggregate"}}}
    assert places == {("env_settings", "seed"), ("tau", "reward", "credit")}


def test_a_star_means_every_behavior_and_the_defaults() -> None:
    before = {"behaviors": {"A": {}, "B": {"max_steps": 1}}, "default_settings": {}}
    data, places = apply_overrides(before, {"behaviors.*.max_steps": 5})
    assert data["behaviors"] == {"A": {"max_steps": 5}, "B": {"max_steps": 5}}
    assert data["default_settings"] == {"max_steps": 5}
    assert len(places) == 3
    assert before["behaviors"]["B"] == {"max_steps": 1}


def test_a_star_without_behaviors_makes_defaults() -> None:
    assert apply_overrides({}, {"behaviors.*.max_steps": 5})[0] == {"default_settings": {"max_steps": 5}}


def test_an_override_never_hides_a_section_that_is_no_section(path: Path) -> None:
    path.write_text("behaviors: {A: null}\nenv_settings: 3\n")
    with pytest.raises(SettingsError) as error:
        load_settings(path, {"behaviors.*.max_steps": 5, "env_settings.seed": 1})
    assert "behaviors.A is empty" in str(error.value)
    assert "env_settings must be a mapping of keys, not 3" in str(error.value)


def test_a_mapping_as_override_is_merged() -> None:
    data, _ = apply_overrides({"env_settings": {"seed": 1}}, {"env_settings": {"num_envs": 2}})
    assert data == {"env_settings": {"seed": 1, "num_envs": 2}}
