"""What a sweep searches: distributions, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tau_trainer.errors import SettingsError
from tau_trainer.settings import Distribution, SweepSettings, dump_settings, full_key, load_settings

FILE = """
behaviors:
  Ball: {trainer_type: ppo, max_steps: 16000, summary_freq: 500}
sweep:
  trials: 3
  cluster: {resources: {cpu: 2}}
  space:
    hyperparameters.learning_rate: {loguniform: [1e-5, 1e-2]}
    hyperparameters.batch_size: {choice: [32, 64]}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ball.yaml"
    path.write_text(FILE)
    return path


def swept(file: Path, **given: Any) -> SweepSettings:
    settings = load_settings(file, {f"sweep.{name}": value for name, value in given.items()})
    assert settings.sweep is not None
    return settings.sweep


def test_numbers_are_read_as_everywhere_and_written_so_that_they_can_be_read_again(file: Path, tmp_path: Path) -> None:
    asked = swept(file)
    rate = asked.space["hyperparameters.learning_rate"]
    assert (rate.kind, rate.arguments) == ("loguniform", (1e-5, 1e-2)), "YAML itself takes 1e-5 for a text"
    assert (asked.scheduler, asked.cluster.address, asked.cluster.resources) == ("asha", "local", {"cpu": 2.0})
    again = tmp_path / "again.yaml"
    again.write_text(dump_settings(load_settings(file)))
    assert swept(again) == asked


@pytest.mark.parametrize(
    ("given", "extremes", "inside", "beyond", "end"),
    [
        ({"uniform": [1, 2]}, (1.0, 2.0), 1.5, 2.5, 2.0),
        ({"quniform": [1, 2, 0.5]}, (1.0, 2.0), 1.5, 0.5, 1.0),
        ({"randint": [1, 8]}, (1, 7), 7, 8, 7),
        ({"lograndint": [1, 8]}, (1, 7), 1, 0, 1),
        ({"qrandint": [32, 64, 32]}, (32, 64), 64, 77, 64),
    ],
)
def test_ends_of_ranges(given: Any, extremes: Any, inside: float, beyond: float, end: float) -> None:
    found = Distribution.model_validate(given)
    assert found.extremes == extremes
    assert found.within(inside) == inside
    assert found.within(beyond) == end


def test_a_choice_has_no_order() -> None:
    found = Distribution.model_validate({"choice": ["adam", 3, "sgd"]})
    assert found.extremes == ("adam", 3, "sgd")
    assert found.within("sgd") == "sgd"


@pytest.mark.parametrize(
    ("space", "said"),
    [
        ({"x": {}}, r"needs exactly one of choice, uniform, .* such as loguniform: \[1e-5, 1e-2\]"),
        ({"x": {"uniform": [1, 2], "choice": [1]}}, "needs exactly one of"),
        ({"x": {"unifrom": [1, 2]}}, "did you mean uniform"),
        ({"x": {"uniform": [2, 1]}}, r"has a uniform from 2.0 to 1.0; the first number must be below the second"),
        (
            {"x": {"loguniform": [0, 1]}},
            r"has a loguniform from 0.0 to 1.0; the first number must be above 0 and below the second",
        ),
        (
            {"x": {"lograndint": [0, 8]}},
            r"has a lograndint from 0 to 8; the first number must be above 0 and below the second",
        ),
        ({"x": {"randint": [0.5, 2]}}, "whole number"),
        ({"x": {"quniform": [1, 10, 4]}}, r"has a quniform from 1.0 to 10.0; both must be multiples of 4.0"),
    ],
)
def test_what_is_no_space(space: Any, said: str, file: Path) -> None:
    with pytest.raises(SettingsError, match=said):
        swept(file, space=space)


def test_a_population_goes_on_with_the_networks_that_it_has(file: Path) -> None:
    space = {"network_settings.hidden_units": {"choice": [16, 32]}}
    with pytest.raises(
        SettingsError, match=r"has scheduler pbt, .* cannot search network_settings.hidden_units; choose"
    ):
        swept(file, space=space, scheduler="pbt")
    with pytest.raises(SettingsError, match=r"has scheduler pbt, .* cannot search behaviors.Ball.trainer_type; choose"):
        swept(file, space={"behaviors.Ball.trainer_type": {"choice": ["ppo", "sac"]}}, scheduler="pbt")
    assert swept(file, space=space).scheduler == "asha"


def test_what_all_behaviors_have_needs_no_more() -> None:
    assert full_key("hyperparameters.beta") == "behaviors.*.hyperparameters.beta"
    assert full_key("max_steps=5") == "behaviors.*.max_steps=5"
    assert full_key("behaviors.Ball.max_steps") == "behaviors.Ball.max_steps"
    assert full_key("env_settings.seed") == "env_settings.seed"
