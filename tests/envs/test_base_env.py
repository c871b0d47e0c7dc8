"""Environments of the low-level API as a pair plays them: ours, and one of nobody's class."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.bridge.side_channels import Sampler, SamplerKind, Stat
from tau_trainer.envs import open_source
from tau_trainer.envs.base_env import BaseEnvEnvironment, BaseEnvSource
from tau_trainer.envs.mlagents import ActionSpec, EnvironmentParametersChannel, StatsSideChannel
from tau_trainer.envs.mlagents.base_env import DecisionSteps, TerminalSteps
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.errors import EngineError, SettingsError
from tau_trainer.metrics import result_lines
from tau_trainer.metrics.terminal import summary_line
from tau_trainer.runs.checkpoints import latest_checkpoint
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.specs import Actions, BehaviorSpec, DimensionProperty, ObservationSpec
from tau_trainer.specs import ActionSpec as WireActions
from tests.envs.mlagents.doubles import NAME, Say, Scripted, sensor, spec_of
from tests.envs.playing import Sentences, play, small_run, zeros
from tests.training.fakes import Memory


def settings_of(path: str, **env: Any) -> RunSettings:
    return load_settings(None, {"env_settings.env_path": path} | {f"env_settings.{key}": env[key] for key in env})


def wrapped(make: Callable[[], Any], stats: list[Stat] | None = None, restarts: int = 0) -> BaseEnvEnvironment:
    told = [] if stats is None else stats
    return BaseEnvEnvironment(0, make, None, RestartBudget(restarts, -1, 1.0), told.append)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A user's own."""
    own: Any = types.ModuleType("own_games")
    monkeypatch.setitem(sys.modules, "own_games", own)
    return own


async def test_a_duck_typed_environment_by_hand() -> None:
    spec = spec_of(ActionSpec.create_hybrid(2, (2, 2)), sensor(2, name="a"), sensor(3, 1, name="b"))
    game = Scripted([Say([3, 1], groups=[0, 5], forbidden=[[0], [3]]), Say([1], {3: True}), Say(), Say([1])], spec)
    environment = wrapped(lambda: game)
    (first,) = await environment.start({})
    none = (DimensionProperty.NONE,)
    assert environment.specs == {
        NAME: BehaviorSpec(
            NAME,
            (ObservationSpec("a", (2,), none), ObservationSpec("b", (3, 1), none * 2)),
            WireActions(2, (2, 2)),
        )
    }
    assert first.agent_ids.tolist() == [3, 1]
    assert (first.group_id.tolist(), first.group_reward.tolist()) == ([0, 5], [0.0, 1.25])
    assert first.action_mask is not None
    assert first.action_mask.tolist() == [[True, False, False, False], [False, False, False, True]]
    chosen = Actions(np.array([[0.5, 1.0], [0.25, 0.0]], np.float32), np.array([[1, 0], [0, 1]], np.int32))
    environment.answer({NAME: chosen})
    (second,) = await environment.next()
    given = game.given[-1][NAME]
    assert (given.continuous.tolist(), given.discrete.tolist()) == (chosen.continuous.tolist(), [[1, 0], [0, 1]])
    assert (second.agent_ids.tolist(), second.reward.tolist()) == ([1], [1.0])
    ended = second.terminals
    assert (ended.agent_ids.tolist(), ended.truncated.tolist(), ended.reward.tolist()) == ([3], [True], [-1.0])
    assert ended.obs[1].shape == (1, 3, 1)
    environment.answer(zeros(environment, [second]))
    assert await environment.next() == [], "nobody was heard of"
    environment.answer({})
    assert [one.agent_ids.tolist() for one in await environment.next()] == [[1]]
    await environment.close()
    assert game.closed == 1


async def test_parameters_and_statistics() -> None:
    class Channel(EnvironmentParametersChannel):
        def _send(self, payload: bytes) -> None:
            sent.append(payload)

    sent: list[bytes] = []
    channel, stats, reference = Channel(), StatsSideChannel(), EnvironmentParametersChannel()
    game: Any = Scripted([Say([0])] * 4)
    manager = types.SimpleNamespace(_side_channels_dict={one.channel_id: one for one in (channel, stats)})
    game._side_channel_manager = manager
    recorded: list[Stat] = []
    samplers = {
        "u": Sampler(SamplerKind.UNIFORM, 3, (1.0, 2.0)),
        "g": Sampler(SamplerKind.GAUSSIAN, 4, (0.0, 0.5)),
        "m": Sampler(SamplerKind.MULTI_RANGE_UNIFORM, 5, (0.0, 1.0, 4.0, 5.0)),
    }
    environment = wrapped(lambda: game, recorded)
    batches = await environment.start({"size": 2.0, **samplers})
    reference.set_float_parameter("size", 2.0)
    reference.set_uniform_sampler_parameters("u", 1.0, 2.0, 3)
    reference.set_gaussian_sampler_parameters("g", 0.0, 0.5, 4)
    reference.set_multirangeuniform_sampler_parameters("m", [(0.0, 1.0), (4.0, 5.0)], 5)
    assert sent == [bytes(one) for one in reference.message_queue]
    environment.tell({"size": 3.0, **samplers})
    assert len(sent) == 5, "only what has changed"
    stats.stats["Speed"].append((2.5, stats_kind(1)))
    await play(environment, batches, 1)
    assert recorded == [Stat("Speed", 2.5, stats_kind(1))]
    await environment.reset({"size": 3.0})
    assert len(sent) == 6, "after a reset all of it"
    await environment.close()


