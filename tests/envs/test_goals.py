"""Goal-based environments of Gymnasium: their sensors, and what they say of goals that were not set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tau_trainer.envs.goals import GymnasiumGoals
from tau_trainer.envs.gymnasium import GymnasiumSource
from tau_trainer.envs.spaces import sensors
from tau_trainer.errors import EngineRefusedError, SettingsError
from tau_trainer.games.worlds import GoalWorld
from tau_trainer.specs import ObservationType
from tests.envs.playing import small_run
from tests.training.fakes import Memory

POINT = spaces.Box(-1.0, 1.0, (2,), np.float32)


class Asked(gymnasium.Env[Any, Any]):
    """Answers as environments of others do; counts how often it is asked."""

    action_space = spaces.Discrete(2)

    def __init__(self, goals: spaces.Space[Any] = POINT) -> None:
        keys = ("observation", "achieved_goal", "desired_goal")
        self.observation_space = spaces.Dict(dict.fromkeys(keys, goals))
        self.calls = 0

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        self.calls += 1
        return -np.abs(np.asarray(achieved_goal, np.float32) - desired_goal).sum(axis=-1)


class OneByOne(Asked):
    """Takes one goal at a time, and makes something of many without complaint, as gymnasium-robotics' mazes do."""

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        self.calls += 1
        return -float(np.linalg.norm(achieved_goal - desired_goal) > 0.5)

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> bool:
        return bool(np.linalg.norm(achieved_goal - desired_goal) <= 0.5)


class Picky(Asked):
    """Refuses many at once; never ends by a goal."""

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        assert np.shape(achieved_goal) == (2,)
        return float(achieved_goal[0] == desired_goal[0])

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> bool:
        return False


def pairs(count: int = 20) -> Any:
    rng = np.random.default_rng(0)
    goals = rng.uniform(-1, 1, (count, 2)).astype(np.float32)
    achieved = np.where(rng.random((count, 1)) < 0.5, goals, rng.uniform(-1, 1, (count, 2))).astype(np.float32)
    return achieved, goals


@pytest.mark.parametrize("env", [Asked(), OneByOne(), Picky(), GoalWorld()], ids=lambda env: type(env).__name__)
def test_many_goals_are_judged_as_each_alone(env: Any) -> None:
    achieved, goals = pairs()
    rule = GymnasiumGoals(env)
    env.calls = 0
    reward, terminated = rule(achieved, goals)
    assert env.calls == {Asked: 1, OneByOne: 20}.get(type(env), 0), "one question where that is allowed"
    alone = list(zip(achieved, goals, strict=True))
    assert reward.shape == (20,)
    assert [values.dtype.name for values in (reward, terminated)] == ["float32", "bool"]
    np.testing.assert_allclose(reward, [env.compute_reward(*pair, {}) for pair in alone], rtol=1e-6)
    ends = getattr(env, "compute_terminated", lambda *_: False)
    assert terminated.tolist() == [bool(ends(*pair, {})) for pair in alone]


