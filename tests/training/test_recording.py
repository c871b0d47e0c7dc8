"""Recording: on several behaviors, by functions and chance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.bridge.demonstrations import read_demonstration
from tau_trainer.errors import SettingsError
from tau_trainer.evaluation.players import scripted
from tau_trainer.settings import load_settings
from tau_trainer.specs import Actions, BehaviorSpec
from tau_trainer.training.recording import record


def to_the_right(spec: BehaviorSpec, obs: Any, mask: Any) -> Actions:
    """CartPole's cart goes right whenever the pole leans there."""
    return Actions(np.zeros((len(obs[0]), 0), np.float32), (obs[0][:, 2:3] > 0).astype(np.int32))


def wrong(spec: BehaviorSpec, obs: Any, mask: Any) -> Actions:
    return Actions(np.zeros((1, 5), np.float32), np.zeros((1, 1), np.int32))


def test_a_function_plays_and_is_checked(tmp_path: Path) -> None:
    settings = load_settings(None, {"env_settings.env_path": "gym:CartPole-v1", "env_settings.num_areas": 3})
    name = f"{__name__}:to_the_right"
    ((path, demo),) = record(settings, name, tmp_path / "right.demo", episodes=4)
    read = read_demonstration(path)
    np.testing.assert_array_equal(read.obs[0], demo.obs[0])
    acted = ~read.ended
    np.testing.assert_array_equal(read.actions.discrete[acted, 0], read.obs[0][acted, 2] > 0)
    assert len(read.returns) >= 4
    with pytest.raises(SettingsError, match=r"must return tau_trainer.specs.Actions of shapes \[3, 0\] and \[3, 1\]"):
        record(settings, f"{__name__}:wrong", tmp_path / "wrong.demo", episodes=1)
    with pytest.raises(SettingsError, match="player nowhere:nothing: ModuleNotFoundError"):
        scripted("nowhere:nothing")
    assert [one.name for one in tmp_path.iterdir()] == ["right.demo"]


def test_decisions_end_what_has_no_end_and_open_episodes_are_kept(tmp_path: Path) -> None:
    settings = load_settings(None, {"env_settings.env_path": "gym:Pendulum-v1", "env_settings.num_areas": 2})
    ((_, demo),) = record(settings, "random", tmp_path / "a.demo", episodes=100, most=50)
    assert len(demo) == 50
    assert not demo.ended.any()


def test_every_behavior_gets_a_file(tmp_path: Path) -> None:
    settings = load_settings(None, {"env_settings.env_path": "headless:sorter", "env_settings.seed": 1})
    written = record(settings, "random", tmp_path / "a.demo", episodes=1, most=400)
    assert [path.name for path, _ in written] == ["a.demo"]
    assert read_demonstration(tmp_path / "a.demo").spec.observations


def failing(spec: BehaviorSpec, obs: Any, mask: Any) -> Actions:
    raise KeyError("no plan")


def out_of_range(spec: BehaviorSpec, obs: Any, mask: Any) -> Actions:
    return Actions(np.zeros((1, 0), np.float32), np.full((1, 1), 7, np.int32))


def in_words(spec: BehaviorSpec, obs: Any, mask: Any) -> Actions:
    return Actions(np.zeros((1, 0), np.float32), np.array([["left"]]))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "os:getcwd",
            r"^player os:getcwd failed: TypeError: .*getcwd.*; it is called with the spec, the observations and",
        ),
        ("os:sep", r"^player os:sep is '.+', which is not a function; name one$"),
        (
            f"{__name__}:failing",
            r"failing failed: KeyError: 'no plan' \(in failing, test_recording.py line \d+\); it is",
        ),
        (
            f"{__name__}:out_of_range",
            r"must return finite numbers, and choices from 0 below \[2\]; it returned Actions",
        ),
        (f"{__name__}:in_words", r"must return finite numbers, and choices from 0 below \[2\]; it returned Actions"),
        ("builtins:id", r"^player builtins:id failed: TypeError"),
        (
            "builtins:print",
            r"must return tau_trainer.specs.Actions of shapes \[1, 0\] and \[1, 1\], .*; it returned None$",
        ),
    ],
)
def test_a_player_that_is_none_is_said(name: str, said: str, tmp_path: Path) -> None:
    settings = load_settings(None, {"env_settings.env_path": "gym:CartPole-v1", "env_settings.seed": 1})
    with pytest.raises(SettingsError, match=said):
        record(settings, name, tmp_path / "a.demo", episodes=1)
    assert not list(tmp_path.iterdir())
