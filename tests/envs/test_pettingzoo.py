"""PettingZoo's environments as a pair plays them: parallel ones, turns, masks, agents that leave, and a real one."""

from __future__ import annotations

import asyncio
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from tau_trainer.envs import open_source
from tau_trainer.envs.pettingzoo import Copies, Parallel, PettingZooEnvironment, PettingZooSource, Turns
from tau_trainer.errors import EngineError, SettingsError
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.specs import Actions, ActionSpec, StepBatch
from tests.envs.playing import Sentences, small_run, zeros
from tests.training.fakes import Memory
from tests.waiting import HANG_S


def settings_of(path: str, **env: Any) -> RunSettings:
    return load_settings(None, {"env_settings.env_path": path} | {f"env_settings.{key}": env[key] for key in env})


class Spaces:
    """Runners move, watchers choose; the chief sees more."""

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        seen = spaces.Box(-1.0, 100.0, (3 if agent == "runner_9" else 2,))
        if agent.startswith("watcher"):
            return spaces.Dict({"observation": seen, "action_mask": spaces.MultiBinary(3)})
        return seen

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(3) if agent.startswith("watcher") else spaces.Box(0.0, 10.0, (1,))

    def seen(self, agent: str, value: float) -> Any:
        sight = np.full(self.observation_space(agent).shape or (2,), value, np.float32)
        if not agent.startswith("watcher"):
            return sight
        return {"observation": sight, "action_mask": np.array([0, 1, 1], np.int8)}