@pytest.mark.parametrize(
    ("space", "shown", "meant"),
    [
        (spaces.Discrete(4, start=3), [[0, 0, 1, 0], [1, 0, 0, 0]], [5, 3]),
        (spaces.MultiBinary(2), [[0, 1], [1, 1]], [[0, 1], [1, 1]]),
        (spaces.Box(0.0, 9.0, (2,), np.float64), [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        (spaces.Box(0.0, 9.0, (), np.float32), [[1], [3]], [1, 3]),
    ],
)
def test_goals_are_asked_about_as_the_environment_has_them(space: Any, shown: Any, meant: Any) -> None:
    asked: list[Any] = []

    class Recording(Asked):
        def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
            asked.append(achieved_goal)
            return np.zeros(len(achieved_goal)) if np.shape(achieved_goal) > np.shape(space.sample()) else 0.0

    GymnasiumGoals(Recording(space))(np.array(shown, np.float32), np.zeros(np.shape(shown), np.float32))
    np.testing.assert_array_equal(asked[-1], np.array(meant, asked[-1].dtype), strict=True)
    assert np.dtype(asked[-1].dtype) == space.dtype
    assert [sensor.shape for sensor in sensors(space)] == [np.shape(shown)[1:]]


@pytest.mark.parametrize("goals", [spaces.Dict({"x": POINT}), spaces.Text(3)])
def test_goals_of_which_no_environment_can_be_asked(goals: Any) -> None:
    with pytest.raises(SettingsError, match=r"^Asked is not goal-based \(it needs a 'desired_goal' and a method"):
        GymnasiumGoals(Asked(goals))


def test_an_environment_without_goals() -> None:
    with pytest.raises(SettingsError, match=r"cannot compute the reward of a goal; set"):
        GymnasiumSource.goals("gym:CartPole-v1")


# --- sensors ----------------------------------------------------------------------------------------------------------


def seen(space: spaces.Space[Any]) -> dict[str, tuple[bool, bool]]:
    """By name: whether it is a goal signal, and hidden."""
    return {one.name: (one.observation_type is ObservationType.GOAL_SIGNAL, one.hidden) for one in sensors(space)}


def test_what_is_desired_is_a_goal_signal_and_what_is_achieved_hidden() -> None:
    space: dict[str, spaces.Space[Any]] = {"observation": POINT, "achieved_goal": POINT, "desired_goal": POINT}
    assert seen(spaces.Dict(space)) == {
        "achieved_goal": (False, True),
        "desired_goal": (True, False),
        "observation": (False, False),
    }
    nested = spaces.Dict({**space, "desired_goal": spaces.Dict({"x": POINT, "y": spaces.Tuple((POINT, POINT))})})
    assert seen(nested) == {
        "achieved_goal": (False, True),
        "desired_goal.x": (True, False),
        "desired_goal.y.0": (True, False),
        "desired_goal.y.1": (True, False),
        "observation": (False, False),
    }

    alone = spaces.Dict({"achieved_goal": POINT, "desired_goal": POINT})
    assert seen(alone) == {"achieved_goal": (False, False), "desired_goal": (True, False)}
    none = spaces.Dict({"desired_goal": POINT, "observation": POINT})
    assert set(seen(none).values()) == set(seen(POINT).values()) == {(False, False)}


# --- a whole run ------------------------------------------------------------------------------------------------------


def test_a_run_with_hindsight(tmp_path: Path, memory: Memory) -> None:
    """Another process learns, which has to know what goals are worth."""
    numbers = {"buffer_init_steps": 50, "batch_size": 32, "steps_per_update": 10}
    changes: dict[str, Any] = {
        f"behaviors__BitFlipping-v0__hyperparameters__{name}": value for name, value in numbers.items()
    }
    changes |= {"behaviors__BitFlipping-v0__max_steps": 150, "env_settings__env_args": ["n=4"]}
    changes |= {"env_settings__num_areas": 3, "collection__learner": "process"}
    report = small_run(tmp_path, memory, None, "BitFlipping", **changes)
    assert (report.outcome, report.exit_code, report.errors) == ("completed", 0, ())
    assert [path.name for path in report.models] == ["BitFlipping-v0.onnx"]


def test_a_run_that_cannot_know_what_goals_are_worth_says_so(tmp_path: Path, memory: Memory) -> None:
    hindsight = "behaviors__BitFlipping-v0__hyperparameters__hindsight__"
    changes = {f"{hindsight}goal": "observation", f"{hindsight}reward_done": "nowhere:to_be_found"}
    with pytest.raises(
        EngineRefusedError, match=r"^behavior 'BitFlipping-v0': .*'nowhere:to_be_found' cannot be loaded"
    ):
        small_run(tmp_path, memory, None, "BitFlipping", **changes)
