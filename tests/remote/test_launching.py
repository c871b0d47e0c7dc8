from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.remote import forking, launching
from tau_trainer.remote.launching import Launched, launch
from tests.waiting import HANG_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
WORK = "tests.remote.work"
BOTH = pytest.mark.parametrize("forks", [True, False])


@pytest.fixture(autouse=True)
def _nothing_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else this process has started, a test is about its own."""
    monkeypatch.setattr(launching, "_launched", 0)


@contextlib.contextmanager
def launched(*arguments: str, **how: Any) -> Iterator[tuple[Launched, dict[str, Any]]]:
    with tempfile.TemporaryFile() as errors:
        started = launch(WORK, arguments, errors=errors, **how)
        try:
            started.sink.write(b"hello\n")
            started.sink.flush()
            yield started, json.loads(started.source.readline())
        finally:
            started.process.kill()
            started.process.wait()
            started.sink.close()
            started.source.close()


@BOTH
def test_what_a_process_is_given(forks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same whichever way it was started."""
    monkeypatch.setattr(forking, "POSSIBLE", forks)
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    with open(os.devnull, "rb") as shared:
        monkeypatch.setenv("TAU_TEST", "it")
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
        monkeypatch.chdir(tmp_path)
        how: dict[str, Any] = {"shared": [shared.fileno()], "several": True}
        try:
            with launched("end", "two words", **how) as (started, data):
                assert started.process.wait(HANG_S) == 7
                assert data["forked"] == forks
                assert data["arguments"] == ["two words"]
                assert data["folder"] == str(tmp_path)
                assert data["variable"] == "it"
                assert str(tmp_path / "modules") in data["paths"]
                assert data["ignored"] == []
                assert data["blocked"] == [int(signal.SIGTERM)]
                assert {0, 1, 2, shared.fileno()} <= set(data["files"])
                assert data["heard"] == "hello\n"
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@BOTH
def test_how_a_process_ends(forks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forking, "POSSIBLE", forks)
    with launched("raise", several=True) as (started, _):
        assert started.process.wait(HANG_S) == 1
    with launched("wait", several=True) as (started, _):
        assert started.process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            started.process.wait(0.01)
        os.kill(started.process.pid, 0)
        started.process.send_signal(signal.SIGTERM)
        assert started.process.wait(HANG_S) == -signal.SIGTERM
        assert started.process.poll() == -signal.SIGTERM
        started.process.kill()


def test_the_first_process_is_started_and_the_second_forked() -> None:
    """A server would only cost time and memory where there is one process."""
    assert [_forked(), _forked()] == [False, True]


def _forked() -> bool:
    with launched("end") as (_, data):
        return bool(data["forked"])


def test_variables_that_libraries_read_at_their_start_take_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of torch are counted when it is loaded, which the server has done."""
    before = os.environ["OMP_NUM_THREADS"]
    for threads in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        if threads != before:  # MKL has a say too: by a variable of its own, or by how many cores there are
            monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
            monkeypatch.setenv("MKL_DYNAMIC", "FALSE")
        with launched("torch", several=True) as (_, data):
            assert data["forked"] == (threads == before)
            assert data["threads"] == int(threads)


def test_what_is_too_much_for_a_packet_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    for part in range(4):  # one variable alone may not be as large as that, on Linux
        monkeypatch.setenv(f"TAU_TEST_{part}", "x" * (forking.MOST_BYTES // 4))
    with launched("end", several=True) as (_, data):
        assert not data["forked"]
