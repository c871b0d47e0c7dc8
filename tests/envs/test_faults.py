"""What an author's environment returns wrongly is said in a sentence: which method, what it returned, what is due."""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tau_trainer.envs import open_source
from tau_trainer.envs.checked import CheckedEnv, check_observation, checked
from tau_trainer.envs.faults import brief
from tau_trainer.envs.pettingzoo import Copies, Parallel, Turns
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.errors import EngineError, EnvironmentFaultError
from tau_trainer.settings import load_settings
from tests.envs.mlagents.doubles import Say, Scripted
from tests.envs.playing import Sentences, play
from tests.envs.test_base_env import wrapped
from tests.envs.test_gymnasium import Probe, environment_of, run, vector
from tests.envs.test_pettingzoo import InTurns, Together, played
from tests.training.fakes import Memory, train

FINE: dict[str, Any] = {
    "obs": np.zeros(2, np.float32),
    "reward": 1.0,
    "terminated": False,
    "truncated": False,
    "info": {},
}
WRONG_STEPS: list[tuple[dict[str, Any] | Callable[[], Any], str]] = [
    ({"reward": [1]}, "returned [1] as reward; it must be a number"),
    ({"reward": None}, "returned None as reward; it must be a number"),
    ({"reward": "1"}, "returned '1' as reward; it must be a number"),
    ({"reward": np.ones(1)}, "returned an array of shape (1,) and dtype float64 as reward; it must be a number"),
    ({"terminated": None}, "returned None as terminated; it must be True or False"),
    ({"truncated": "no"}, "returned 'no' as truncated; it must be True or False"),
    ({"terminated": np.zeros(2, np.bool_)}, "returned an array of shape (2,) and dtype bool as terminated"),
    ({"info": None}, "returned None as info; it must be a dictionary, {} if there is no info"),
    ({"info": []}, "returned [] as info; it must be a dictionary"),
    (
        {"obs": np.zeros(3)},
        "returned an array of shape (3,) and dtype float64 as observation; it must be of shape (2,)",
    ),
    ({"obs": None}, "returned None as observation; it must be of shape (2,) and dtype float32, as its space Box("),
    ({"obs": [["a"]]}, "returned [['a']] as observation; it must be of shape (2,)"),
    ({"obs": [1.0, [2.0]]}, "returned [1.0, [2.0]] as observation; it must be of shape (2,)"),
    ({"obs": ({}, 3)}, "returned a tuple of 2 values as observation; it must be of shape (2,)"),
    (lambda: (1, 2, 3, 4), "returned a tuple of 4 values; it must return 5 values: observation, reward, terminated, "),
    (lambda: (1, 2, 3), "returned a tuple of 3 values; it must return 5 values"),
    (lambda: None, "returned None; it must return 5 values"),
    (lambda: "abcde", "returned 'abcde'; it must return 5 values"),
]


class Wrong(Probe):
    """Steps as it is told."""

    said: Any = None
    begun: Any = None

    def step(self, action: Any) -> Any:
        if callable(self.said):
            return self.said()
        return tuple({**FINE, **(self.said or {})}.values())

    def reset(self, **how: Any) -> Any:
        return super().reset(**how) if self.begun is None else self.begun()


def failure(make: Any, steps: int = 1, budget: RestartBudget | None = None) -> EngineError:
    """What an environment of Gymnasium ends with, beginning or within so many steps."""
    found: list[EngineError] = []
    environment = environment_of(make, budget)

    async def work() -> None:
        with pytest.raises(EngineError) as raised:
            await play(environment, await environment.start({}), steps)
        found.append(raised.value)

    run(environment, work)
    return found[0]


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
        (
            lambda: np.zeros(2),
            "returned an array of shape (2,) and dtype float64; it must return 2 values: observation,",
        ),
        (lambda: None, "returned None; it must return 2 values: observation, info"),
        (lambda: (np.zeros(2), None), "returned None as info; it must be a dictionary"),
        (lambda: (np.zeros(5), {}), "returned an array of shape (5,) and dtype float64 as observation; it must be of"),
    ],
)
def test_a_wrong_reset(begun: Any, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wrong, "begun", staticmethod(begun))
    assert str(failure(vector(Wrong))).startswith(f"environment 0: Wrong.reset() {sentence}")


