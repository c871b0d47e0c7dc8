"""``--env attach:MAX``: engines that others start join a run while it goes, one a port, and leave it again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.metrics import PairState
from tests.bridge.conftest import free_port
from tests.training.fakes import WAIT_S, Memory, begin, settings_from, until
from tests.training.guests import BASIC
from tests.waiting import HANG_S

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a process cannot be asked to end there")

Join = Callable[[int], subprocess.Popen[bytes]]


@pytest.fixture
def join() -> Iterator[Join]:
    """Somebody starts a game that joins on a port; SIGTERM lets it say goodbye."""
    games: list[subprocess.Popen[bytes]] = []

    def start(port: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tau_trainer.headless", "--scene", "basic", "--mlagents-port", str(port)]
        games.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        return games[-1]

    yield start
    for game in games:
        game.kill()
        game.wait()


def _settings(folder: Path, **given: Any) -> Any:
    chosen: dict[str, Any] = {"behaviors__Basic__max_steps": 1_000_000, "env_settings__timeout_wait": 300}
    return settings_from(BASIC, folder, **chosen | given)


def _checkpoints(folder: Path) -> list[Path]:
    return [path for path in (folder / "run" / "checkpoints").glob("*") if path.is_dir()]


def test_engines_join_and_leave_while_the_run_goes_on(join: Join, tmp_path: Path) -> None:
    port, memory = free_port(3), Memory()
    settings = _settings(
        tmp_path,
        env_settings__env_path="attach:3",
        env_settings__base_port=port,
        env_settings__max_lifetime_restarts=0,
        behaviors__Basic__max_steps=4000,
    )
    session = begin(settings, memory, "learn")
    try:
        until(lambda: session.status().message == f"no engine has joined on port {port}")
        first = join(port + 1)  # any of them, at any time
        until(lambda: session.status().decisions > 200)
        second = join(port)
        until(lambda: session.status().pairs[0].decisions > 100)
        first.send_signal(signal.SIGKILL)
        until(lambda: len(memory.warnings) == 1)
        played = session.status().decisions
        until(lambda: session.status().decisions > played + 50)
        assert not _checkpoints(tmp_path), "the other plays on, so there is nothing to write down for"
        second.send_signal(signal.SIGTERM)
        until(lambda: len(memory.warnings) == 2)
        assert len(_checkpoints(tmp_path)) == 1
        assert sorted(memory.warnings) == [
            f"engine 0 left; another may join on port {port}",
            f"engine 1 closed the connection (crashed or was killed?); another may join on port {port + 1}",
        ]
        assert second.wait(HANG_S) == 0
        join(port)
        report = session.wait(WAIT_S)
    finally:
        session.cancel()
    assert (report.outcome, report.exit_code, report.decisions >= 4000) == ("completed", 0, True)
    states = {pair.id: (pair.state, pair.restarts) for pair in report.pairs}
    assert states == {0: (PairState.COMPLETED, 0), 1: (PairState.CANCELLED, 0), 2: (PairState.CANCELLED, 0)}
