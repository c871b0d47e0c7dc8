"""What an author's environment returns wrongly is said in a sentence: which method, what it returned, what is due."""

from __future__ import annotations

import asyncio
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from tau_trainer.envs import open_source
from tau_trainer.envs.faults import brief
from tau_trainer.envs.pettingzoo import Copies, Parallel, Turns
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.errors import EngineError, EnvironmentFaultError
from tau_trainer.settings import load_settings
from tests.envs.gyms import environment_of, playing, vector
from tests.envs.mlagents.doubles import Say, Scripted
from tests.envs.playing import Sentences, play, small_run
from tests.envs.test_base_env import wrapped
from tests.envs.test_pettingzoo import InTurns, Together, played
from tests.envs.wrong import Wrong, failure
from tests.training.fakes import Memory


def test_a_value_is_shown_in_a_few_words() -> None:
    assert len(brief("x" * 500)) == 60
    assert brief("a\nb") == r"'a\nb'"


async def test_it_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another start changes nothing."""
    monkeypatch.setattr(Wrong, "said", {"reward": None})
    told = Sentences()
    environment = environment_of(vector(Wrong), RestartBudget(5, -1, 1.0, told))
    async with playing(environment):
        with pytest.raises(EnvironmentFaultError) as raised:
            await play(environment, await environment.start({}), 1)
        with pytest.raises(EnvironmentFaultError) as again:
            await environment.recover(raised.value)
        assert again.value is raised.value
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


def test_a_run_says_it_in_one_sentence(tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wrong, "said", staticmethod(lambda: (np.zeros(2), 1.0, False, {})))
    gymnasium.register("Wrong-v0", lambda **_: Wrong(), max_episode_steps=9)
    try:
        with pytest.raises(EnvironmentFaultError) as raised:
            small_run(tmp_path, memory, "gym:Wrong-v0")
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


@pytest.mark.parametrize("place", [0, 4])
def test_a_part_that_is_no_dictionary(place: int) -> None:
    class Odd(Together):
        def step(self, actions: dict[str, Any]) -> Any:
            found = list(super().step(actions))
            found[place] = None
            return tuple(found)

    said = pettingzoo_failure(lambda: Copies([Parallel(Odd(NAMES, {}))]))
    assert said == "environment 0: Odd.step() returned None; each value must be a dictionary by agent"


@pytest.mark.parametrize(
    ("method", "change", "sentence"),
    [
        ("step", lambda env, found: found[:4], "returned a tuple of 4 values; it must return 5 values"),
        ("reset", lambda env, found: found[0], r"returned \{.*; it must return 2 values: observations, infos$"),
        ("reset", lambda env, found: ({NAMES[0]: 0}, found[1]), r"left no observation of agents \['runner_1'\]; "),
        ("reset", lambda env, found: env.agents.clear() or ({}, {}), "left no agent; "),
    ],
)
def test_other_shapes_of_parallel_environments(method: str, change: Callable[..., Any], sentence: str) -> None:
    class Odd(Together):
        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            found = super().reset(seed)
            return change(self, found) if method == "reset" else found

        def step(self, actions: dict[str, Any]) -> Any:
            found = super().step(actions)
            return change(self, found) if method == "step" else found

    said = pettingzoo_failure(lambda: Copies([Parallel(Odd(NAMES, {}))]))
    assert re.match(rf"environment 0: Odd\.{method}\(\) {sentence}", said), said


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
async def test_a_function_that_makes_something_else(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own: Any = types.ModuleType("odd_worlds")
    setattr(own, kind, lambda: "a world")
    monkeypatch.setitem(sys.modules, "odd_worlds", own)
    settings = load_settings(None, {"env_settings.env_path": "pettingzoo:odd_worlds"})
    environment = open_source(settings, 1, tmp_path).make(0, lambda _: None, Sentences())
    async with playing(environment):
        with pytest.raises(
            EnvironmentFaultError, match=f"^environment 0: `{kind}` returned 'a world'; it must return a"
        ):
            await environment.start({})


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