@pytest.mark.parametrize("value", [np.float32(2.0), 3, True, np.array(1.5), np.int64(4)])
def test_numbers_of_any_kind_are_fine(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wrong, "said", {"reward": value, "terminated": np.bool_(False), "truncated": 0})
    environment = environment_of(vector(Wrong, copies=1))

    async def work() -> None:
        (batch,) = await play(environment, await environment.start({}), 1)
        assert batch.reward.tolist() == [float(value)]

    run(environment, work)


NESTED = spaces.Dict(
    {"a": spaces.Box(-1, 1, (2,)), "b": spaces.Tuple((spaces.Discrete(3, start=1), spaces.Box(0, 9, (1,), np.uint8)))}
)


@pytest.mark.parametrize(
    ("obs", "sentence"),
    [
        ([1], "[1] as observation; it must be a dictionary with the keys ['a', 'b']"),
        ({"a": np.zeros(2)}, "an observation without 'b'; it must have the keys ['a', 'b']"),
        (
            {"a": np.zeros(1), "b": (1, [0])},
            "an array of shape (1,) and dtype float64 as observation['a']; it must be of",
        ),
        ({"a": np.zeros(2), "b": (1,)}, "a tuple of 1 values as observation['b']; it must be a tuple of the 2 parts"),
        (
            {"a": np.zeros(2), "b": (0, np.zeros(1, np.uint8))},
            "0 as observation['b'][0]; it must be a value of Discrete(3",
        ),
        (
            {"a": np.zeros(2), "b": (4, np.zeros(1, np.uint8))},
            "4 as observation['b'][0]; it must be a value of Discrete(3",
        ),
        ({"a": np.zeros(2), "b": (1, np.zeros(1))}, "an array of shape (1,) and dtype float64 as observation['b'][1]"),
    ],
)
def test_observations_of_another_form(obs: Any, sentence: str) -> None:
    with pytest.raises(EnvironmentFaultError) as raised:
        check_observation(NESTED, obs, "step()")
    assert str(raised.value).startswith(f"step() returned {sentence}")


def test_what_fits_is_let_through() -> None:
    for space in (
        NESTED,
        spaces.MultiDiscrete([2, 3]),
        spaces.MultiBinary((2, 2)),
        spaces.Box(0, 1, ()),
        spaces.Box(0, 9, (2, 2), np.int64),
    ):
        for _ in range(5):
            check_observation(space, space.sample(), "step()")
    check_observation(spaces.Box(0, 1, (2,)), [7, -7], "step()")  # beyond its bounds, and no array


def test_a_value_is_shown_in_a_few_words() -> None:
    assert len(brief("x" * 500)) == 60
    assert brief("a\nb") == r"'a\nb'"


