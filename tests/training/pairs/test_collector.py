"""Whole runs on engines inside the test: what pairs, learners, checkpoints and supervision do together."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import io
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file

from tau_trainer.algorithms import Publish
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.algorithms.readers import Reader
from tau_trainer.bridge.side_channels import Stat
from tau_trainer.errors import (
    CheckpointError,
    EngineExitedError,
    EngineRefusedError,
    ExportError,
    NonFiniteError,
    SettingsError,
)
from tau_trainer.memory import Rollout, WorkData
from tau_trainer.metrics import JsonLines, MetricsHub, PairState, RunReport, RunSnapshot, RunView, keys, read_log
from tau_trainer.runs.checkpoint_sets import CheckpointSet
from tau_trainer.runs.folder import RunFolder
from tau_trainer.runs.run import Run
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.specs import Aggregation
from tau_trainer.tau.task import TauTask
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.learning.loop import UpdateLoop
from tau_trainer.training.pairs import collector
from tau_trainer.training.pairs.collector import PairsCollector
from tau_trainer.training.pairs.coordinator import RunCoordinator
from tau_trainer.training.pairs.pair import AgentTrainerPair
from tau_trainer.training.pairs.parallel import ParallelTrainer
from tau_trainer.training.pairs.speeds import Speeds
from tau_trainer.training.pairs.watchdog import watch
from tau_trainer.training.plan import make_plan
from tests.bridge.conftest import free_port
from tests.training.fakes import (
    RAINBOW,
    Memory,
    SceneEngine,
    Stage,
    begin,
    newest,
    pairs_of,
    sac_settings,
    tau_settings,
    train,
    until,
)
from tests.waiting import HANG_S


def hashes(report: RunReport) -> dict[str, str]:
    """SHA-256 of the parameters of every checkpoint of a run."""
    found = {}
    for folder in sorted((report.folder / "checkpoints").glob("*-*")):
        if folder.is_dir():
            tensors = load_file(folder / "tensors.safetensors")
            content = b"".join(tensors[name].tobytes() for name in sorted(tensors))
            found[folder.name] = hashlib.sha256(content).hexdigest()
    return found


def logged(report: RunReport) -> list[tuple[int, dict[str, float]]]:
    """Step and values of every summary, without those that depend on the machine's speed."""
    records = [record for record in read_log(report.folder / "log.jsonl") if record["type"] == "summary"]
    timed = ("Perf/", "Train/Update Seconds")
    return [
        (record["step"], {key: value for key, value in record["values"].items() if not key.startswith(timed)})
        for record in records
    ]


def failing(stage: Stage, index: int, after: int, error: Exception) -> None:
    """An engine fails after so many exchanges; -1: all do."""

    async def fail(engine: SceneEngine) -> None:
        if index in (-1, engine.index) and engine.exchanges > after:
            raise error

    stage.before_step = fail


def failing_updates(
    monkeypatch: pytest.MonkeyPatch, error: Exception, fails: Callable[[int], bool] = lambda number: number > 1
) -> list[float]:
    """Updates of these numbers fail; all were made with these shares of the run."""
    update, calls = PPO.update, list[float]()

    def sometimes(self: PPO, work: WorkData, progress: float, publish: Publish | None) -> dict[str, float]:
        calls.append(progress)
        if fails(len(calls)):
            raise error
        return update(self, work, progress, publish)

    monkeypatch.setattr(PPO, "update", sometimes)
    return calls


def test_a_run_of_three_pairs(stage: Stage, tmp_path: Path, memory: Memory) -> None:
    settings = tau_settings(
        tmp_path, tau__pairs=3, behaviors__TauAgent__max_steps=600, env_settings__env_args=["--max-decisions", "10"]
    )
    report = train(settings, memory)
    assert (report.outcome, report.exit_code) == ("completed", 0)
    assert report.decisions == memory.summaries[-1].step == 600
    assert report.decisions_per_second > 0.0
    for number, pair in enumerate(report.pairs):
        assert pair.decisions == 200
        assert pair.episodes == 4 * 4  # four agents, 50 decisions each, ten an episode, the last still open
        assert None not in (pair.mean_reward, pair.success_rate, pair.validation_accuracy)
        assert memory.states(number) == ["Preparing", "Training", "Evaluating", "Completed"]
    names = {name for summary in memory.summaries for name in summary.values}
    assert {TauTask.keys.reward, TauTask.keys.success, keys.VALIDATION_ACCURACY} <= names
    (task,) = [event for event in memory.events if event.kind == "task"]
    assert task.fields == {"reward": "Tau/Mean Reward", "success": "Tau/Success Rate",
                           "aggregated": "Tau/Aggregated Reward"}  # fmt: skip
    assert "success" in shown(memory.snapshots[-1])


