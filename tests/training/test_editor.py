"""Play is stopped in the Unity editor and pressed again. The headless engine stands for the editor."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.envs import engines
from tau_trainer.metrics import PairState
from tau_trainer.runs.session import Session
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tau_trainer.training.pairs.parallel import ParallelTrainer
from tests.bridge.conftest import free_port
from tests.training.fakes import WAIT_S, Memory, begin, settings_from, until
from tests.training.guests import BASIC, guests, hello_and_exit

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a process cannot be asked to end there")

SHOWN = BehaviorSpec("Basic?team=0", (ObservationSpec("vector", (5,)),), ActionSpec(0, (3,)))
SAID = "the Unity editor stopped the game; press Play to continue the run, or Ctrl-C to end it"
Play = Callable[[], subprocess.Popen[bytes]]


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    """Where an editor joins that is not a person's."""
    chosen = free_port()
    monkeypatch.setattr(engines, "EDITOR_PORT", chosen)
    return chosen


def waiting_run(folder: Path, memory: Memory, **overrides: Any) -> Session:
    """A run that waits for the editor."""
    chosen: dict[str, Any] = {"env_settings__timeout_wait": 300, **overrides}
    return begin(settings_from(BASIC, folder, **chosen), memory, "learn")


@pytest.fixture
def press_play(port: int) -> Iterator[Play]:
    """Somebody presses Play in an editor; SIGTERM is Stop."""
    games: list[subprocess.Popen[bytes]] = []

    def play() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tau_trainer.headless", "--scene", "basic", "--mlagents-port", str(port)]
        games.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        return games[-1]

    yield play
    for game in games:
        game.kill()
        game.wait()


def stopped_by_signal(game: subprocess.Popen[bytes]) -> int:
    """Its exit code. Python drops what a signal raises inside a destructor, so it may have to be asked again."""
    for _ in range(30):
        game.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return game.wait(8)
    raise AssertionError("it does not end")


def test_play_is_stopped_and_pressed_again_and_the_run_goes_on(press_play: Play, tmp_path: Path) -> None:
    memory = Memory()
    session = waiting_run(tmp_path, memory, behaviors__Basic__max_steps=1_000_000)
    try:
        game = press_play()
        for turn in (1, 2):
            began = session.status().decisions
            until(lambda began=began: session.status().decisions > began + 200)  # type: ignore[misc]
            assert stopped_by_signal(game) == 0
            until(lambda: session.status().message == "the Unity editor stopped the game")
            until(lambda turn=turn: memory.warnings == [SAID] * turn)  # type: ignore[misc]
            stopped = session.status().decisions
            folders = [path for path in (tmp_path / "run" / "checkpoints").iterdir() if path.is_dir()]
            assert len(folders) == turn, "what was learned is on the disk while nobody plays"
            assert len(list((tmp_path / "run" / "Basic").glob("*.onnx"))) == turn
            if turn == 1:
                game = press_play()
                until(lambda stopped=stopped: session.status().decisions > stopped)  # type: ignore[misc]
                assert session.status().message is None
                assert session.status().pairs[0].state is PairState.TRAINING
    finally:
        session.cancel()  # Ctrl-C while nobody plays
    report = session.wait(WAIT_S)
    assert (report.outcome, report.exit_code) == ("cancelled", 0)
    assert report.decisions == stopped, "the second game went on counting"
    assert report.models == (tmp_path / "run" / "Basic.onnx",)
    assert report.models[0].is_file()


def test_an_editor_that_dies_in_the_handshake_is_waited_for(port: int, tmp_path: Path) -> None:
    """Before anything was played, and after a game that nothing was learned from: the run and its folder stay."""
    memory = Memory()
    session = waiting_run(tmp_path, memory)
    died = "the Unity editor closed the connection (crashed or was killed?)"

    def waits(times: int) -> None:
        until(lambda: len(memory.warnings) == times and session.status().message == died)
        assert memory.warnings[-1] == f"{died}; press Play to continue the run, or Ctrl-C to end it"

    try:
        with guests() as join:
            hello_and_exit(port)
            waits(1)
            join(port, SHOWN).told(20, "die").start()
            waits(2)
            hello_and_exit(port)
            waits(3)
            assert (tmp_path / "run").is_dir()
            join(port, SHOWN).told("play").start()
            report = session.wait(WAIT_S)
    finally:
        session.cancel()
    assert (report.outcome, report.exit_code, report.decisions >= 1000) == ("completed", 0, True)


def test_play_is_paused_for_longer_than_a_message_may_take(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run says what it waits for, goes on with the game, and can be ended meanwhile."""
    monkeypatch.setattr(ParallelTrainer.cancel, "__defaults__", (0.5,))
    memory = Memory()
    silence = "the Unity editor has played no step for 2 s"
    with guests() as join:
        game = join(port, SHOWN)
        game.start()
        long = {"behaviors__Basic__max_steps": 1_000_000}
        session = waiting_run(tmp_path, memory, **long, env_settings__timeout_wait=2)
        try:
            for turn in (1, 2):
                game.told(100)  # and then it stands still
                until(lambda turn=turn: session.status().decisions >= 100 * turn)  # type: ignore[misc]
                until(lambda: session.status().message == silence)
                told = f"{silence}; if it is paused, continue it to continue the run, or press Ctrl-C to end it"
                until(lambda told=told, turn=turn: memory.warnings == [told] * turn)  # type: ignore[misc]
        finally:
            session.cancel()
        report = session.wait(WAIT_S)
    assert (report.outcome, report.exit_code) == ("cancelled", 0)
