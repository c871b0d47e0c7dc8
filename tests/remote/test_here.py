from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tau_trainer.errors import ActorError
from tau_trainer.remote import forking, here
from tau_trainer.remote.here import Here
from tau_trainer.remote.process import Places
from tests.remote.contract import *  # noqa: F403
from tests.remote.contract import Echo, answer, target

pytestmark = pytest.mark.skipif(os.name == "nt", reason="these signals are POSIX's")


@pytest.fixture
def places() -> Places:
    return Here


@pytest.mark.parametrize("forks", [True, False])
def test_it_leaves_signals_to_the_trainer(echo: Echo, forks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forking, "POSSIBLE", forks and forking.POSSIBLE)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    process = echo()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before, "they are blocked for the start alone"
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(process.pid, number)
    assert answer(process, more=2).data["more"] == 2
    if sys.platform == "linux":
        assert Path(f"/proc/{process.pid}/comm").read_text() == "echo\n", "in ps and top"


def test_one_that_is_not_understood_is_given_up(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    process = echo()
    assert answer(process).kind == "hello"
    monkeypatch.setattr(here, "_CLOSE_S", 0.1)
    with pytest.raises(ActorError, match=r"^the echo ended its connection but still runs$"):
        answer(process, "garble")


def test_what_cannot_be_started_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(forking, "POSSIBLE", False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    for log in (None, tmp_path / "log"):
        with pytest.raises(ActorError, match="the echo cannot be started: No such file"):
            Here().launch(target(log=log, lends=True))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_file_stays_open(echo: Echo) -> None:
    echo().end()  # the server that others are forked from is there
    before = len(os.listdir("/proc/self/fd"))
    place = Here(slots=1, weights=2)
    process = place.launch(target(lends=True, slot=0))
    assert answer(process).kind == "hello"
    process.end()
    place.close()
    del place, process
    assert len(os.listdir("/proc/self/fd")) == before
