"""What is promised of a run, shown with real engines in processes of their own and the real command line."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tau_trainer import RunReport, RunSettings, load_settings
from tau_trainer.bridge.engine import Engine
from tau_trainer.cli import main
from tau_trainer.metrics import read_log
from tau_trainer.settings import dump_settings
from tests.trainers import tau_train
from tests.training.fakes import begin
from tests.waiting import HANG_S, until

ROOT = Path(__file__).parents[1]
POSIX = pytest.mark.skipif(os.name == "nt", reason="these signals are POSIX's")

SMALL = {
    "summary_freq": 100,
    "hyperparameters.buffer_size": 64,
    "hyperparameters.batch_size": 32,
    "hyperparameters.num_epoch": 1,
    "network_settings.hidden_units": 16,
    "network_settings.num_layers": 1,
}


def settings_of(config: str, results: Path, run_id: str = "run", **overrides: Any) -> RunSettings:
    """A small run of a shipped config; dots of keys are written ``__``."""
    given: dict[str, Any] = {"checkpoint_settings.results_dir": str(results), "checkpoint_settings.run_id": run_id}
    given |= {"env_settings.seed": 7} | {f"behaviors.*.{key}": value for key, value in SMALL.items()}
    given |= {key.replace("__", "."): value for key, value in overrides.items()}
    return load_settings(ROOT / "configs" / config, given)


def tau_settings(results: Path, run_id: str = "run", **overrides: Any) -> RunSettings:
    """Two pairs of four agents."""
    given = {"tau__pairs": 2, "tau__agents": 4, "behaviors__TauAgent__max_steps": 400}
    return settings_of("tau3.yaml", results, run_id, **given | overrides)


def train(settings: RunSettings, command: Any = "parallel") -> RunReport:
    return begin(settings, command=command).wait(HANG_S)


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines that should ask for a decision get half a second; where they start, as long as the settings say."""
    next_message = Engine._next_message

    def wait_less(self: Engine) -> asyncio.Future[bytes]:
        waiting = next_message(self)
        if self.stage == "ask for a decision":
            self._wait.since += 0.5 - self._options.timeout_s
        return waiting

    monkeypatch.setattr(Engine, "_next_message", wait_less)


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    """``tau-train`` in ``folder``, as a shell starts it: for what is said of starts, signals and exit codes."""
    return subprocess.Popen(
        [sys.executable, "-m", "tau_trainer", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of the parameters of every checkpoint of a run, by learner and step.

    After a kill between two learners of a generation the one that was ahead saves that step again, as ``<step>.2``.
    """
    found = {}
    for path in sorted((folder / "checkpoints").glob("*-*")):
        if path.is_dir() and not path.name.startswith("."):  # a kill in the middle of a write leaves its staging folder
            tensors = load_file(path / "tensors.safetensors")
            content = b"".join(tensors[name].tobytes() for name in sorted(tensors))
            found[path.name.partition(".")[0]] = hashlib.sha256(content).hexdigest()
    return found


def test_a_broken_engine_costs_its_own_open_trajectories_only(tmp_path: Path) -> None:
    """One of two engines of four agents crashes. Other faults end in the same way: tests/envs/test_engines.py."""
    once = str(tmp_path / "happened")
    given: dict[str, Any] = {
        "behaviors__3DBall__max_steps": 600,
        "env_settings__env_path": "headless:faulty",
        "env_settings__num_envs": 2,
        "env_settings__env_args": ["--agents", "4", "--fault", "crash", "--fault-after", "20", "--fault-once", once],
    }
    report = train(settings_of("3DBall.yaml", tmp_path / "results", **given), "learn")
    assert Path(once).exists()
    assert (report.outcome, report.exit_code) == ("completed", 0)
    assert sorted(pair.restarts for pair in report.pairs) == [0, 1]
    assert report.decisions >= 600
    records = [record for record in read_log(report.folder / "log.jsonl") if record.get("kind") == "warning"]
    assert len([one for one in records if "starting it again" in one["fields"]["message"]]) == 1


# --- what a run leaves ------------------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_a_whole_run_that_learns_on_an_accelerator(tmp_path: Path) -> None:
    report = train(tau_settings(tmp_path, torch_settings__device="cuda"))
    assert (report.outcome, report.exit_code) == ("completed", 0)
    assert report.evaluation is not None
    resumed = tau_settings(tmp_path, checkpoint_settings__resume=True, behaviors__TauAgent__max_steps=800)
    assert train(resumed).decisions == 800, "on the CPU, from what the accelerator saved"


def test_a_whole_run_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(dump_settings(tau_settings(tmp_path / "results")))
    with tau_train(tmp_path, "parallel", "small.yaml") as process:
        shown, errors = process.communicate(timeout=HANG_S)
    assert (process.returncode, errors) == (0, "")
    run = tmp_path / "results" / "run"
    names = {path.name for path in run.iterdir()}
    assert names == {
        "configuration.yaml", "run.json", "log.jsonl", "checkpoints", "run_logs", "TauAgent", "TauAgent.onnx",
        "evaluation.json", "learning_curve.png", "status.json",
    }  # fmt: skip
    evaluation = json.loads((run / "evaluation.json").read_text())
    assert evaluation["decisions"] == 400
    assert f"{100 * evaluation['accuracy']:.1f} %" in shown
    assert load_settings(run / "configuration.yaml") == load_settings(tmp_path / "small.yaml")
    assert json.loads((run / "run.json").read_text())["command"][:2] == ["tau-train", "parallel"]
    reader = EventAccumulator(str(run / "TauAgent")).Reload()
    assert {
        "Losses/Policy Loss", "Losses/Value Loss", "Policy/Entropy", "Policy/Learning Rate", "Policy/Epsilon",
        "Policy/Beta", "Policy/Extrinsic Value Estimate", "Tau/Mean Reward",
        "Pair 0/Mean Reward", "Pair 1/Mean Reward", "Validation/Accuracy", "Perf/Policy Age",
    } <= set(reader.Tags()["scalars"])  # fmt: skip
    logs = sorted(path.name for path in (run / "run_logs").iterdir())
    assert logs == ["Player-0.log", "Player-1.log", "timers.json", "training_status.json"]


@POSIX
@pytest.mark.slow
def test_killed_and_resumed_is_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    """Two pairs, each with a policy of its own; the kill may come between the checkpoints of both."""
    options: dict[str, Any] = {
        "tau__policy": "independent",
        "collection__deterministic": True,
        "behaviors__TauAgent__max_steps": 800,
        "behaviors__TauAgent__checkpoint_interval": 100,
        "behaviors__TauAgent__keep_checkpoints": 0,
    }
    whole = train(tau_settings(tmp_path, "whole", **options))
    slow = tau_settings(tmp_path, "cut", **options, env_settings__env_args=["--step-ms", "10"])
    (tmp_path / "cut.yaml").write_text(dump_settings(slow))
    folder = tmp_path / "cut"
    with tau_train(tmp_path, "parallel", "cut.yaml", "--quiet") as process:
        until(lambda: len(hashes(folder)) >= 3 or process.poll() is not None)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    left = hashes(folder)
    assert left.items() < hashes(whole.folder).items()
    logs = list((folder / "run_logs").glob("Player-*.log"))
    until(lambda: any("this engine ends" in log.read_text() for log in logs))
    resumed = train(tau_settings(tmp_path, "cut", **options, checkpoint_settings__resume=True))
    assert hashes(folder) == hashes(whole.folder)
    assert [pair.decisions for pair in resumed.pairs] == [pair.decisions for pair in whole.pairs]


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def endless(folder: Path, *env_args: str, start: Any = tau_train) -> Iterator[Any]:
    """A run that would take hours, once it has made 400 decisions and learned from most of them."""
    overrides: dict[str, Any] = {"env_settings__env_args": list(env_args)}
    overrides["behaviors__TauAgent__max_steps"] = 100_000_000
    overrides["behaviors__TauAgent__summary_freq"] = 40
    (folder / "endless.yaml").write_text(dump_settings(tau_settings(folder / "results", **overrides)))
    with start(folder, "parallel", "endless.yaml", "--quiet") as process:
        log = folder / "results" / "run" / "log.jsonl"
        try:
            until(lambda: any(record.get("step", 0) >= 400 for record in read_log(log)))
            yield process
        finally:
            process.kill()


@POSIX
@pytest.mark.slow
def test_once_finishes_saves_evaluates_and_exports(tmp_path: Path) -> None:
    with endless(tmp_path, start=started) as process:
        process.send_signal(signal.SIGINT)
        shown, errors = process.communicate(timeout=HANG_S)
    assert (process.returncode, errors) == (0, "")
    run = tmp_path / "results" / "run"
    assert list((run / "checkpoints").glob("TauAgent-*"))
    assert (run / "TauAgent.onnx").is_file()
    evaluation = json.loads((run / "evaluation.json").read_text())
    assert shown == ""
    assert evaluation["decisions"] == sum(pair["decisions"] for pair in evaluation["pairs"].values())


@POSIX
@pytest.mark.slow
def test_twice_saves_and_goes(tmp_path: Path) -> None:
    """Engines that have stopped answering hold up the first Ctrl-C for seconds, so that there is time for another."""
    with endless(tmp_path, "--fault", "stall", "--fault-after", "55") as process:
        log = tmp_path / "results" / "run" / "log.jsonl"
        until(lambda: any(record.get("step", 0) >= 440 for record in read_log(log)))  # then both have stalled
        process.send_signal(signal.SIGINT)
        until(lambda: any(record.get("kind") == "note" for record in read_log(log)))  # heard, so another counts
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=HANG_S)
    assert (process.returncode, errors) == (0, "")
    run = tmp_path / "results" / "run"
    assert list((run / "checkpoints").glob("TauAgent-*"))
    made = {path.name for path in run.iterdir()}
    assert not made & {"evaluation.json", "TauAgent.onnx", "learning_curve.png"}


# --- bad input --------------------------------------------------------------------------------------------------------


PROCESS = "unknown key"
"""The others are calls. Mistakes that need neither engines nor files are in tests/cli/test_startup.py."""
FAULTY = ("learn", "3DBall", "--env", "headless:faulty", "--run-id", "run")
CASES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "unknown key": (("parallel", "typo.yaml"), ("batch_sise", "did you mean", "batch_size", "typo.yaml")),
    "port taken": (("parallel", "--pairs", "1", "--base-port", "{port}"), ("{port}", "--base-port")),
    "no certificate": (
        ("parallel", "--listen", "::1", "--tls-cert", "c.pem", "--tls-key", "k.pem"),
        ("--tls-cert c.pem", "check"),
    ),
    "exits at once": ((*FAULTY, "--env-args", "--fault", "exit"), ("exit code 70", "log")),
    "never asks": (
        (*FAULTY, "--timeout-wait", "30", "--env-args", "--fault", "silent"),
        ("no decision", "RequestDecision"),
    ),
    "wrong version": ((*FAULTY, "--env-args", "--fault", "wrong-version"), ("API 2.0.0", "ml-agents")),
}
"""A mistake, and what the sentence about it must hold."""


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def _mistake(folder: Path, name: str, words: list[str], capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, standard output and errors: of a call, or of a process."""
    if name != PROCESS:
        return main(words), *capfd.readouterr()
    with started(folder, *words) as process:
        try:
            out, err = process.communicate(timeout=HANG_S)
        finally:
            process.kill()
    return process.returncode, out, err


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_gets_one_sentence_and_leaves_nothing(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    hurry(monkeypatch)
    words, texts = CASES[name]
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "typo.yaml").write_text("behaviors: {TauAgent: {trainer_type: ppo, hyperparameters: {batch_sise: 3}}}")
    monkeypatch.chdir(folder)
    before = _names(folder)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, out, err = _mistake(folder, name, [word.format(port=port) for word in words], capfd)
    err = err.replace(port, "{port}")
    assert code == 2, err
    lines = err.splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("error: ")
    assert "Traceback" not in err + out
    for text in texts:
        assert text in lines[0]
    kept = {"results", "results/run.failed-start", "results/run.failed-start/Player-0.log"}
    started = "full log is in " in lines[0]
    assert started == (name in ("exits at once", "never asks", "wrong version"))
    after = _names(folder)
    assert after - before == (kept if started else set()), "nothing else is left behind"
    assert after >= before
