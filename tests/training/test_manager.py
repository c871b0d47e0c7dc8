from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.errors import EngineExitedError, LaunchError, RunExistsError, SettingsError
from tau_trainer.metrics import PairState, Recorder
from tau_trainer.settings import load_settings
from tau_trainer.training.manager import ParallelTrainerManager
from tests.bridge.conftest import free_port
from tests.training.fakes import WAIT_S, Memory, SceneEngine, Stage, begin, tau_settings, train, until
from tests.waiting import HANG_S

LONG: dict[str, Any] = {"behaviors__TauAgent__max_steps": 1_000_000}


async def short_pause(engine: SceneEngine) -> None:
    await asyncio.sleep(0.002)


@pytest.fixture
def slow(stage: Stage) -> Stage:
    stage.before_step = short_pause
    return stage


def test_cancel_ends_a_run_gently(slow: Stage, tmp_path: Path, memory: Memory) -> None:
    session = begin(tau_settings(tmp_path, **LONG), memory)
    until(lambda: session.status().policy_version >= 1)
    with pytest.raises(TimeoutError, match=r"run 'run' has not ended within 0\.1 s"):
        session.wait(0.1)
    session.cancel()
    report = session.wait(HANG_S)
    assert report.outcome == "cancelled"
    assert report.exit_code == 0
    assert all(pair.state is PairState.CANCELLED for pair in report.pairs)
    assert report.decisions == sum(pair.decisions for pair in report.pairs) > 0
    assert {path.name for path in report.folder.iterdir()} >= {"TauAgent.onnx", "evaluation.json", "checkpoints"}
    assert {how for _, how in slow.ends} == {"closed"}
    assert not session.running


def test_a_cancel_before_the_run_has_begun_counts(slow: Stage, tmp_path: Path) -> None:
    session = begin(tau_settings(tmp_path, **LONG))
    session.cancel()
    assert session.wait(HANG_S).outcome == "cancelled"


def test_nothing_is_left_where_a_run_cannot_start(stage: Stage, tmp_path: Path) -> None:
    results = tmp_path / "results"
    settings = tau_settings(results, env_settings__env_path=str(tmp_path / "missing"))
    before = set(threading.enumerate())
    with pytest.raises(LaunchError, match="no program found"):
        ParallelTrainerManager().start(settings)
    assert not results.exists()
    assert set(threading.enumerate()) <= before