def test_every_pairs_reward_goes_to_its_own_trainer(stage: Stage, tmp_path: Path, memory: Memory) -> None:
    """The original reported every agent's reward to one static instance."""
    settings = tau_settings(tmp_path, tau__reward__source="engine", tau__reward__credit="aggregate")
    original = SceneEngine.next

    async def tagged(self: SceneEngine) -> Any:
        batches = await original(self)
        for batch in batches:
            batch.reward[:] = float(self.index) * 10.0 + 1.0
        return batches

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SceneEngine, "next", tagged)
        report = train(settings, memory)
    assert [pair.mean_reward for pair in report.pairs] == pytest.approx([1.0, 11.0])
    for pair, reward in (("0", 1.0), ("1", 11.0)):
        own = [summary.pairs[pair][TauTask.keys.reward] for summary in memory.summaries if pair in summary.pairs]
        assert [one.mean for one in own] == pytest.approx([reward] * len(own))
        # The reward of the last decisions never arrives: the run ends with them.
        assert sum(one.count for one in own) == 196


def test_what_should_be_said_before_it_begins_is_said(
    stage: Stage, tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TauTask, "warnings", ("two rows of the data set cannot be used",))
    plan = make_plan("parallel", tau_settings(tmp_path, collection__listen="127.0.0.1"), tmp_path)
    with MetricsHub([memory]) as hub:
        PairsCollector(plan, Run(RunFolder(tmp_path), hub, 7)).close()
        hub.drain(10.0)
    door, data = memory.warnings
    assert door.startswith("listening on 127.0.0.1, without encryption")
    assert data == "two rows of the data set cannot be used"


def test_a_failing_pair_never_stops_another(stage: Stage, tmp_path: Path, memory: Memory) -> None:
    errors = {0: ZeroDivisionError("somewhere"), 1: EngineExitedError("engine 1 ended: exit code 70")}

    async def fail(engine: SceneEngine) -> None:
        if engine.index in errors and engine.exchanges > 5:
            raise errors[engine.index]

    stage.before_step = fail
    settings = tau_settings(tmp_path, tau__pairs=3, env_settings__max_lifetime_restarts=0)
    report = train(settings, memory)
    assert [pair.state for pair in report.pairs] == [PairState.FAILED, PairState.FAILED, PairState.COMPLETED]
    assert (report.outcome, report.exit_code) == ("completed", 1)
    assert report.pairs[0].error == "internal error: ZeroDivisionError: somewhere"
    error = report.pairs[1].error or ""
    assert "exit code 70" in error
    assert "max_lifetime_restarts" in error
    assert report.errors == (f"pair 0: {report.pairs[0].error}", f"pair 1: {error}")
    assert any("pair 1 failed" in warning for warning in memory.warnings)
    assert not stage.live


def test_all_pairs_fail_before_anything_is_learned(stage: Stage, tmp_path: Path) -> None:
    async def fail(engine: SceneEngine) -> None:
        raise EngineExitedError(f"engine {engine.index} ended while it should connect: exit code 70")

    stage.before_start = fail
    with pytest.raises(EngineExitedError, match="exit code 70"):
        train(tau_settings(tmp_path / "results"))
    assert not (tmp_path / "results").exists(), "nothing half-written is left"


def test_all_pairs_fail_later(stage: Stage, tmp_path: Path) -> None:
    failing(stage, -1, 40, EngineExitedError("an engine ended"))
    report = train(tau_settings(tmp_path, env_settings__max_lifetime_restarts=0))
    assert (report.outcome, report.exit_code) == ("failed", 2)
    assert len(report.errors) == 2
    assert report.evaluation is not None, "what was learned is kept"
    assert report.models[0].is_file()


def test_a_restarted_engine_costs_its_open_trajectories_only(stage: Stage, tmp_path: Path, memory: Memory) -> None:
    broken: list[int] = []

    async def fail(engine: SceneEngine) -> None:
        if engine.index == 1 and engine.exchanges > 20 and not broken:
            broken.append(engine.exchanges)
            raise EngineExitedError("engine 1 ended")

    stage.before_step = fail
    report = train(tau_settings(tmp_path), memory)
    assert report.exit_code == 0
    assert [pair.restarts for pair in report.pairs] == [0, 1]
    assert [pair.decisions for pair in report.pairs] == [200, 200]
    assert stage.starts.count(1) == 2
    assert any("restart 1" in warning for warning in memory.warnings)
    told = [event.fields for event in memory.events if "restart" in event.fields]
    assert [(fields["pair"], fields["restart"]) for fields in told] == [(1, 1)]


@pytest.mark.parametrize("policy", ["shared", "independent"])
def test_the_same_seed_is_the_same_run_to_the_bit(stage: Stage, tmp_path: Path, policy: str) -> None:
    options = DETERMINISTIC | {"tau__pairs": 3, "tau__max_concurrent": 2, "tau__policy": policy}
    one, same = (train(tau_settings(tmp_path, name, **options)) for name in ("one", "same"))
    other = train(tau_settings(tmp_path, "other", **options, env_settings__seed=8))
    assert hashes(one) == hashes(same)
    assert logged(one) == logged(same)
    assert len(logged(one)) >= 4
    assert hashes(one).keys() == hashes(other).keys()
    assert not set(hashes(one).values()) & set(hashes(other).values())


DETERMINISTIC: dict[str, Any] = {"collection__deterministic": True}
SMALL_BUFFERS: dict[str, Any] = {
    "behaviors__TauAgent__hyperparameters__buffer_size": 24,
    "behaviors__TauAgent__hyperparameters__batch_size": 8,
    "behaviors__TauAgent__keep_checkpoints": 0,
}


