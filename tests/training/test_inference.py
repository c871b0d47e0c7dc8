"""`--inference`: a saved run is played, and stays as it is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.algorithms.ppo import PPO
from tau_trainer.collection.decisions import Actor
from tau_trainer.errors import CheckpointError, EngineExitedError, EngineStoppedError, SettingsError
from tau_trainer.memory import RolloutMemory
from tau_trainer.metrics import RunReport
from tau_trainer.settings import RunSettings
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.manager import ParallelTrainerManager
from tau_trainer.training.stored import load_policy
from tests.training.fakes import (
    RAINBOW,
    WAIT_S,
    Memory,
    SceneEngine,
    Stage,
    newest,
    sac_settings,
    settings_from,
    tau_settings,
    train,
    until,
)

FILE = """
behaviors:
  Basic:
    trainer_type: ppo
    hyperparameters: {batch_size: 16, buffer_size: 64, num_epoch: 1}
    network_settings: {hidden_units: 16, num_layers: 1}
    max_steps: 300
    summary_freq: 100
env_settings: {env_path: "headless:basic", seed: 3}
environment_parameters:
  size:
    curriculum:
      - {name: Small, value: 1.0, completion_criteria: {behavior: Basic, measure: progress, threshold: 0.1}}
      - {name: Middle, value: 2.0, completion_criteria: {behavior: Basic, measure: progress, threshold: 1.0}}
      - {name: Large, value: 3.0}
