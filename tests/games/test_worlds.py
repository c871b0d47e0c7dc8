"""Two worlds with goals: what a step does and pays, and their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.envs import open_source
from tau_trainer.games.worlds import BitFlipping, GoalWorld
from tau_trainer.settings import load_settings

WORLDS = "gym:tau_trainer.games.worlds:"


@pytest.mark.parametrize("make", [BitFlipping, GoalWorld])
def test_what_a_step_pays_is_what_the_goal_is_worth(make: Any) -> None:
    env, ends = make(), list[bool]()
    for episode in range(20):
        obs, _ = env.reset(seed=episode)
        env.action_space.seed(episode)
        assert env.observation_space.contains(obs)
        for step in range(1, env.limit + 1):
            obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
            goals: Any = (obs["achieved_goal"], obs["desired_goal"], {})
            assert reward == env.compute_reward(*goals) == (0.0 if terminated else -1.0)
            assert terminated == env.compute_terminated(*goals) == info["is_success"]
            assert truncated == env.compute_truncated(*goals) == (step == env.limit)
            np.testing.assert_array_equal(obs["observation"], obs["achieved_goal"])
            if terminated or truncated:
                ends.append(terminated)
                break
    assert not all(ends)


def test_flipping_the_wrong_bits_reaches_the_goal() -> None:
    env = BitFlipping(6)
    for seed in range(20):
        obs, _ = env.reset(seed=seed)
        wrong = np.flatnonzero(obs["observation"] != obs["desired_goal"])
        assert len(wrong)
        ends = [env.step(bit)[2] for bit in wrong]
        assert ends == [False] * (len(wrong) - 1) + [True]


def test_the_point_is_led_to_its_goal_in_four_or_five_steps() -> None:
    env, returns = GoalWorld(), []
    for seed in range(300):
        obs, _ = env.reset(seed=seed)
        assert (np.abs(obs["desired_goal"] - 4) <= 0.5).all()
        np.testing.assert_array_equal(obs["observation"], [0, 0])
        total, done = 0.0, False
        while not done:
            obs, reward, done, _, _ = env.step(9 * (obs["desired_goal"] - obs["observation"]) / 9)
            total += reward
        returns.append(total)
    assert set(returns) == {-3.0, -4.0}
    assert np.mean(returns) == pytest.approx(-3.58, abs=0.1)


def test_walls_and_limits_of_a_step() -> None:
    env = GoalWorld()
    env.reset(seed=0)
    np.testing.assert_array_equal(env.step(np.array([-3.0, 9.0]))[0]["observation"], [0, 1])
    for _ in range(9):
        obs, *_ = env.step(np.array([0.0, 1.0]))
    np.testing.assert_array_equal(obs["observation"], [0, 5])


def test_the_worlds_can_be_named(tmp_path: Path) -> None:
    for name in ("BitFlipping-v0", "GoalWorld-v0"):
        source = open_source(load_settings(None, {"env_settings.env_path": WORLDS + name}), 1, tmp_path)
        assert source.warnings == ()
