from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tau_trainer.metrics import RunReport, read_log
from tau_trainer.training.api import train
from tau_trainer.training.pairs.parallel import ParallelTrainer
from tests.training.fakes import SceneEngine, Stage, begin, tau_settings, until
from tests.waiting import HANG_S


def test_quiet_shows_nothing_but_errors(stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = train(tau_settings(tmp_path), "parallel", terminal="quiet", command_line=["tau-train", "parallel"])
    assert report.verdict is not None
    assert capsys.readouterr() == ("", "")
    assert list((report.folder / "TauAgent").glob("events.out.tfevents.*"))


def harmless(*_: object) -> None:
    """What a signal does before the run takes it, also where the tests run under nohup."""


@pytest.mark.skipif(os.name == "nt", reason="a process cannot send itself these signals there")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signals_cancel_and_are_given_back(stage: Stage, tmp_path: Path, name: str) -> None:
    number = signal.Signals[name]

    async def pause(engine: SceneEngine) -> None:
        await asyncio.sleep(0.002)

    stage.before_step = pause
    before = signal.signal(number, harmless)
    session = begin(tau_settings(tmp_path, behaviors__TauAgent__max_steps=1_000_000))

    def press() -> None:
        until(lambda: session.status().policy_version >= 1 and signal.getsignal(number) is not harmless)
        os.kill(os.getpid(), number)

    presser = threading.Thread(target=press)
    presser.start()
    try:
        report = session.wait_in_foreground()
        presser.join()
        assert report.outcome == "cancelled"
        assert report.evaluation is not None
        assert signal.getsignal(number) is harmless
    finally:
        signal.signal(number, before)


@pytest.mark.skipif(os.name == "nt", reason="there is no such signal")
def test_a_run_under_nohup_outlives_its_terminal(stage: Stage, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        session = begin(tau_settings(tmp_path))
        until(lambda: session.status().decisions > 0)
        os.kill(os.getpid(), signal.SIGHUP)
        assert session.wait_in_foreground().outcome == "completed"
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.skipif(os.name == "nt", reason="a process cannot send itself these signals there")
def test_a_second_signal_does_not_wait_for_engines(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(engine: SceneEngine) -> None:
        await asyncio.sleep(1000 if engine.exchanges > 60 else 0)

    stage.before_step = hang
    monkeypatch.setattr(ParallelTrainer.cancel, "__defaults__", (1000.0,))
    session = begin(tau_settings(tmp_path, behaviors__TauAgent__max_steps=1_000_000))
    cancelled = threading.Semaphore(0)
    cancel = session.cancel

    def noted(*, at_once: bool = False) -> None:
        cancel(at_once=at_once)
        cancelled.release()

    def press() -> None:
        until(lambda: session.status().decisions >= 480)
        for _ in range(2):  # the second one when the first was heard: signals that wait are not counted
            os.kill(os.getpid(), signal.SIGINT)
            assert cancelled.acquire(timeout=HANG_S)

    monkeypatch.setattr(session, "cancel", noted)
    presser = threading.Thread(target=press)
    presser.start()
    report = session.wait_in_foreground()
    presser.join()
    told = [
        record["fields"]["message"] for record in read_log(report.folder / "log.jsonl") if record.get("kind") == "note"
    ]
    assert told == ["saving, evaluating; press again to skip", "saving; evaluation and export are left out"]
    assert report.exit_code == 0
    saved = {path.name for path in report.folder.iterdir()}
    assert saved == {"configuration.yaml", "run.json", "log.jsonl", "checkpoints", "run_logs"}, "nothing else was made"
    assert list((report.folder / "checkpoints").glob("TauAgent-*"))
    assert {how for _, how in stage.ends} == {"killed"}
    assert report.evaluation is None


def test_outside_the_main_thread_signals_are_left_alone(stage: Stage, tmp_path: Path) -> None:
    reports: list[RunReport] = []
    work: Callable[[], None] = lambda: reports.append(begin(tau_settings(tmp_path)).wait_in_foreground())  # noqa: E731
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(HANG_S)
    assert reports[0].outcome == "completed"
