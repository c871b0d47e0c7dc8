"""Playing and recording: by agent and time, on several behaviors, by policies, functions and chance."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.bridge.demonstrations import read_demonstration
from tau_trainer.errors import EngineError, SettingsError
from tau_trainer.settings import load_settings
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, ObservationSpec, StepBatch, Terminals
from tau_trainer.training.playing import Play, Recording, ScriptedPlayer, evenly, scripted
from tau_trainer.training.recording import record

SPEC = BehaviorSpec("Walker?team=0", (ObservationSpec("a", (1,)),), ActionSpec(0, (3,)))


def to_the_right(spec: BehaviorSpec, obs: Any, mask: Any) -> Actions:
    """CartPole's cart goes right whenever the pole leans there."""
    return Actions(np.zeros((len(obs[0]), 0), np.float32), (obs[0][:, 2:3] > 0).astype(np.int32))


def wrong(spec: BehaviorSpec, obs: Any, mask: Any) -> Actions:
    return Actions(np.zeros((1, 5), np.float32), np.zeros((1, 1), np.int32))


def batch(ids: list[int], ended: list[int], step: int) -> StepBatch:
    """Observations are ten times the agent plus the step, rewards the step."""

    def obs(agents: list[int]) -> Any:
        return (np.array([[10.0 * agent + step] for agent in agents], np.float32).reshape(len(agents), 1),)

    def zeros(agents: list[int]) -> Any:
        return np.zeros(len(agents), np.int32)

    def paid(agents: list[int]) -> Any:
        return np.full(len(agents), step, np.float32)

    agents, others = np.array(ids, np.int32), np.array(ended, np.int32)
    nothing, cut = np.zeros(len(ids), np.float32), np.array([agent == 2 for agent in ended], np.bool_)
    last = Terminals(others, obs(ended), paid(ended), cut, zeros(ended), np.zeros(len(ended), np.float32))
    return StepBatch(SPEC.name, agents, obs(ids), paid(ids), zeros(ids), nothing, last)


class Scripted:
    """An environment of given steps; an EngineError among them is raised once."""

    def __init__(self, steps: list[Any]) -> None:
        self.steps, self.specs, self.closed = steps, {SPEC.name: SPEC}, False
        self.exchanges = self.restarts = 0
        self.waits_for = self.absent = None
        self.sent: list[Any] = []

    async def start(self, parameters: Any) -> list[StepBatch]:
        return [self.steps.pop(0)]

    def answer(self, actions: Any) -> None:
        self.sent.append(actions)

    async def next(self) -> list[StepBatch]:
        step = self.steps.pop(0)
        if isinstance(step, EngineError):
            raise step
        return [step]

    async def recover(self, error: EngineError) -> list[StepBatch]:
        return [self.steps.pop(0)]

    async def close(self) -> None:
        self.closed = True


def run(steps: list[Any], episodes: int) -> tuple[Recording, Scripted]:
    environment: Any = Scripted(steps)
    play = Play(environment, lambda spec: ScriptedPlayer(spec, 0), lambda play: play.episodes >= episodes)
    asyncio.run(play.run({}))
    return play.recordings[SPEC.name], environment


def test_records_lie_by_agent_and_time_and_ends_before_beginnings() -> None:
    steps = [batch([1, 2], [], 0), batch([2], [], 1), batch([1, 2], [1], 2), batch([1], [2], 3), batch([2], [1], 4)]
    recording, environment = run(steps, 3)
    assert environment.closed
    demo = recording.demonstration(whole=True)
    np.testing.assert_array_equal(demo.obs[0][:, 0], [10, 12, 12, 13, 14, 20, 21, 22, 23])
    np.testing.assert_array_equal(demo.ended, [0, 1, 0, 0, 1, 0, 0, 0, 1])
    np.testing.assert_array_equal(demo.begins, [1, 0, 1, 0, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(demo.truncated, [0] * 8 + [1])
    np.testing.assert_array_equal(demo.returns, [2, 7, 6])
    np.testing.assert_array_equal(recording.lengths, [1, 2, 3])
    assert len(recording.demonstration(whole=False)) == 10  # agent 2's next episode had begun
    acted = np.concatenate([sent[SPEC.name].discrete[:, 0] for sent in environment.sent])
    kept = recording.demonstration(whole=False)
    assert sorted(acted.tolist()) == sorted(kept.actions.discrete[~kept.ended, 0].tolist()[:-1])


def test_an_environment_that_failed_cuts_its_episodes() -> None:
    steps = [batch([1], [], 0), batch([1], [], 1), EngineError("gone"), batch([1], [], 5), batch([1], [1], 6)]
    recording, _ = run(steps, 1)
    demo = recording.demonstration(whole=False)
    np.testing.assert_array_equal(demo.begins, [1, 0, 1, 0, 1])
    np.testing.assert_array_equal(recording.demonstration(whole=True).returns, [6])


def test_an_end_without_a_decision_says_nothing() -> None:
    recording, _ = run([batch([1], [3], 0), batch([], [1], 1)], 2)
    np.testing.assert_array_equal(recording.demonstration(whole=True).obs[0][:, 0], [10, 11])


def test_chance_takes_every_action_that_is_not_forbidden() -> None:
    rng, spec = np.random.default_rng(0), ActionSpec(2, (3, 2))
    mask = np.zeros((500, 5), np.bool_)
    mask[:, 1] = True
    drawn = evenly(spec, 500, mask, rng)
    assert set(drawn.discrete[:, 0].tolist()) == {0, 2}
    assert set(drawn.discrete[:, 1].tolist()) == {0, 1}
    assert -1.0 <= drawn.continuous.min() < -0.95
    assert 0.95 < drawn.continuous.max() <= 1.0
    mask[:, :3] = True  # as a whole, which forbids nothing
    assert set(evenly(spec, 500, mask, rng).discrete[:, 0].tolist()) == {0, 1, 2}


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
