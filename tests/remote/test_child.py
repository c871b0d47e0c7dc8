from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tau_trainer.remote import forking
from tau_trainer.remote.channel import SharedBytes
from tau_trainer.remote.child import ChildProcess

pytestmark = pytest.mark.skipif(os.name == "nt", reason="these signals are POSIX's")
ECHO = "tests.remote.echo"


def child(log: Path, *arguments: str, several: bool = True) -> ChildProcess:
    return ChildProcess(ECHO, arguments, log, (), several=several)


def say(process: ChildProcess, text: str) -> str:
    process.sink.write(text.encode() + b"\n")
    process.sink.flush()
    return process.source.readline().decode().strip()


@pytest.mark.parametrize("forks", [True, False])
def test_it_speaks_and_leaves_signals_to_the_trainer(
    tmp_path: Path, forks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it prints is in its log, not between the messages."""
    monkeypatch.setattr(forking, "POSSIBLE", forks and forking.POSSIBLE)
    log = tmp_path / "logs" / "Child.log"
    process = child(log)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(process.pid, number)
    assert say(process, "hello") == "hello"
    os.kill(process.pid, 0)
    process.sink.close()
    process.end()
    assert not process.running
    assert process.how() == f"with exit code 0; see {log}: this is printed"
    assert log.read_text() == "this is printed\n"


def test_memory_is_shared(tmp_path: Path) -> None:
    shared = SharedBytes()
    shared.view(4)[:] = b"here"
    process = ChildProcess(ECHO, [shared.place], tmp_path / "log", [shared], several=True)
    assert say(process, "memory") == "here"
    process.kill()
    process.end()
    assert process.how().startswith("by SIGKILL (somebody killed it")
    shared.close()


def test_whoever_does_not_end_in_time_is_killed(tmp_path: Path) -> None:
    process = child(tmp_path / "log")
    assert say(process, "hello") == "hello"
    process.end(0.1)
    assert "by SIGKILL" in process.how()


@pytest.mark.skipif(sys.platform == "win32", reason="signals are blocked on POSIX")
def test_signals_are_blocked_for_the_start_alone(tmp_path: Path) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    process = child(tmp_path / "log")
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
    process.kill()
    process.end()