def cut_off(whole: RunReport, folder: Path, generation: int) -> None:
    """A copy of a run as it was after its ``generation``-th checkpoint."""
    shutil.copytree(whole.folder, folder)
    for path in (folder / "checkpoints").glob("*-*"):
        content = json.loads((path / "manifest.json").read_text())["content"] if path.is_dir() else {}
        if content.get("generation", 0) > generation:
            shutil.rmtree(path)
    left = {path.name for path in (folder / "checkpoints").glob("*-*") if path.is_dir()}
    assert left
    assert left < hashes(whole).keys()


@pytest.mark.parametrize(("policy", "concurrent", "generations"), [("shared", 2, (1, 6)), ("independent", 3, (1,))])
def test_exact_resume(stage: Stage, tmp_path: Path, policy: str, concurrent: int, generations: tuple[int, ...]) -> None:
    """A run that was killed after one of its checkpoints goes on as if nothing had happened."""
    options = {"tau__pairs": 3, "tau__max_concurrent": concurrent, "tau__policy": policy, **DETERMINISTIC}
    options |= {"behaviors__TauAgent__max_steps": 720, "behaviors__TauAgent__checkpoint_interval": 80, **SMALL_BUFFERS}
    whole = train(tau_settings(tmp_path, "whole", **options))
    for generation in generations:
        cut_off(whole, tmp_path / f"cut-{generation}", generation)
        resumed = train(tau_settings(tmp_path, f"cut-{generation}", **options, checkpoint_settings__resume=True))
        assert hashes(resumed) == hashes(whole)
        assert [pair.decisions for pair in resumed.pairs] == [pair.decisions for pair in whole.pairs]


def killed_at(folder: Path, writes: int) -> Iterator[Path]:
    """While it goes on: a copy of a run as it is when so many checkpoints are written and the next begins."""
    write, left = CheckpointSet.write, folder.parent / f"killed-{writes}"
    written: list[str] = []

    def copied(self: CheckpointSet, name: str, *given: Any) -> Path:
        if len(written) == writes:
            shutil.copytree(folder, left)
        written.append(name)
        return write(self, name, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CheckpointSet, "write", copied)
        yield left


KILLED: dict[str, Any] = {
    "collection__deterministic": True,
    "tau__policy": "independent",
    "tau__pairs": 3,
    "tau__max_concurrent": 2,
    "behaviors__TauAgent__max_steps": 800,
    "behaviors__TauAgent__checkpoint_interval": 200,
    "behaviors__TauAgent__keep_checkpoints": 1,
}


# Two learners at 200 decisions; at 268 a pair is done and the third begins, which is saved at 200 of its own.
@pytest.mark.parametrize("writes", [3, 4])
def test_exact_resume_after_a_kill_between_two_checkpoints_of_a_moment(
    stage: Stage, tmp_path: Path, writes: int
) -> None:
    with contextlib.contextmanager(killed_at)(tmp_path / "whole", writes) as left:
        whole = train(tau_settings(tmp_path, "whole", **KILLED))
    assert len(list((left / "checkpoints").glob("*-pair*"))) == writes, "of keep_checkpoints: 1 nothing is gone yet"
    resumed = train(tau_settings(tmp_path, left.name, **KILLED, checkpoint_settings__resume=True))
    assert hashes(resumed) == hashes(whole)
    assert [pair.decisions for pair in resumed.pairs] == [pair.decisions for pair in whole.pairs] == [268] * 3


def test_a_first_moment_that_is_not_whole_is_none(stage: Stage, tmp_path: Path) -> None:
    with contextlib.contextmanager(killed_at)(tmp_path / "whole", 1) as left:
        train(tau_settings(tmp_path, "whole", **KILLED))
    assert [path.name for path in (left / "checkpoints").glob("*-pair*")] == ["TauAgent-pair0-200"]
    with pytest.raises(CheckpointError, match=r"ended before a checkpoint of all its policies was complete.*--force"):
        train(tau_settings(tmp_path, left.name, **KILLED, checkpoint_settings__resume=True))


@pytest.mark.parametrize(("trainer", "kept"), [("sac", False), ("sac", True), ("dqn", True)])
def test_exact_resume_with_a_replay_memory(
    stage: Stage, tmp_path: Path, memory: Memory, kept: bool, trainer: str
) -> None:
    options = (RAINBOW if trainer == "dqn" else {}) | DETERMINISTIC
    options |= {"behaviors__TauAgent__hyperparameters__save_replay_buffer": kept}
    whole = train(sac_settings(tmp_path, "whole", **options))
    cut_off(whole, tmp_path / "cut", 2)
    resumed = train(sac_settings(tmp_path, "cut", **options, checkpoint_settings__resume=True), memory)
    assert resumed.outcome == whole.outcome == "completed"
    assert (hashes(resumed) == hashes(whole)) == kept
    said = [warning for warning in memory.warnings if "replay memory of 'TauAgent' was not saved" in warning]
    assert len(said) == (not kept)


