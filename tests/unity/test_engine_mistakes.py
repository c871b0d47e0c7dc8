"""The C# engine's mistakes: each gets one sentence and exit code 2, before any trainer waits for the engine."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

import pytest

DATA_FILE = Path(__file__).parents[2] / "tau_trainer" / "tau" / "data" / "tau.json"
WAIT = 20.0
PORT = ("--mlagents-port", "9")
MISTAKES = {
    "no port": ((), "No trainer to connect to; give its port with `--mlagents-port N`."),
    "no number": (("--mlagents-port", "x"), "--mlagents-port: 'x' is not a whole number from 1 to 65535"),
    "no value": (("--mlagents-port",), "--mlagents-port: expected one argument"),
    "patience": ((*PORT, "--connect-seconds", "-1"), "--connect-seconds: '-1' is not a number"),
    "pairs": ((*PORT, "--tau-pairs", "0"), "--tau-pairs: '0' is not a whole number from 1"),
    "profile": ((*PORT, "--tau-profile=tau4"), "--tau-profile: invalid choice: 'tau4'"),
    "columns": ((*PORT, "--tau-columns", "4"), "`columns` is 4, but profile `tau3` has the columns 1 to 3."),
    "scene": ((*PORT, "--tau-scene", "balance"), "--tau-scene: `balance` needs Unity"),
    "no such data": ((*PORT, "--tau-data", "nowhere.json"), "nowhere.json"),
    "no log": ((*PORT, "-logFile", "/dev/null/Player.log"), "The log file `/dev/null/Player.log` cannot be written"),
}


def run_engine(build: Path, *flags: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(build), "--tau-data", str(DATA_FILE), *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT, cwd=folder, check=False)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gets_one_sentence_and_exit_2(engine_build: Path, tmp_path: Path, name: str) -> None:
    flags, words = MISTAKES[name]
    done = run_engine(engine_build, *flags, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("error: ")
    assert words in sentence


def test_a_mistake_stands_in_the_log_file(engine_build: Path, tmp_path: Path) -> None:
    log = tmp_path / "deep" / "Player-0.log"
    done = run_engine(engine_build, "-logFile", str(log), *PORT, "--tau-pairs", "many")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
    (line,) = log.read_text("utf-8").splitlines()
    assert "error: --tau-pairs: 'many' is not a whole number" in line


def test_without_a_data_set_the_sentence_says_how_to_name_one(engine_build: Path) -> None:
    command = [str(engine_build), *PORT]
    environment = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT, env=environment, check=False)
    assert done.returncode == 2
    assert "There is no data set" in done.stderr
    assert "--tau-data" in done.stderr
    assert "TAU_DATA" in done.stderr


def test_nobody_listens(engine_build: Path) -> None:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
        done = run_engine(engine_build, "--mlagents-port", str(port), "--connect-seconds", "0.1")
    assert done.returncode == 2
    sentence = f"error: No trainer listens on localhost:{port}; start it first, or give its port with --mlagents-port."
    assert done.stderr.splitlines()[1:] == [sentence]


def test_a_trainer_that_comes_late_is_waited_for(engine_build: Path) -> None:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
        command = [str(engine_build), "--mlagents-port", str(port), "--tau-data", str(DATA_FILE)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            time.sleep(0.6)  # the engine tries, and nobody listens
            assert process.poll() is None
            place.listen()
            link, _ = place.accept()
            link.close()
            _, log = process.communicate(timeout=WAIT)
    assert "the trainer is gone" in log
    assert process.returncode == 0