def test_force_keeps_the_old_run_until_the_new_one_has_learned(stage: Stage, tmp_path: Path) -> None:
    old = train(tau_settings(tmp_path))
    before = (old.folder / "evaluation.json").read_bytes()

    async def fail(engine: SceneEngine) -> None:
        raise EngineExitedError("engine ended while it should connect")

    stage.before_start = fail
    with pytest.raises(EngineExitedError):
        train(tau_settings(tmp_path, checkpoint_settings__force=True))
    assert (old.folder / "evaluation.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_what_is_written_down_of_a_run_and_one_that_exists(stage: Stage, tmp_path: Path) -> None:
    """A random seed is drawn; how a run was started is no part of its settings."""
    first = train(tau_settings(tmp_path, env_settings__seed=-1))
    seed = load_settings(first.folder / "configuration.yaml").env_settings.seed
    assert seed >= 0
    assert json.loads((first.folder / "run.json").read_text())["seed"] == seed
    with pytest.raises(RunExistsError, match=r"--resume.*--force"):
        begin(tau_settings(tmp_path))
    report = train(tau_settings(tmp_path, checkpoint_settings__force=True))
    kept = load_settings(report.folder / "configuration.yaml").checkpoint_settings
    assert (kept.force, kept.resume) == (False, False)


def test_two_runs_at_once_and_their_central_report(slow: Stage, tmp_path: Path) -> None:
    manager = ParallelTrainerManager()
    for name in ("one", "two"):
        manager.start(tau_settings(tmp_path, name), recorders=lambda folder: [Recorder()])
    assert manager.status().keys() == {"one", "two"}
    manager.cancel("two")
    reports = manager.report()
    assert {name: report.outcome for name, report in reports.items()} == {"one": "completed", "two": "cancelled"}
    with pytest.raises(KeyError):
        manager.cancel("three")


def test_a_device_that_is_not_there_is_found_before_anything_is_made(tmp_path: Path) -> None:
    sentence = re.escape("torch_settings.device (--torch-device) cuda:99: torch cannot use it here")
    with pytest.raises(SettingsError, match=sentence):
        begin(tau_settings(tmp_path, torch_settings__device="cuda:99"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("deterministic", [False, True])
def test_waiting_for_the_editor_ends_at_once_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: Memory, deterministic: bool
) -> None:
    monkeypatch.setattr("tau_trainer.envs.engines.EDITOR_PORT", free_port())
    results = tmp_path / "a" / "results"
    given: dict[str, Any] = {"env_settings.env_path": None, "collection.deterministic": deterministic}
    given |= {"env_settings.timeout_wait": 1000}
    given |= {"checkpoint_settings.results_dir": str(results), "checkpoint_settings.run_id": "run"}
    session = begin(load_settings("3DBall", given), memory, "learn")
    until(lambda: any(event.kind == "waiting" for event in memory.events))
    assert next(event.fields["engine"] for event in memory.events if event.kind == "waiting") == "editor"
    time.sleep(0.1)
    session.cancel()
    report = session.wait(HANG_S)
    assert (report.outcome, report.exit_code, report.files) == ("cancelled", 0, {})
    assert memory.results == [report]
    assert memory.warnings[-1] == "the run ended before anything was learned, so nothing is kept"
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("how", ["resume", "force"])
def test_an_early_end_takes_nothing_away(stage: Stage, tmp_path: Path, how: str) -> None:
    async def hang(engine: SceneEngine) -> None:
        await asyncio.sleep(1000)

    def content(folder: Path) -> dict[str, bytes]:
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    train(tau_settings(tmp_path))
    before = content(tmp_path / "run")
    stage.before_start = hang
    more: dict[str, Any] = {f"checkpoint_settings.{how}": True, "behaviors.TauAgent.max_steps": 9000}
    session = begin(tau_settings(tmp_path, **more))
    until(lambda: stage.live)
    session.cancel()
    assert session.wait(HANG_S).outcome == "cancelled"
    after = content(tmp_path / "run")
    after.pop("log.jsonl"), before.pop("log.jsonl")
    assert after == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_what_ends_before_it_has_learned_leaves_nothing(stage: Stage, tmp_path: Path) -> None:
    async def slow(engine: SceneEngine) -> None:
        await asyncio.sleep(0.05)

    stage.before_step = slow
    never = {"behaviors__TauAgent__hyperparameters__buffer_size": 100_000, **LONG}
    session = begin(tau_settings(tmp_path / "results", **never))
    until(lambda: session.status().decisions > 0)
    session.cancel()
    assert session.wait(HANG_S).outcome == "cancelled"
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_failed_start_keeps_the_engines_log_and_says_where(tmp_path: Path, replaced: bool) -> None:
    settings = tau_settings(
        tmp_path / "results", tau__pairs=1, env_settings__env_args=["--no-such-flag", "--connect-seconds", "soon"]
    )
    if replaced:
        (tmp_path / "results" / "run" / "checkpoints").mkdir(parents=True)
        settings = settings.model_copy(
            update={"checkpoint_settings": settings.checkpoint_settings.model_copy(update={"force": True})}
        )
    for _ in range(2):  # the second finds what the first has left
        with pytest.raises(EngineExitedError, match=r"--connect-seconds") as failure:
            train(settings)
        kept = tmp_path / "results" / "run.failed-start"
        assert str(failure.value).endswith(f"; the engine's full log is in {kept}")
        assert "--connect-seconds" in (kept / "Player-0.log").read_text("utf-8")
        assert (tmp_path / "results" / "run").exists() == replaced


def test_runs_that_nobody_calls_anything_are_called_after_what_they_learn(stage: Stage, tmp_path: Path) -> None:
    overrides = {
        "checkpoint_settings.results_dir": str(tmp_path),
        "behaviors.*.max_steps": 64,
        "env_settings.env_path": "headless:basic",
    }
    manager = ParallelTrainerManager()
    for _ in range(2):
        manager.start(load_settings("Basic", overrides), "learn").wait(WAIT_S)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Basic", "Basic-2"] == list(manager.sessions)
    again = manager.start(load_settings("Basic", overrides | {"checkpoint_settings.force": True}), "learn")
    again.wait(WAIT_S)
    assert again.run_id == "Basic-2", "the newest is replaced"