def test_it_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another start changes nothing."""
    monkeypatch.setattr(Wrong, "said", {"reward": None})
    told = Sentences()
    environment = environment_of(vector(Wrong), RestartBudget(5, -1, 1.0, told))

    async def work() -> None:
        with pytest.raises(EnvironmentFaultError) as raised:
            await play(environment, await environment.start({}), 1)
        with pytest.raises(EnvironmentFaultError) as again:
            await environment.recover(raised.value)
        assert again.value is raised.value

    run(environment, work)
    assert told == []


@pytest.mark.parametrize("said", [{"reward": float("nan")}, {"obs": np.array([0.0, np.inf])}])
def test_numbers_that_are_not_finite_are_named_and_another_start_may_help(
    said: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Wrong, "said", said)
    error = failure(vector(Wrong))
    what = "reward" if "reward" in said else "sensor 'observation'"
    assert str(error).startswith(
        f"behavior 'SyncVectorEnv' sent NaN or infinity in {what}; look for a division by zero"
    )
    assert not isinstance(error, EnvironmentFaultError)


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


def test_gymnasiums_own_are_not_checked_again(tmp_path: Path) -> None:
    settings = load_settings(None, {"env_settings.env_path": "gym:CartPole-v1", "env_settings.seed": 1})
    environment: Any = open_source(settings, 1, tmp_path).make(0, lambda _: None, Sentences())

    async def work() -> None:
        await environment.start({})
        assert not any(isinstance(env, CheckedEnv) for env in environment._env.envs)

    run(environment, work)


def test_a_run_says_it_in_one_sentence(tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wrong, "said", staticmethod(lambda: (np.zeros(2), 1.0, False, {})))
    gymnasium.register("Wrong-v0", lambda **_: Wrong(), max_episode_steps=9)
    try:
        chosen = {
            "checkpoint_settings.results_dir": str(tmp_path),
            "checkpoint_settings.run_id": "run",
            "env_settings.env_path": "gym:Wrong-v0",
            "default_settings.trainer_type": "ppo",
        }
        with pytest.raises(EnvironmentFaultError) as raised:
            train(load_settings(None, chosen), memory, "learn")
    finally:
        gymnasium.registry.pop("Wrong-v0")
    assert str(raised.value) == (
        "environment 0: Wrong.step() returned a tuple of 4 values; it must return 5 values: observation, reward, "
        "terminated, truncated, info"
    )
    assert not (tmp_path / "run").exists()


# --- PettingZoo -------------------------------------------------------------------------------------------------------

NAMES = ("runner_0", "runner_1")
PARALLEL: list[tuple[int, Any, str]] = [
    (1, None, "returned None as reward of 'runner_0'; it must be a number"),
    (1, [1], "returned [1] as reward of 'runner_0'; it must be a number"),
    (2, None, "returned None as termination of 'runner_0'; it must be True or False"),
    (3, "no", "returned 'no' as truncation of 'runner_0'; it must be True or False"),
    (4, None, ", for 'runner_0', returned None as info; it must be a dictionary"),
    (0, np.zeros(7), ", for 'runner_0', returned an array of shape (7,) and dtype float64 as observation; it must be"),
]


def pettingzoo_failure(make: Callable[[], Any], steps: int = 1) -> str:
    with pytest.raises(EnvironmentFaultError) as raised:
        played(make(), steps)
    return str(raised.value)


@pytest.mark.parametrize(("place", "value", "sentence"), PARALLEL)
def test_a_wrong_value_of_one_agent(place: int, value: Any, sentence: str) -> None:
    class Odd(Together):
        def step(self, actions: dict[str, Any]) -> Any:
            found = super().step(actions)
            found[place]["runner_0"] = value
            return found

    said = pettingzoo_failure(lambda: Copies([Parallel(Odd(NAMES, {}))]))
    assert said.startswith(f"environment 0: Odd.step(){'' if sentence.startswith(',') else ' '}{sentence}")


@pytest.mark.parametrize("place", range(5))
def test_a_part_that_is_no_dictionary(place: int) -> None:
    class Odd(Together):
        def step(self, actions: dict[str, Any]) -> Any:
            found = list(super().step(actions))
            found[place] = None
            return tuple(found)

    said = pettingzoo_failure(lambda: Copies([Parallel(Odd(NAMES, {}))]))
    assert said == "environment 0: Odd.step() returned None; each value must be a dictionary by agent"


def test_other_shapes_of_parallel_environments() -> None:
    class Four(Together):
        def step(self, actions: dict[str, Any]) -> Any:
            return super().step(actions)[:4]

    class Bare(Together):
        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            return super().reset(seed)[0]

    class Silent(Together):
        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            obs, infos = super().reset(seed)
            return {"runner_0": obs["runner_0"]}, infos

    class Empty(Together):
        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            self.agents = []
            return {}, {}

    kinds: tuple[type[Together], ...] = Four, Bare, Silent, Empty
    said = {
        kind.__name__: pettingzoo_failure(partial(lambda kind: Copies([Parallel(kind(NAMES, {}))]), kind))
        for kind in kinds
    }
    assert said["Four"].startswith("environment 0: Four.step() returned a tuple of 4 values; it must return 5 values")
    assert "Bare.reset() returned {" in said["Bare"]
    assert said["Bare"].endswith("it must return 2 values: observations, infos")
    assert "Silent.reset() left no observation of agents ['runner_1']; " in said["Silent"]
    assert "Empty.reset() left no agent; " in said["Empty"]


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ((np.zeros(2), 0.0, False, {}), "returned a tuple of 4 values; it must return 5 values"),
        ((np.zeros(2), None, False, False, {}), "returned None as reward of 'runner_0'; it must be a number"),
        ((np.zeros(2), 0.0, None, False, {}), "returned None as terminated; it must be True or False"),
        (
            (np.zeros(4), 0.0, False, False, {}),
            ", for 'runner_0', returned an array of shape (4,) and dtype float64 as",
        ),
        ((np.zeros(2), 0.0, False, False, None), ", for 'runner_0', returned None as info; it must be a dictionary"),
    ],
)
def test_a_wrong_turn(found: Any, sentence: str) -> None:
    class Odd(InTurns):
        def last(self) -> Any:
            return found

    said = pettingzoo_failure(lambda: Copies([Turns(Odd())]), 0)
    assert said.startswith(f"environment 0: Odd.last(){'' if sentence.startswith(',') else ' '}{sentence}")


@pytest.mark.parametrize("kind", ["parallel_env", "env"])
def test_a_function_that_makes_something_else(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own: Any = types.ModuleType("odd_worlds")
    setattr(own, kind, lambda: "a world")
    monkeypatch.setitem(sys.modules, "odd_worlds", own)
    settings = load_settings(None, {"env_settings.env_path": "pettingzoo:odd_worlds"})
    environment = open_source(settings, 1, tmp_path).make(0, lambda _: None, Sentences())

    async def work() -> None:
        with pytest.raises(
            EnvironmentFaultError, match=f"^environment 0: `{kind}` returned 'a world'; it must return a"
        ):
            await environment.start({})

    run(environment, work)


def test_turns_without_agents() -> None:
    class Empty(InTurns):
        def reset(self, seed: int | None = None, options: Any = None) -> None:
            self.agents = []

    said = pettingzoo_failure(lambda: Copies([Turns(Empty())]), 0)
    assert said == "environment 0: Empty.reset() left no agent; `agents` must name some"


# --- the low-level API ------------------------------------------------------------------------------------------------


def base_env_failure(game: Any) -> EngineError:
    async def main() -> EngineError:
        environment = wrapped(lambda: game)
        try:
            with pytest.raises(EngineError) as raised:
                await play(environment, await environment.start({}), 1)
        finally:
            await environment.kill()
        return raised.value

    return asyncio.run(main())


def test_a_function_that_makes_no_base_env() -> None:
    assert str(base_env_failure("/home")) == (
        "environment 0: the function that --env names returned '/home'; it must return a BaseEnv, with `reset`"
    )


def test_steps_of_another_kind() -> None:
    class Odd(Scripted):
        found: Any = None

        def get_steps(self, behavior_name: str) -> Any:
            decisions, terminals = super().get_steps(behavior_name)
            return self.found(decisions, terminals)

    def said(found: Callable[[Any, Any], Any]) -> str:
        game = Odd([Say([0, 1])] * 3)
        game.found = found
        return str(base_env_failure(game))

    def reshaped(decisions: Any, terminals: Any) -> Any:
        decisions.obs = [np.zeros((2, 9), np.float32)]
        return decisions, terminals

    def paid(value: Any) -> Callable[[Any, Any], Any]:
        def change(decisions: Any, terminals: Any) -> Any:
            decisions.reward = value
            return decisions, terminals

        return change

    start = "environment 0: Odd.get_steps("
    assert said(lambda decisions, _: decisions).startswith(start)
    assert "it must return 2 values: decision steps, terminal steps" in said(lambda decisions, _: decisions)
    assert "returned None; it must return a DecisionSteps, with `agent_id`" in said(
        lambda _, terminals: (None, terminals)
    )
    assert "it must return a TerminalSteps, with `interrupted`" in said(lambda decisions, _: (decisions, decisions))
    assert "has observations of shapes [[2, 9]] and rewards of shape [2] for 2 agents" in said(reshaped)
    assert "and rewards of shape [3] for 2 agents" in said(paid(np.zeros(3, np.float32)))
    assert "and rewards of shape [] for 2 agents" in said(paid(None))
    assert "sent NaN or infinity in reward" in said(paid(np.array([0.0, np.nan], np.float32)))