def stats_kind(number: int) -> Any:
    from tau_trainer.specs import Aggregation

    return Aggregation(number)


async def test_one_that_fails_is_made_again() -> None:
    class Failing(Scripted):
        def step(self) -> None:
            raise OSError("gone")

    made = [Failing([Say([0])]), Scripted([Say([5])])]
    left = list(made)
    environment = wrapped(lambda: left.pop(0), restarts=1)
    await environment.start({})
    environment.answer({})
    with pytest.raises(EngineError, match="environment 0 failed: OSError: gone") as error:
        await environment.next()
    (batch,) = await environment.recover(error.value)
    assert batch.agent_ids.tolist() == [5]
    assert made[0].closed == 1
    await environment.kill()


async def test_the_source(module: Any, tmp_path: Path) -> None:
    called: list[tuple[int, dict[str, Any]]] = []

    def build(worker_id: int, **keywords: Any) -> Scripted:
        called.append((worker_id, keywords))
        return Scripted([Say([0])])

    module.build = build
    source = open_source(settings_of("mlagents:own_games:build", env_args=["size=3"]), 2, tmp_path)
    assert isinstance(source, BaseEnvSource)
    environment = source.make(1, lambda _: None, Sentences())
    await environment.start({})
    await environment.close()
    assert called == [(1, {"size": 3})]


@pytest.mark.parametrize(
    "path", ["mlagents:own_games", "mlagents:own_games:other", "mlagents:no_such:build", "mlagents:"]
)
def test_what_is_not_there(path: str, module: Any, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=f"--env {path}: .*name a function that makes an environment"):
        open_source(settings_of(path), 1, tmp_path)


class Together(Scripted):
    """Two agents of a group, five decisions an episode: nobody gets anything himself, the group 0.5 for each."""

    def get_steps(self, behavior_name: str) -> tuple[DecisionSteps, TerminalSteps]:
        spec, at = self.specs[behavior_name], self.at % 6
        asks, ended = ([1, 2], []) if at < 5 else ([], [1, 2])

        def told(agents: list[int]) -> tuple[Any, ...]:
            shared = np.full(len(agents), 0.5 if at else 0.0, np.float32)
            return self._seen(spec, agents, float(at)), 0.0 * shared, np.array(agents, np.int32), shared

        obs, own, ids, shared = told(asks)
        last, last_own, last_ids, last_shared = told(ended)
        return (
            DecisionSteps(obs, own, ids, None, np.full(len(ids), 3, np.int32), shared),
            TerminalSteps(
                last, last_own, np.zeros(len(ended), np.bool_), last_ids, np.full(len(ended), 3, np.int32), last_shared
            ),
        )


def test_what_a_group_gets_is_told_beside_its_agents_rewards_and_judges_the_policy(
    module: Any, memory: Memory, tmp_path: Path
) -> None:
    """All of 2.5 in five decisions, none of it an agent's own."""
    module.build = lambda *_: Together([])
    report = small_run(
        tmp_path,
        memory,
        "mlagents:own_games:build",
        default_settings__max_steps=400,
        default_settings__summary_freq=150,
        default_settings__save_best_only=True,
        default_settings__trial_count=10,
        default_settings__hyperparameters={"batch_size": 32, "buffer_size": 128},
    )
    [behavior] = report.behaviors
    assert (behavior.mean_reward, behavior.mean_group_reward) == (0.0, 2.5)
    assert 0 < behavior.window_episodes < behavior.episodes, "of the last summary alone"
    assert f"Runner: mean reward 0.000, mean group reward 2.500 in its last summary ({behavior.window_episodes} " in (
        "\n".join(result_lines(report))
    )
    assert [pair.mean_group_reward for pair in report.pairs] == [2.5]
    lines = [summary_line(one) for one in memory.summaries]
    assert len(lines) == 3, "at 150, 300 and the end: as it was asked for, not every twentieth of the run"
    assert all("Mean Reward: 0.000. Mean Group Reward: 2.500. " in line for line in lines)
    saved = latest_checkpoint(report.folder / "checkpoints", "Runner").checkpoint
    assert saved is not None
    assert saved.manifest["learner"]["best"]["rank"] == [2.5, 0.0]
    assert saved.manifest["learner"]["mean_reward"] == 0.0