class Together(Spaces):
    """All act at once. Agents leave as ``leaves`` says: by step, with how."""

    def __init__(
        self, names: tuple[str, ...], leaves: dict[int, dict[str, str]], joins: dict[int, str] | None = None
    ) -> None:
        self.possible_agents = list(names)
        self.agents: list[str] = []
        self.leaves, self.joins = leaves, joins or {}
        self.seeds: list[int | None] = []
        self.taken: list[dict[str, Any]] = []
        self.steps = self.closed = 0

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.seeds.append(seed)
        self.steps, self.agents = 0, list(self.possible_agents)
        return {agent: self.seen(agent, 0.0) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        assert set(actions) == set(self.agents)
        self.taken.append(actions)
        self.steps += 1
        here, how = list(self.agents), self.leaves.get(self.steps, {})
        if self.steps in self.joins:
            here.append(self.joins[self.steps])
        self.agents = [agent for agent in here if agent not in how]
        return (
            {agent: self.seen(agent, float(self.steps)) for agent in here},
            {agent: float(place) for place, agent in enumerate(here)},
            {agent: how.get(agent) == "terminated" for agent in here},
            {agent: how.get(agent) == "truncated" for agent in here},
            {agent: {} for agent in here},
        )

    def close(self) -> None:
        self.closed += 1


class InTurns(Spaces):
    """Two take turns until one has acted three times; whoever acts earns 1, the other loses 2."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, Any]] = []
        self.resets = 0

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.resets += 1
        self.agents = ["runner_0", "watcher_1"]
        self.agent_selection = self.agents[0]
        self.owed = dict.fromkeys(self.agents, 0.0)
        self.acts = 0

    def last(self) -> Any:
        agent, over = self.agent_selection, self.acts == 5
        return self.seen(agent, float(self.acts)), self.owed[agent], over, False, {}

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if action is None:
            self.agents.remove(agent)
            if self.agents:
                self.agent_selection = self.agents[0]
            return
        self.taken.append((agent, action))
        self.acts += 1
        (other,) = {"runner_0", "watcher_1"} - {agent}
        self.owed[agent] = 1.0
        self.owed[other] -= 2.0
        self.agent_selection = other

    def close(self) -> None:
        pass


def played(copies: Copies, steps: int, seed: int | None = 3, action: float = 0.0) -> tuple[Any, list[list[StepBatch]]]:
    environment = PettingZooEnvironment(0, lambda: copies, seed)

    async def main() -> list[list[StepBatch]]:
        told = [await environment.start({})]
        for _ in range(steps):
            actions = zeros(environment, [one for one in told[-1] if len(one)])
            for chosen in actions.values():
                chosen.continuous[:] = action
            environment.answer(actions)
            told.append(await environment.next())
        await environment.close()
        return told

    return environment, asyncio.run(asyncio.wait_for(main(), HANG_S))


def shown(batch: StepBatch) -> Any:
    ended = batch.terminals
    return (
        dict(zip(batch.agent_ids.tolist(), batch.reward.tolist(), strict=True)),
        dict(zip(ended.agent_ids.tolist(), ended.truncated.tolist(), strict=True)),
    )


def test_agents_that_leave_and_begin_anew_together() -> None:
    names = ("runner_0", "runner_1")
    env = Together(names, {2: {"runner_0": "truncated"}, 3: {"runner_1": "terminated"}})
    environment, told = played(Copies([Parallel(env)]), 4, action=0.5)
    assert list(environment.specs) == ["runner"]
    assert [shown(batch) for (batch,) in told] == [
        ({0: 0.0, 1: 0.0}, {}),
        ({0: 0.0, 1: 1.0}, {}),
        ({1: 1.0}, {0: True}),
        ({0: 0.0, 1: 0.0}, {1: False}),
        ({0: 0.0, 1: 1.0}, {}),
    ]
    assert told[2][0].terminals.obs[0].tolist() == [[2.0, 2.0]]
    assert told[3][0].terminals.obs[0].tolist() == [[3.0, 3.0]]
    assert told[3][0].obs[0].tolist() == [[0.0, 0.0]] * 2
    assert env.taken[0]["runner_1"].tolist() == [7.5], "-1 to 1 becomes the whole range"
    assert set(env.taken[2]) == {"runner_1"}
    assert env.seeds == [3, None]
    assert env.closed == 1


def test_behaviors_by_name_and_spaces_masks_and_copies() -> None:
    names = ("runner_0", "runner_9", "watcher_0")
    envs = [Together(names, {}, {1: "runner_2"}), Together(names, {}, {1: "runner_2"})]
    environment, told = played(Copies([Parallel(env) for env in envs]), 1)
    assert {name: spec.actions for name, spec in environment.specs.items()} == {
        "runner": ActionSpec(1),
        "runner_9": ActionSpec(1),
        "watcher": ActionSpec(0, (3,)),
    }
    assert environment.specs["runner_9"].observations[0].shape == (3,)
    runners, chief, watchers = told[0]
    assert [batch.agent_ids.tolist() for batch in (runners, chief, watchers)] == [[0, 3], [1, 4], [2, 5]]
    assert watchers.action_mask is not None
    assert watchers.action_mask.tolist() == [[True, False, False]] * 2
    assert watchers.obs[0].shape == (2, 2)
    assert runners.action_mask is None
    assert told[1][0].agent_ids.tolist() == [0, 6, 3, 7], "newcomers"
    assert told[1][0].reward.tolist() == [0.0, 3.0, 0.0, 3.0]
    assert [env.seeds for env in envs] == [[3], [4]]
    assert all(env.taken[0]["watcher_0"] == 0 for env in envs)


def test_all_agents_of_one_copy_are_a_group() -> None:
    names = ("runner_0", "runner_1", "watcher_0")
    envs = [Together(names, {1: {"runner_0": "terminated"}}) for _ in range(2)]
    _, told = played(Copies([Parallel(env) for env in envs]), 1)
    assert [batch.group_id.tolist() for batch in told[0]] == [[1, 1, 2, 2], [1, 2]]
    assert told[0][0].group_id.dtype == np.int32
    assert told[1][0].group_id.tolist() == told[1][0].terminals.group_id.tolist() == [1, 2]


def test_one_that_vanishes_is_cut_off() -> None:
    class Vanishing(Together):
        def step(self, actions: dict[str, Any]) -> Any:
            told = super().step(actions)
            self.agents = self.agents[1:]
            return told

    _, told = played(Copies([Parallel(Vanishing(("runner_0", "runner_1"), {}))]), 1)
    assert shown(told[1][0]) == ({1: 1.0}, {0: True})


def test_turns() -> None:
    env = InTurns()
    _, told = played(Copies([Turns(env)]), 6, action=1.0)
    runner, watcher = told[0][0], told[1][0]
    assert (runner.behavior, watcher.behavior) == ("runner", "watcher")
    assert watcher.action_mask is not None
    assert [len(batches) for batches in told] == [1, 1, 1, 1, 1, 2, 1]
    rewards = [sum(batch.reward.tolist()) for batches in told for batch in batches if len(batch)]
    assert rewards == [0.0, -2.0, -1.0, -1.0, -1.0, 0.0, -2.0]
    last = {batch.behavior: batch for batch in told[5]}
    assert shown(last["runner"]) == ({0: 0.0}, {0: False}), "the next game begins in the same step"
    assert shown(last["watcher"]) == ({}, {1: False})
    assert [agent for agent, _ in env.taken[:5]] == ["runner_0", "watcher_1", "runner_0", "watcher_1", "runner_0"]
    assert env.taken[0][1].tolist() == [10.0]
    assert env.resets == 2


def test_a_mask_of_another_size() -> None:
    class Wrong(Together):
        def seen(self, agent: str, value: float) -> Any:
            sight = super().seen(agent, value)
            return {**sight, "action_mask": np.ones(2, np.int8)}

    with pytest.raises(EngineError, match="'watcher_0' has 3 choices and an action_mask of 2"):
        played(Copies([Parallel(Wrong(("watcher_0",), {}))]), 0)


def test_a_mask_may_stand_in_infos() -> None:
    class Beside(Together):
        def observation_space(self, agent: str) -> spaces.Space[Any]:
            return spaces.Discrete(4)

        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed)
            return {"watcher_0": 3, "watcher_1": 1}, {"watcher_0": {"action_mask": np.array([1, 0, 1])}}

    _, ((batch,),) = played(Copies([Parallel(Beside(("watcher_0", "watcher_1"), {}))]), 0)
    assert batch.action_mask is not None
    assert batch.action_mask.tolist() == [[False, True, False], [False] * 3]
    assert batch.obs[0].tolist() == [[0, 0, 0, 1], [0, 1, 0, 0]]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    own: Any = types.ModuleType("own_worlds")
    monkeypatch.setitem(sys.modules, "own_worlds", own)
    return own


def test_the_source_takes_the_parallel_one_if_there_are_two(module: Any, tmp_path: Path) -> None:
    module.env = InTurns
    path = "pettingzoo:own_worlds"
    made = PettingZooSource(settings_of(path), 1, tmp_path)._make()
    assert [type(copy) for copy in made] == [Turns]
    module.parallel_env = lambda agents=1: Together(tuple(f"runner_{i}" for i in range(agents)), {})
    source = open_source(settings_of(path, env_args=["agents=2"], num_areas=3, seed=5), 1, tmp_path)
    assert isinstance(source, PettingZooSource)
    made = source._make()
    assert [type(copy) for copy in made] == [Parallel] * 3
    assert made[0].env.possible_agents == ["runner_0", "runner_1"]
    assert source.make(2, lambda _: None, Sentences())._seed == 5 + 2 * 3
    with pytest.raises(SettingsError, match=r"--env-args size=2: .*omit or correct"):
        PettingZooSource(settings_of(path, env_args=["size=2"]), 1, tmp_path)._make()
    told = {"env_settings.env_path": path, "environment_parameters": {"mass": 2}}
    assert len(PettingZooSource(load_settings(None, told), 1, tmp_path).warnings) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no_such_module", "No module named 'no_such_module'.*pip install 'tau-trainer\\[pettingzoo\\]'"),
        ("", "^--env pettingzoo:: the module's name is missing, as in "),
        ("json", "json has neither `parallel_env` nor `env`"),
    ],
)
def test_what_is_not_there(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=text):
        open_source(settings_of(f"pettingzoo:{name}"), 1, tmp_path)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of pygame, as it is imported
async def test_a_real_one_is_played_as_by_hand(tmp_path: Path) -> None:
    from mpe2 import simple_spread_v3

    env = simple_spread_v3.parallel_env(max_cycles=4, continuous_actions=True)
    expected, _ = env.reset(seed=9)
    source = open_source(
        settings_of("pettingzoo:mpe2.simple_spread_v3", seed=9, env_args=["max_cycles=4", "continuous_actions=true"]),
        1,
        tmp_path,
    )
    environment = source.make(0, lambda _: None, Sentences())
    (batch,) = await environment.start({})
    assert (batch.obs[0] == np.stack(list(expected.values()))).all()
    for step in range(4):
        chosen = np.linspace(-1, 1, 15, dtype=np.float32).reshape(3, 5)
        obs, rewards, _, _, _ = env.step(dict(zip(env.agents, (chosen + 1) / 2, strict=True)))
        environment.answer({"agent": Actions(chosen, np.zeros((3, 0), np.int32))})
        (batch,) = await environment.next()
        part: Any = batch.terminals if step == 3 else batch
        assert np.allclose(part.obs[0], np.stack(list(obs.values())))
        assert np.allclose(part.reward, list(rewards.values()))
    assert batch.terminals.truncated.tolist() == [True] * 3
    assert batch.agent_ids.tolist() == [0, 1, 2]
    await environment.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_whole_run(tmp_path: Path, memory: Memory) -> None:
    path = "pettingzoo:mpe2.simple_adversary_v3"
    report = small_run(tmp_path, memory, path, env_settings__num_areas=2, default_settings__max_steps=300)
    assert (report.outcome, report.exit_code, report.errors) == ("completed", 0, ())
    assert sorted(path.name for path in report.models) == ["adversary.onnx", "agent.onnx"]
