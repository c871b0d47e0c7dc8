"""The engine as a program: exit codes, sentences, start-up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tau_trainer.bridge.codec import encode_reply
from tau_trainer.bridge.protocol import Command
from tau_trainer.headless.main import main
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from pathlib import Path

    from tests.headless.conftest import FakeTrainer

MODULE = (sys.executable, "-m", "tau_trainer.headless")


def test_without_a_port_one_sentence_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scene", "basic"]) == 2
    assert capsys.readouterr().err == "error: the trainer's port is missing; give it with `--mlagents-port N`.\n"


def test_a_wrong_value_is_told_in_the_log_file_too(tmp_path: Path) -> None:
    log = tmp_path / "Player-0.log"
    assert main(["--agents", "none", "-logFile", str(log)]) == 2
    text = log.read_text("utf-8")
    assert "--agents: 'none' is not a whole number from 1 to 1000000" in text
    assert text.count("\n") == 1


def test_a_log_file_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["--mlagents-port", "1", "-logFile", str(tmp_path / "file" / "x.log")]) == 2
    assert "cannot write the log file" in capsys.readouterr().err


def test_nobody_listens(closed_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scene", "basic", "--mlagents-port", str(closed_port), "--connect-seconds", "0.1"]) == 2
    assert f"no trainer listens on localhost:{closed_port}" in capsys.readouterr().err


def test_bad_data_are_found_before_a_trainer_waits(
    tmp_path: Path, closed_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "none.json"
    assert main(["--scene", "tau", "--tau-data", str(missing), "--mlagents-port", str(closed_port)]) == 2
    error = capsys.readouterr().err
    assert "none.json" in error
    assert "connecting" not in error


def test_write_build_leaves_a_launcher(tmp_path: Path) -> None:
    assert main(["--write-build", str(tmp_path / "out"), "--scene", "balance", "--agents", "5"]) == 0
    (launcher,) = (tmp_path / "out").iterdir()
    assert launcher.name.startswith("balance")


def test_no_heavy_library_is_loaded() -> None:
    modules = ", ".join(f"tau_trainer.headless.{name}" for name in ("main", "client", "scenes.tau"))
    heavy = "{'torch', 'pandas', 'scipy', 'matplotlib', 'pydantic', 'rich'}"
    code = f"import sys, {modules}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=HANG_S)
    assert done.stdout.strip() == "[]"


def test_help_names_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    told = capsys.readouterr().out
    for flag in ("-nographics", "--mlagents-port", "-logFile", "--scene", "--fault-once", "--tau-target-sensor"):
        assert flag in told


@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
def test_ctrl_c_says_goodbye_and_exits_0(trainer: FakeTrainer) -> None:
    process = subprocess.Popen(
        [*MODULE, "--scene", "basic", "--mlagents-port", str(trainer.port)], stderr=subprocess.PIPE, text=True
    )
    try:
        trainer.handshake()
        trainer.steps()
        process.send_signal(signal.SIGINT)
        assert trainer.receive().status == 400
        trainer.close()
        _, error = process.communicate(timeout=HANG_S)
        assert process.returncode == 0
        assert "stopped by the user" in error
        assert "Traceback" not in error
    finally:
        process.kill()


def test_a_killed_trainer_leaves_no_engine_behind(trainer: FakeTrainer) -> None:
    process = subprocess.Popen(
        [*MODULE, "--scene", "basic", "--fault", "stall", "--fault-after", "1", "--mlagents-port", str(trainer.port)],
        env=os.environ | {"GRPC_VERBOSITY": "NONE"},
    )
    try:
        trainer.handshake()
        trainer.steps()
        trainer.send(encode_reply(Command.STEP))
        time.sleep(0.3)
        assert process.poll() is None
        trainer.stop()
        assert process.wait(HANG_S) == 0
    finally:
        process.kill()
        process.wait()
