"""Checks around Gymnasium environments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tau_trainer.envs import open_source
from tau_trainer.envs.checked import CheckedEnv, check_observation, checked
from tau_trainer.errors import EnvironmentFaultError
from tau_trainer.settings import load_settings
from tests.envs.gyms import Probe, environment_of, playing, vector
from tests.envs.playing import Sentences, play
from tests.envs.wrong import Wrong, failure

WRONG_STEPS: list[tuple[dict[str, Any] | Callable[[], Any], str]] = [
    ({"reward": [1]}, "returned [1] as reward; it must be a number"),
    ({"reward": None}, "returned None as reward; it must be a number"),
    ({"terminated": None}, "returned None as terminated; it must be True or False"),
    ({"truncated": "no"}, "returned 'no' as truncated; it must be True or False"),
    ({"terminated": np.zeros(2, np.bool_)}, "returned an array of shape (2,) and dtype bool as terminated"),
    ({"info": None}, "returned None as info; it must be a dictionary, {} if there is no info"),
    ({"obs": np.zeros(3)}, "returned an array of shape (3,) and dtype float64 as observation; it must be of shape"),
    ({"obs": None}, "returned None as observation; it must be of shape (2,) and dtype float32, as its space Box("),
    ({"obs": [1.0, [2.0]]}, "returned [1.0, [2.0]] as observation; it must be of shape (2,)"),
    ({"obs": ({}, 3)}, "returned a tuple of 2 values as observation; it must be of shape (2,)"),
    (lambda: (1, 2, 3, 4), "returned a tuple of 4 values; it must return 5 values: observation, reward, terminated, "),
    (lambda: "abcde", "returned 'abcde'; it must return 5 values"),
]


@pytest.mark.parametrize(("said", "sentence"), WRONG_STEPS, ids=[sentence[:40] for _, sentence in WRONG_STEPS])
def test_a_wrong_step(said: Any, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wrong, "said", staticmethod(said) if callable(said) else said)
    error = failure(vector(Wrong, copies=2))
    assert str(error).startswith(f"environment 0: Wrong.step() {sentence}")
    assert isinstance(error, EnvironmentFaultError)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("begun", "sentence"),
    [
        (lambda: np.zeros(2), "returned an array of shape (2,) and dtype float64; it must return 2 values"),
        (lambda: (np.zeros(2), None), "returned None as info; it must be a dictionary"),
        (lambda: (np.zeros(5), {}), "returned an array of shape (5,) and dtype float64 as observation; it must be of"),
    ],
)
def test_a_wrong_reset(begun: Any, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wrong, "begun", staticmethod(begun))
    assert str(failure(vector(Wrong))).startswith(f"environment 0: Wrong.reset() {sentence}")


@pytest.mark.parametrize("value", [np.float32(2.0), 3, True, np.array(1.5), np.int64(4)])
async def test_numbers_of_any_kind_are_fine(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wrong, "said", {"reward": value, "terminated": np.bool_(False), "truncated": 0})
    environment = environment_of(vector(Wrong, copies=1))
    async with playing(environment):
        (batch,) = await play(environment, await environment.start({}), 1)
        assert batch.reward.tolist() == [float(value)]


BYTE = np.zeros(1, np.uint8)
NESTED = spaces.Dict(
    {"a": spaces.Box(-1, 1, (2,)), "b": spaces.Tuple((spaces.Discrete(3, start=1), spaces.Box(0, 9, (1,), np.uint8)))}
)


@pytest.mark.parametrize(
    ("obs", "sentence"),
    [
        ([1], "[1] as observation; it must be a dictionary with the keys ['a', 'b']"),
        ({"a": np.zeros(2)}, "an observation without 'b'; it must have the keys ['a', 'b']"),
        ({"a": np.zeros(1), "b": (1, [0])}, "an array of shape (1,) and dtype float64 as observation['a']; it must"),
        ({"a": np.zeros(2), "b": (1,)}, "a tuple of 1 values as observation['b']; it must be a tuple of the 2 parts"),
        ({"a": np.zeros(2), "b": (0, BYTE)}, "0 as observation['b'][0]; it must be a value of Discrete(3"),
        ({"a": np.zeros(2), "b": (4, BYTE)}, "4 as observation['b'][0]; it must be a value of Discrete(3"),
        ({"a": np.zeros(2), "b": (1, np.zeros(1))}, "an array of shape (1,) and dtype float64 as observation['b'][1]"),
    ],
)
def test_observations_of_another_form(obs: Any, sentence: str) -> None:
    with pytest.raises(EnvironmentFaultError) as raised:
        check_observation(NESTED, obs, "step()")
    assert str(raised.value).startswith(f"step() returned {sentence}")


def test_what_fits_is_let_through() -> None:
    boxes = (spaces.Box(0, 1, ()), spaces.Box(0, 9, (2, 2), np.int64))
    for space in (NESTED, spaces.MultiDiscrete([2, 3]), spaces.MultiBinary((2, 2)), *boxes):
        for _ in range(5):
            check_observation(space, space.sample(), "step()")
    check_observation(spaces.Box(0, 1, (2,)), [7, -7], "step()")  # beyond its bounds, and no array


def test_beneath_gymnasiums_wrappers_and_above_an_authors() -> None:
    class Doubling(gymnasium.RewardWrapper[Any, Any]):
        def reward(self, reward: Any) -> Any:
            return [reward]

    env = checked(gymnasium.wrappers.TimeLimit(Probe(), 5))
    assert type(env) is gymnasium.wrappers.TimeLimit
    assert type(env.env) is CheckedEnv
    assert type(checked(Probe())) is CheckedEnv
    env = checked(gymnasium.wrappers.TimeLimit(Doubling(Probe()), 5))
    env.reset(seed=1)
    with pytest.raises(EnvironmentFaultError, match=r"^Probe.step\(\) returned \[1.0\] as reward"):
        env.step(0)


async def test_gymnasiums_own_are_not_checked_again(tmp_path: Path) -> None:
    settings = load_settings(None, {"env_settings.env_path": "gym:CartPole-v1", "env_settings.seed": 1})
    environment: Any = open_source(settings, 1, tmp_path).make(0, lambda _: None, Sentences())
    async with playing(environment):
        await environment.start({})
        assert not any(isinstance(env, CheckedEnv) for env in environment._env.envs)