def test_exact_resume_with_hindsight(tmp_path: Path) -> None:
    """Episodes that were open when it was saved, and a ring that has gone round."""
    chosen: dict[str, Any] = {
        "checkpoint_settings.results_dir": str(tmp_path),
        "collection.deterministic": True,
        "env_settings.seed": 1,
        "env_settings.num_areas": 3,
    }
    own = {
        "max_steps": 540,
        "checkpoint_interval": 100,
        "keep_checkpoints": 0,
        "hyperparameters.save_replay_buffer": True,
        "hyperparameters.buffer_size": 170,
        "hyperparameters.buffer_init_steps": 0,
        "hyperparameters.batch_size": 16,
        "hyperparameters.steps_per_update": 9,
        "network_settings.hidden_units": 8,
    }
    chosen |= {f"behaviors.GoalWorld-v0.{key}": value for key, value in own.items()}

    def settings(run_id: str, *, resume: bool = False) -> RunSettings:
        more = {"checkpoint_settings.run_id": run_id, "checkpoint_settings.resume": resume}
        return load_settings("GoalWorld", chosen | more)

    whole = train(settings("whole"), command="learn")
    cut_off(whole, tmp_path / "cut", 2)
    assert len(hashes(whole)) > 4
    resumed = train(settings("cut", resume=True), command="learn")
    assert hashes(resumed) == hashes(whole)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["independent", "replay"])
def test_a_process_of_its_own_learns_the_same_to_the_bit(stage: Stage, tmp_path: Path, case: str) -> None:
    """A run whose learner is a process, and one that goes on there after it has begun in a thread."""
    options = {"tau__policy": case, "behaviors__TauAgent__checkpoint_interval": 60, **SMALL_BUFFERS}
    made, generation = tau_settings, 1
    if case == "replay":
        options = {"behaviors__TauAgent__hyperparameters__save_replay_buffer": True}
        made, generation = sac_settings, 2
    options |= DETERMINISTIC
    whole = train(made(tmp_path, "whole", **options, collection__learner="thread"))
    apart = train(made(tmp_path, "apart", **options, collection__learner="process"))
    assert hashes(apart) == hashes(whole)
    assert logged(apart) == logged(whole)
    assert not list((whole.folder / "run_logs").glob("*.log"))
    cut_off(whole, tmp_path / "cut", generation)
    resumed = train(made(tmp_path, "cut", **options, collection__learner="process", checkpoint_settings__resume=True))
    assert hashes(resumed) == hashes(whole)
    assert [path.name for path in (resumed.folder / "run_logs").glob("*.log")] == ["Learner-0.log"]


def test_resume_counts_on(stage: Stage, tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[int, Sequence[int]]] = []

    def noted(run: int, pairs: Sequence[int]) -> Speeds:
        begun.append((run, pairs))
        return Speeds(run, pairs)

    monkeypatch.setattr(collector, "Speeds", noted)
    first = train(tau_settings(tmp_path))
    settings = tau_settings(tmp_path, behaviors__TauAgent__max_steps=800, checkpoint_settings__resume=True)
    second = train(settings, memory)
    assert (first.decisions, second.decisions) == (400, 800)
    assert begun == [(0, [0, 0]), (400, [200, 200])], "speeds are of what this process does"
    assert [pair.decisions for pair in second.pairs] == [400, 400]
    assert [event.fields["step"] for event in memory.events if event.kind == "resumed"] == [400]
    assert memory.summaries[0].step > 400
    steps = [record["step"] for record in read_log(second.folder / "log.jsonl") if record["type"] == "summary"]
    assert steps == sorted(steps)


def slow_updates(monkeypatch: pytest.MonkeyPatch, seconds: float) -> list[tuple[float, float]]:
    """Every update takes so long; returns when each began and ended."""
    spans: list[tuple[float, float]] = []
    update = PPO.update

    def slow(self: PPO, work: WorkData, progress: float, publish: Publish | None) -> dict[str, float]:
        begin = time.monotonic()
        result = update(self, work, progress, publish)
        time.sleep(seconds)
        spans.append((begin, time.monotonic()))
        return result

    monkeypatch.setattr(PPO, "update", slow)
    return spans


