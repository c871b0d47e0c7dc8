from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tau_trainer.errors import SettingsError
from tau_trainer.headless.build import write_build
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from pathlib import Path

    from tests.headless.conftest import FakeTrainer

posix = pytest.mark.skipif(sys.platform == "win32", reason="a shell script")


@posix
def test_the_launcher_plays_in_a_hostile_environment(tmp_path: Path, trainer: FakeTrainer) -> None:
    """Started by a process that runs another Python, from another folder, with a module in the way."""
    path = write_build(tmp_path / "a build's folder", "basic", ["--agents", "3"], platform="linux")
    assert path.name == "basic.x86_64"
    (tmp_path / "numpy.py").write_text("raise ImportError('not this one')")
    environment = os.environ | {
        "PYTHONHOME": str(tmp_path),
        "PYTHONPATH": str(tmp_path),
        "PYTHONSTARTUP": "x",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
    }
    log = tmp_path / "Player-0.log"
    process = subprocess.Popen(
        [path, "-nographics", "-batchmode", "--mlagents-port", str(trainer.port), "-logFile", log],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        trainer.handshake()
        _, batch = trainer.steps()
        assert len(batch) == 3
        assert batch.behavior == "Basic?team=0"
        process.terminate()
        assert trainer.receive().status == 400, "the signal reaches the engine itself"
        trainer.close()
        _, stderr = process.communicate(timeout=HANG_S)
        assert process.returncode == 0, stderr
        assert "playing basic with 3 agents" in log.read_text("utf-8")
    finally:
        process.kill()


def test_macos_gets_a_bundle(tmp_path: Path) -> None:
    path = write_build(tmp_path, "tau", ["--tau-profile", "tau384"], platform="darwin")
    assert path.name == "tau.app"
    program = path / "Contents" / "MacOS" / "tau"
    assert os.access(program, os.X_OK)
    assert '--scene tau --tau-profile tau384 "$@"' in program.read_text("utf-8")


def test_windows_gets_a_batch_file(tmp_path: Path) -> None:
    path = write_build(tmp_path, "balance", ["--agents", "7", "--report-file", "100% & more.jsonl"], platform="win32")
    assert path.name == "balance.bat"
    text = path.read_bytes().decode("utf-8")
    assert text.startswith("@echo off\r\n")
    assert '--scene balance --agents 7 --report-file "100%% & more.jsonl" %*\r\n' in text


def test_an_earlier_launcher_is_replaced(tmp_path: Path) -> None:
    first = write_build(tmp_path, "balance", platform="linux")
    second = write_build(tmp_path, "balance", ["--agents", "2"], platform="linux")
    assert first == second
    assert "--agents 2" in second.read_text("utf-8")


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="unknown scene `chess`"):
        write_build(tmp_path, "chess")
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="choose another folder"):
        write_build(tmp_path / "file", "basic")