"""


def basic(results: Path, **overrides: Any) -> RunSettings:
    return settings_from(FILE, results, **overrides)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of :func:`basic`, to be copied."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        Stage.opened(patch)
        return train(basic(folder), command="learn").folder


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def fast(memory: Memory) -> bool:
    return any(pair.decisions_per_second > 0.0 for one in memory.snapshots for pair in one.pairs)


def play(
    settings: RunSettings,
    stage: Stage,
    decisions: int = 500,
    command: Any = "learn",
    told: Callable[[Memory], bool] = lambda _: True,
) -> tuple[RunReport, Memory]:
    """Play until so many decisions were made and ``reporting``, then press Ctrl-C. Nothing of the run may change."""
    folder = Path(settings.checkpoint_settings.results_dir) / settings.checkpoint_settings.run_id
    before, memory = content(folder), Memory()
    playing = settings.model_copy(
        update={"checkpoint_settings": settings.checkpoint_settings.model_copy(update={"inference": True})}
    )
    session = ParallelTrainerManager().start(playing, command, recorders=lambda _: [memory])
    try:
        until(lambda: not session.running or (session.status().decisions > decisions and told(memory)))
    finally:
        session.cancel()
    report = session.wait(WAIT_S)
    assert content(folder) == before
    return report, memory


def test_a_run_is_played_without_end_and_stays_as_it_is(stage: Stage, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    (tmp_path / "run" / ".lock").write_text("process 1 on other")  # it may be trained meanwhile
    logs: list[Path] = []

    async def look(engine: SceneEngine) -> None:
        assert engine.launch.log_folder is not None
        assert engine.launch.log_folder.is_dir()
        logs.append(engine.launch.log_folder)

    stage.before_start = look
    stage.told.clear()
    report, memory = play(basic(tmp_path), stage, 1000, told=fast)
    (folder,) = logs
    assert tmp_path not in folder.parents
    assert not folder.exists(), "the engine's logs are gone with it"
    assert [values for _, values in stage.told] == [{"size": 2.0}], "lessons stay where the run had come to"
    assert memory.snapshots[-1].lessons == ("size: lesson 2 of 3, Middle",)
    assert not [event for event in memory.events if event.kind == "lesson"]
    assert (report.outcome, report.exit_code) == ("played", 0)
    assert report.decisions > 1000, "the run had 300 decisions, and it is played on and on"
    assert (report.files, report.models) == ({}, ())
    assert memory.states(0) == ["Preparing", "Playing", "Cancelled"]
    assert report.behaviors[0].mean_reward is not None
    assert report.behaviors[0].episodes > 0
    assert report.decisions == report.behaviors[0].step, "both count what was played, not what was learned from"
    assert fast(memory)
    assert memory.snapshots[0].decisions < 300
    last = memory.snapshots[-1]
    assert (last.max_decisions, last.progress, last.eta_s, last.learning) == (0, None, None, False)
    assert {summary.training for summary in memory.summaries} == {False}
    assert [one.step for one in memory.summaries[:3]] == [100, 200, 300]
    assert memory.summaries[0].values["Environment/Cumulative Reward"]


def test_it_acts_with_the_weights_of_the_newest_checkpoint_and_learns_nothing(
    stage: Stage, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(trained, tmp_path / "run")
    checkpoint = newest(tmp_path / "run", "Basic")
    seen: list[Learner] = []
    original = Learner.begin_from

    def watched(self: Learner, *args: Any) -> None:
        original(self, *args)
        seen.append(self)

    def refuse(*_: Any) -> None:
        raise AssertionError("nothing is learned")

    monkeypatch.setattr(Learner, "begin_from", watched)
    monkeypatch.setattr(PPO, "update", refuse)
    monkeypatch.setattr(PPO, "ready", refuse)
    play(basic(tmp_path), stage)
    (learner,) = seen
    saved, _, _ = load_policy(checkpoint, basic(tmp_path))
    assert saved.policy.version > 0
    np.testing.assert_equal(saved.policy.weights, learner.actor.policy.weights)
    assert isinstance(learner.memory, RolloutMemory)
    assert len(learner.memory) == 0, "nothing is remembered"


def test_what_validation_chose_is_played_unless_the_last_is_asked_for(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Learner] = []
    original = Learner.restore

    def watched(self: Learner, *args: Any) -> None:
        original(self, *args)
        seen.append(self)

    train(tau_settings(tmp_path))
    monkeypatch.setattr(Learner, "restore", watched)
    play(tau_settings(tmp_path), stage, command="parallel")
    play(tau_settings(tmp_path, checkpoint_settings__export="last"), stage, command="parallel")
    best, last = seen
    assert best.tracker.best is not None
    assert best.actor.policy is best.tracker.best.policy
    assert last.tracker.best is not None
    assert last.actor.policy is last.policy is not last.tracker.best.policy


def test_a_build_whose_window_is_closed_ends_it_well(stage: Stage, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run")

    async def leave(engine: SceneEngine) -> None:
        assert engine.options.may_leave
        if engine.exchanges > 20:
            raise EngineStoppedError("engine 0 has left the game")

    stage.before_step = leave
    report, memory = play(basic(tmp_path), stage, 10**9)
    assert (report.outcome, report.exit_code) == ("played", 0)
    assert memory.states(0) == ["Preparing", "Playing", "Completed"]
    assert [event.message for event in memory.events if event.kind == "stopped"] == ["engine 0 has left the game"]


def test_a_build_that_crashes_is_started_again_within_the_budget_then_an_error(
    stage: Stage, trained: Path, tmp_path: Path
) -> None:
    shutil.copytree(trained, tmp_path / "run")

    async def crash(engine: SceneEngine) -> None:
        if engine.exchanges > 20:
            raise EngineExitedError("engine 0 ended")

    stage.before_step = crash
    stage.starts.clear()
    settings = basic(tmp_path, env_settings__max_lifetime_restarts=2, env_settings__restarts_rate_limit_n=-1)
    report, _ = play(settings, stage, 10**9)
    assert (report.outcome, report.exit_code) == ("failed", 2)
    assert "the most that max_lifetime_restarts allows" in report.errors[0]
    assert len(stage.starts) == 3
    stage.before_start = crash
    assert not list(Path(tmp_path).glob("*.failed-start"))


def test_what_cannot_be_played_is_said_before_anything_starts(stage: Stage, trained: Path, tmp_path: Path) -> None:
    playing = basic(tmp_path, checkpoint_settings__inference=True)
    with pytest.raises(SettingsError, match="There is no run to play in"):
        ParallelTrainerManager().start(playing, "learn")
    shutil.copytree(trained, tmp_path / "run")
    before = content(tmp_path)
    wider = basic(tmp_path, checkpoint_settings__inference=True, behaviors__Basic__network_settings__hidden_units=17)
    with pytest.raises(CheckpointError, match="does not fit the settings"):
        ParallelTrainerManager().start(wider, "learn")
    assert content(tmp_path) == before
    assert stage.starts == []


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("trainer", ["ppo", "sac"])
def test_deterministic_acts_alike_wherever_it_sees_the_same(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trainer: str, deterministic: bool
) -> None:
    """While training (weights held still by a late first update) and while a saved run is played."""
    seen: dict[bytes, set[bytes]] = {}
    original = Actor.decide

    def watched(self: Actor, rows: Any, obs: Any, mask: Any) -> Any:
        decision = original(self, rows, obs, mask)
        for row, sent in zip(obs[0], decision.to_env().continuous, strict=True):
            seen.setdefault(row.tobytes(), set()).add(sent.tobytes())
        return decision

    monkeypatch.setattr(Actor, "decide", watched)
    settings_of = tau_settings if trainer == "ppo" else sac_settings
    given: dict[str, Any] = {"behaviors__TauAgent__network_settings__deterministic": deterministic, "tau__pairs": 1}
    late = {"ppo": ("buffer_size", 390), "sac": ("buffer_init_steps", 470)}[trainer]
    held: dict[str, Any] = {f"behaviors__TauAgent__hyperparameters__{late[0]}": late[1]}
    train(settings_of(tmp_path, **given, **held))
    assert (max(map(len, seen.values())) == 1) == deterministic
    seen.clear()
    play(settings_of(tmp_path, **given), stage, 600, "parallel")
    assert (max(map(len, seen.values())) == 1) == deterministic


def test_what_explored_plays_its_best(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every decision of a played run of DQN; while it was trained half of them and more were any."""
    seen: list[bool] = []
    original = Actor.decide

    def watched(self: Actor, rows: Any, obs: Any, mask: Any) -> Any:
        decision = original(self, rows, obs, mask)
        best = self.policy.act(obs, mask, np.random.default_rng(0), deterministic=True)
        seen.append(np.array_equal(best.discrete, decision.discrete))
        return decision

    monkeypatch.setattr(Actor, "decide", watched)
    settings = sac_settings(tmp_path, **RAINBOW)
    train(settings)
    assert not all(seen)
    seen.clear()
    report, _ = play(settings, stage, 300, "parallel")
    assert report.outcome == "played"
    assert len(seen) > 10
    assert all(seen)