@pytest.mark.parametrize("most", [0, 1])
def test_collection_goes_on_while_learning_until_the_age_is_at_its_bound(
    stage: Stage, tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    spans = slow_updates(monkeypatch, 0.15)
    exchanges: list[float] = []

    async def note(engine: SceneEngine) -> None:
        exchanges.append(time.monotonic())

    stage.before_step = note
    settings = tau_settings(tmp_path, collection__max_policy_age=most)
    session = begin(settings, memory)
    report = session.wait(HANG_S)
    assert report.outcome == "completed"
    during = sum(any(begin < at < end for begin, end in spans) for at in exchanges)
    # Two pairs: with a bound of 0 the other pair may have one exchange under way when the memory is full.
    assert during <= len(spans) if most == 0 else during > 2 * len(spans), (during, len(spans), len(exchanges))
    ages = [one.statistics[keys.POLICY_AGE] for one in memory.summaries if keys.POLICY_AGE in one.statistics]
    # What is open when a rollout is taken, and an exchange that is under way, is learned from one update later.
    assert most - 1 < max(age.max for age in ages) <= most + 2 * 8 / 64
    assert session.status().held_seconds > 0.0


def test_a_full_disk_makes_the_run_no_success(
    stage: Stage, tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tau_trainer.runs.checkpoints.write_synced", full)
    report = train(tau_settings(tmp_path, behaviors__TauAgent__checkpoint_interval=100), memory)
    assert (report.outcome, report.exit_code) == ("completed", 1)
    assert [
        ("Cannot save checkpoint 'TauAgent-400'" in error, "No space left" in error) for error in report.errors
    ] == [(True, True)]
    assert len([text for text in memory.warnings if "Cannot save" in text]) >= 3, "it was tried again"
    assert report.models
    assert report.evaluation is not None


def test_a_log_that_cannot_be_written_makes_the_run_no_success(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: JsonLines, line: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(JsonLines, "_put", full)
    report = train(tau_settings(tmp_path))
    assert report.exit_code == 1
    assert report.errors == ("JsonLines could not write everything: [Errno 28] No space left on device",)


def test_nan_again_and_again_ends_the_run_without_a_nan_on_disk(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_updates(monkeypatch, NonFiniteError("behavior 'TauAgent': the loss is NaN"))
    report = train(tau_settings(tmp_path))
    assert (report.outcome, report.exit_code) == ("failed", 2)
    assert all("the loss is NaN" in error for error in report.errors)
    checkpoints = [path for path in (report.folder / "checkpoints").iterdir() if path.is_dir()]
    assert checkpoints
    for path in checkpoints:
        for tensor in load_file(path / "tensors.safetensors").values():
            assert np.isfinite(tensor).all()


def held_until_the_end(monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> list[float]:
    """All updates but the first wait until the pair has ended, and then fail where there is an ``error``."""
    ended, update, drain, calls = threading.Event(), PPO.update, UpdateLoop.drain, list[float]()

    def held(self: PPO, work: WorkData, progress: float, publish: Publish | None) -> dict[str, float]:
        calls.append(progress)
        if len(calls) > 1:
            assert ended.wait(HANG_S)
            if error is not None:
                raise error
        return update(self, work, progress, publish)

    async def drained(self: UpdateLoop) -> None:
        ended.set()
        await drain(self)

    monkeypatch.setattr(PPO, "update", held)
    monkeypatch.setattr(UpdateLoop, "drain", drained)
    return calls


def test_what_fails_when_the_pair_has_ended_is_told_too(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_until_the_end(monkeypatch, RuntimeError("shapes differ"))
    report = train(tau_settings(tmp_path, tau__pairs=1, collection__max_policy_age=100))
    assert all(pair.state is PairState.COMPLETED for pair in report.pairs)
    assert (report.outcome, report.exit_code) == ("failed", 2)
    assert report.errors == ("internal error: RuntimeError: shapes differ",)


@pytest.mark.parametrize("at_once", [False, True])
def test_what_waits_for_the_learner_is_given_up_only_at_once(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    async def pause(engine: SceneEngine) -> None:
        await asyncio.sleep(0.001 if engine.exchanges < 60 else 1000)

    stage.before_step = pause
    monkeypatch.setattr(ParallelTrainer.cancel, "__defaults__", (0.1,))
    calls = held_until_the_end(monkeypatch)
    session = begin(tau_settings(tmp_path, collection__max_policy_age=100, behaviors__TauAgent__max_steps=10_000))
    pool = pairs_of(session).pool
    until(lambda: len(calls) == 2 and len(pool.loops["TauAgent"]._queue) >= 3)
    session.cancel(at_once=at_once)
    report = session.wait(HANG_S)
    assert (len(calls) == 2) == at_once
    assert (report.evaluation is None) == at_once


def test_an_export_that_cannot_work_is_told_at_the_start(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ExportError("the network has an operator that ONNX does not know")

    async def pause(engine: SceneEngine) -> None:
        await asyncio.sleep(0.02)

    stage.before_step = pause
    monkeypatch.setattr("tau_trainer.training.pairs.coordinator.check_export", fails)
    settings = tau_settings(
        tmp_path / "results",
        behaviors__TauAgent__max_steps=100_000,
        behaviors__TauAgent__hyperparameters__buffer_size=50_000,
    )
    with pytest.raises(ExportError, match="ONNX does not know"):
        train(settings)
    assert not (tmp_path / "results").exists()
    assert not stage.live


def test_a_stall_ends_the_run_and_says_who_waits(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(engine: SceneEngine) -> None:
        if engine.exchanges > 30:
            await asyncio.sleep(1000)

    stage.before_step = hang
    monkeypatch.setattr("tau_trainer.training.plan._STALL_LEAST_S", 0.0)
    monkeypatch.setattr("tau_trainer.training.plan._STALL_FACTOR", 1.0)
    monkeypatch.setattr(watch, "__defaults__", (0.1,))
    monkeypatch.setattr(ParallelTrainer.cancel, "__defaults__", (0.1,))
    report = train(tau_settings(tmp_path, env_settings__timeout_wait=1))
    assert (report.outcome, report.exit_code) == ("failed", 2)
    assert "pair 0 waits for engine 0 to answer a step; pair 1 waits for engine 1" in report.errors[0]
    assert all(pair.state is PairState.CANCELLED for pair in report.pairs)
    assert not stage.live


def test_deterministic_engines_are_told_a_fresh_seed_each_generation(stage: Stage, tmp_path: Path) -> None:
    train(tau_settings(tmp_path, **DETERMINISTIC, behaviors__TauAgent__checkpoint_interval=150))
    seeds = [(index, told["seed"]) for index, told in stage.told]
    assert [index for index, _ in seeds] == [0, 1, 0, 1, 0, 1]
    assert len({seed for _, seed in seeds}) == 6
    assert all(seed == np.float32(seed) for _, seed in seeds)


HEIGHTS = [
    {
        "name": name,
        "value": {"sampler_type": "uniform", "sampler_parameters": {"min_value": height, "max_value": height + 1}},
        "completion_criteria": {"behavior": "3DBall", "measure": "progress", "threshold": threshold},
    }
    for name, height, threshold in (("low", 1.0, 0.25), ("high", 2.0, 0.75), ("highest", 3.0, 1.0))
]


def with_parameters(settings: RunSettings, parameters: dict[str, Any]) -> RunSettings:
    known = RunSettings.model_validate({"environment_parameters": parameters}).environment_parameters
    return settings.model_copy(update={"environment_parameters": known})


def test_lessons_follow_each_other_and_survive_a_resume(stage: Stage, tmp_path: Path, memory: Memory) -> None:
    lessons = {"scale": {"curriculum": HEIGHTS}, "gravity": 5.0}
    two: dict[str, Any] = {"env_settings__num_envs": 2}
    report = train(with_parameters(plain_settings(tmp_path, "3DBall", **two), lessons), memory, "learn")
    told = [event.fields["message"] for event in memory.events if event.kind == "lesson"]
    assert told == ["scale: lesson 2 of 3, high", "scale: lesson 3 of 3, highest"]
    sent = [[values for index, values in stage.told if index == engine] for engine in range(2)]
    for engine in sent:
        assert [one["scale"].values for one in engine] == [(1.0, 2.0), (2.0, 3.0), (3.0, 4.0)]
        assert [set(one) for one in engine] == [{"scale", "gravity"}, {"scale"}, {"scale"}], "only what has changed"
    numbers = [one.values["Environment/Lesson Number/scale"] for one in memory.summaries]
    assert numbers == sorted(numbers)
    assert (numbers[0], numbers[-1]) == (0.0, 2.0)
    assert any("scale: lesson 3 of 3, highest" in shown(snapshot) for snapshot in memory.snapshots)
    stage.told.clear()
    longer: dict[str, Any] = {"checkpoint_settings__resume": True, "behaviors__TauAgent__max_steps": 600}
    more = plain_settings(tmp_path, "3DBall", **two, **longer)
    assert train(with_parameters(more, lessons), memory, "learn").decisions > report.decisions
    assert [values["scale"].values for _, values in stage.told] == [(3.0, 4.0)] * 2, "in the lesson where it ended"


def test_a_lesson_by_reward(stage: Stage, tmp_path: Path, memory: Memory) -> None:
    criteria = {"behavior": "Basic", "threshold": -100.0, "min_lesson_length": 3, "require_reset": True}
    lessons = [{"name": "a", "value": 1, "completion_criteria": criteria}, {"name": "b", "value": 2}]
    train(with_parameters(plain_settings(tmp_path, "Basic"), {"x": {"curriculum": lessons}}), memory, "learn")
    (told,) = [event.fields["message"] for event in memory.events if event.kind == "lesson"]
    assert told == "x: lesson 2 of 2, b"
    assert [values for _, values in stage.told] == [{"x": 1.0}, {"x": 2.0}], "the second time at a reset"


def first_policy(memory: Memory, settings: RunSettings) -> tuple[RunReport, dict[str, Any]]:
    """The report of a run, and the weights that its learner first acted with."""
    seen: list[dict[str, Any]] = []
    original = RunCoordinator.appears

    def appears(self: RunCoordinator, learner: Learner) -> None:
        original(self, learner)
        assert (learner.decisions, learner.policy.version) == (0, 0)
        seen.append(dict(learner.policy.weights))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunCoordinator, "appears", appears)
        report = train(settings, memory, "learn")
    return report, seen[0]


@pytest.mark.parametrize(
    ("named", "learner"), [("run", "thread"), ("path", "thread"), ("bare", "thread"), ("run", "process")]
)
def test_a_run_begins_with_what_another_one_learned(
    stage: Stage, tmp_path: Path, memory: Memory, named: str, learner: str
) -> None:
    first = train(plain_settings(tmp_path, "Basic", "first"), None, "learn")
    checkpoint = newest(first.folder, "Basic")
    given: dict[str, Any] = {} if named == "path" else {"checkpoint_settings__initialize_from": "first"}
    place = {"run": None, "path": str(checkpoint.path), "bare": checkpoint.path.name}[named]
    settings = plain_settings(
        tmp_path, "Basic", "second", collection__learner=learner, behaviors__TauAgent__init_path=place, **given
    )
    report, weights = first_policy(memory, settings)
    for name, values in weights.items():
        key = name if name in checkpoint.tensors else f"model.{name}"
        np.testing.assert_array_equal(values, checkpoint.tensors[key], err_msg=name)
    assert report.decisions == first.decisions, "it has all of its own decisions"
    assert f"'Basic' starts with the weights of {checkpoint.path}" in [event.message for event in memory.events]
    shutil.rmtree(first.folder)
    longer: dict[str, Any] = {"checkpoint_settings__resume": True, "behaviors__TauAgent__max_steps": 600, **given}
    resumed = train(plain_settings(tmp_path, "Basic", "second", **longer), None, "learn")
    assert resumed.decisions > report.decisions, "a resumed run goes on from its own checkpoints"


@pytest.mark.parametrize("known", [True, False])
def test_nothing_to_begin_from(stage: Stage, tmp_path: Path, memory: Memory, known: bool) -> None:
    """Where the settings name no behavior, the engine says which there are."""
    train(plain_settings(tmp_path, "3DBall", "first"), None, "learn")
    settings = plain_settings(tmp_path, "Basic", "second", checkpoint_settings__initialize_from="first")
    if not known:
        settings = settings.model_copy(update={"behaviors": {}, "default_settings": settings.behaviors["Basic"]})
    # An engine that shows nothing to start with is refused, as is any engine that the run cannot learn from.
    kind = SettingsError if known else EngineRefusedError
    with pytest.raises(kind, match="that run has saved 3DBall, but this one learns Basic, so there is nothing to"):
        train(settings, memory, "learn")
    assert not (tmp_path / "second").exists()
    assert len(stage.starts) == (1 if known else 2), "what the settings say needs no engine"


def test_a_behavior_that_was_not_saved_begins_from_zero_beside_one_that_was(
    stage: Stage, tmp_path: Path, memory: Memory
) -> None:
    first = train(plain_settings(tmp_path, "BigWallJump", "first"), None, "learn")
    for checkpoint in (first.folder / "checkpoints").glob("SmallWallJump*"):
        shutil.rmtree(checkpoint)
    settings = plain_settings(tmp_path, "BigWallJump", "second", checkpoint_settings__initialize_from="first")
    assert train(settings, memory, "learn").outcome == "completed"
    assert "'SmallWallJump' starts from scratch: the run 'first' saved nothing of it" in memory.warnings


def test_a_network_that_does_not_fit_ends_the_run(stage: Stage, tmp_path: Path) -> None:
    train(plain_settings(tmp_path, "Basic", "first"), None, "learn")
    other = {"behaviors__TauAgent__network_settings__hidden_units": 8}
    settings = plain_settings(tmp_path, "Basic", "second", checkpoint_settings__initialize_from="first", **other)
    with pytest.raises(CheckpointError, match="The checkpoint's hidden units is 16, behavior 'Basic' needs 8"):
        train(settings, None, "learn")
    assert not (tmp_path / "second").exists()


def plain_settings(results: Path, behavior: str, run_id: str = "run", **overrides: Any) -> RunSettings:
    """The same small run without a task, of a scene whose behavior is called so."""
    scenes = {"Basic": "headless:basic", "3DBall": "headless:balance", "BigWallJump": "headless:walljump"}
    settings = tau_settings(results, run_id, tau=None, env_settings__env_path=scenes[behavior], **overrides)
    names = ["SmallWallJump", "BigWallJump"] if behavior == "BigWallJump" else [behavior]
    return settings.model_copy(update={"behaviors": dict.fromkeys(names, settings.behaviors["TauAgent"])})


def shown(snapshot: RunSnapshot) -> str:
    """The table of a run, as text."""
    console = Console(width=100, file=io.StringIO(), force_terminal=False)
    with console.capture() as capture:
        console.print(RunView(snapshot))
    return capture.get()


def test_a_plain_run_knows_nothing_of_a_task(stage: Stage, tmp_path: Path, memory: Memory) -> None:
    report = train(plain_settings(tmp_path, "Basic", env_settings__num_envs=2), memory, "learn")
    assert (report.outcome, report.evaluation) == ("completed", None)
    assert report.verdict == "Exported: the last policy, after 400 decisions."
    assert [path.name for path in report.models] == ["Basic.onnx"]
    assert memory.summaries[-1].behavior == "Basic"
    assert memory.results[0].behaviors[0].step >= 400
    names = {name for summary in memory.summaries for name in summary.values}
    assert {name.partition("/")[0] for name in names} == {
        "Environment", "Losses", "Perf", "Policy", "Train",
    }  # fmt: skip
    of_pairs = {name for summary in memory.summaries for values in summary.pairs.values() for name in values}
    assert of_pairs == {keys.CUMULATIVE_REWARD, keys.EPISODE_LENGTH}
    assert not [event for event in memory.events if event.kind in ("task", "baselines")]
    assert "success" not in shown(memory.snapshots[-1])
    assert all(pair.success_rate is None for pair in report.pairs)
    assert any(pair.mean_reward is not None for pair in report.pairs), "of an episode"


@pytest.mark.usefixtures("recurrent")
def test_state_is_carried_over_a_whole_run(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is learned with is the number of decisions of the episode so far, also after an engine was lost."""
    learned: list[Rollout] = []
    read = PPO.read

    def noted(self: PPO, rollout: Rollout) -> Reader:
        learned.append(Rollout({name: np.array(values) for name, values in rollout._data.items()}))
        return read(self, rollout)

    async def fail_once(engine: SceneEngine) -> None:
        if engine.index == 1 and engine.exchanges == 20 and stage.starts.count(1) == 1:
            raise EngineExitedError("engine 1 ended")

    stage.before_step = fail_once
    monkeypatch.setattr(PPO, "read", noted)
    for place in ("pairs.coordinator.check_export", "pairs.collector.export_onnx", "learning.learner.export_onnx"):
        monkeypatch.setattr(f"tau_trainer.training.{place}", lambda *_: None)
    settings = plain_settings(
        tmp_path,
        "3DBall",
        env_settings__num_envs=2,
        env_settings__env_args=["--max-decisions", "7"],
        collection__learner="thread",
        behaviors__TauAgent__max_steps=1200,
        behaviors__TauAgent__network_settings__memory={"memory_size": 2, "sequence_length": 4},
    )
    report = train(settings, command="learn")
    assert (report.outcome, stage.starts.count(1)) == ("completed", 2)
    assert len(learned) > 10
    counted = np.concatenate([one.column("memory")[:, :, 0] for one in learned])
    assert (counted[:, 0] == counted[:, 1]).all(), "actor's and critic's"
    rows = np.concatenate([one.rows for one in learned])
    ends = np.concatenate([one.terminated | one.truncated for one in learned])
    first, again = 0, 0
    for row in np.unique(rows):
        counts, ended = counted[rows == row, 0], ends[rows == row]
        begins = np.concatenate([[True], ended[:-1]])
        assert counts[begins].tolist() == [0.0] * int(begins.sum())
        lost = ~begins & (counts == 0)
        first, again = first + int(begins.sum()), again + int(lost.sum())
        goes_on = ~begins & ~lost
        assert (counts[goes_on] == counts[np.flatnonzero(goes_on) - 1] + 1).all()
    assert first > 50
    assert 0 < again <= 12, "the engine that was lost begins anew, and no other"


def test_status_while_it_runs(stage: Stage, tmp_path: Path) -> None:
    async def pause(engine: SceneEngine) -> None:
        await asyncio.sleep(0.01)

    stage.before_step = pause
    session = begin(tau_settings(tmp_path))
    seen: list[RunSnapshot] = []
    while session.running:
        seen.append(session.status())
        time.sleep(0.05)
    session.wait()
    assert any(snapshot.pairs[0].state == "Training" for snapshot in seen)
    assert any(snapshot.decisions_per_second > 0 and snapshot.eta_s is not None for snapshot in seen)
    last = session.status()
    assert last.decisions == last.max_decisions == 400
    assert last.validation_accuracy is not None
    assert last.baselines is not None
    assert [behavior.step for behavior in last.behaviors] == [400]


def test_stats_of_the_game_reach_the_hub(stage: Stage, tmp_path: Path, memory: Memory) -> None:
    settings = tau_settings(tmp_path)
    original = PairsCollector.save

    def with_stats(self: PairsCollector) -> None:
        self.coordinator._stat(1, Stat("Game/Speed", 4.0, Aggregation.AVERAGE))
        self.coordinator._stat(0, Stat("Game/Level", 2.0, Aggregation.MOST_RECENT))
        self.coordinator._stat(1, Stat("Game/Level", 9.0, Aggregation.MOST_RECENT))
        original(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PairsCollector, "save", with_stats)
        train(settings, memory)
    values = memory.summaries[-1].values
    assert values["Game/Speed"] == 4.0
    assert values["Game/Level"] == 2.0, "the most recent value is engine 0's, as in ML-Agents"


def test_the_editor_learns_by_parameters_what_to_play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that nobody launched, with no flag but its port, plays what the settings say, as the editor does."""
    port = free_port()
    monkeypatch.setattr("tau_trainer.envs.engines.EDITOR_PORT", port)
    session = begin(tau_settings(tmp_path, env_settings__env_path=None, tau__pairs=1, tau__agents=6))
    command = [sys.executable, "-m", "tau_trainer.headless", "--mlagents-port", str(port), "--connect-seconds", "300"]
    editor = subprocess.run(
        command, capture_output=True, text=True, timeout=HANG_S, cwd=Path(__file__).parents[2], check=False
    )
    report = session.wait()
    assert editor.returncode == 0, editor.stderr
    assert "playing tau with 6 agents" in editor.stderr
    assert (report.exit_code, report.decisions) == (0, 402)
    assert report.evaluation is not None


@pytest.mark.parametrize(("command", "seconds", "said"), [("learn", 60.0, 1), ("parallel", 60.0, 0)])
def test_a_run_says_once_after_a_minute_that_its_game_takes_the_time(
    command: str,
    seconds: float,
    said: int,
    stage: Stage,
    tmp_path: Path,
    memory: Memory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(AgentTrainerPair, "played_s", property(lambda pair: (seconds, 0.92 * seconds)))
    monkeypatch.setattr("tau_trainer.training.pairs.collector._SLICE_S", 0.001)
    plain = plain_settings(tmp_path, "Basic", behaviors__TauAgent__max_steps=64)
    task = tau_settings(tmp_path, tau__pairs=1, tau__evaluate=False, behaviors__TauAgent__max_steps=64)
    train(plain if command == "learn" else task, memory, command)
    advice = [event.message or "" for event in memory.events if event.kind == "advice"]
    assert [text.startswith("The game takes 92% of the time: --num-envs 4") for text in advice] == [True] * said
