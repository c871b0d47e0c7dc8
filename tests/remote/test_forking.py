from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.remote import forking
from tau_trainer.remote.forking import NUMBER, Forked, ForkRequest, ForkServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no server elsewhere")


@pytest.fixture
def ends() -> Iterator[tuple[Forked, socket.socket]]:
    """A process as its asker knows it, and where the server tells of it."""
    ours, theirs = socket.socketpair()
    with theirs, ours:
        yield Forked(ours), theirs


def number(value: int) -> bytes:
    return value.to_bytes(NUMBER, "little", signed=True)


def test_first_its_number_is_told_and_then_how_it_ended(ends: tuple[Forked, socket.socket]) -> None:
    process, server = ends
    server.send(number(4321))
    assert process.pid == 4321
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    server.send(number(-15))
    assert process.wait() == -15
    assert process.returncode == process.poll() == -15
    process.kill()  # which is of no matter any more


def test_where_the_server_is_killed_nobody_knows_more_than_that(ends: tuple[Forked, socket.socket]) -> None:
    process, server = ends
    server.close()
    assert process.pid == -1
    assert process.wait() == -signal.SIGKILL


class Unsure:
    """A socket that seems to have something to say."""

    def __init__(self, errors: list[OSError]) -> None:
        self.errors, self._file = errors, os.open(os.devnull, os.O_RDONLY)

    def fileno(self) -> int:
        return self._file

    def recv(self, *_: int) -> bytes:
        raise self.errors.pop(0)

    def close(self) -> None:
        os.close(self._file)
        self._file = -1


def test_what_another_thread_has_heard_is_not_waited_for() -> None:
    status: Any = Unsure([BlockingIOError(), ConnectionResetError()])
    process = Forked(status)
    assert process.poll() is None
    assert process.poll() == -signal.SIGKILL, "a connection that breaks is an end"
    assert status.fileno() == -1
    process._hear(0.0)
    assert not status.errors


def test_variables_of_a_childs_own_may_be_any_but_those_that_are_read_early() -> None:
    ours, theirs = socket.socketpair()
    with theirs, ours:
        server = ForkServer(ours, {"OMP_NUM_THREADS": "1", "HOME": "here", "PYTHONPATH": "a"})
        assert server.suits({"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "2", "PYTHONPATH": "b"})
        for other in ({}, {"OMP_NUM_THREADS": "2"}, {"OMP_NUM_THREADS": "1", "LD_PRELOAD": "x"}):
            assert not server.suits(other)


def test_where_no_server_stays_alive_a_process_is_started_in_another_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[int] = []

    class Dying(ForkServer):
        @classmethod
        def started(cls, environment: Mapping[str, str], paths: Sequence[str]) -> ForkServer:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            theirs.close()
            started.append(ours.fileno())
            return cls(ours, environment)

    monkeypatch.setattr(forking, "_server", None)
    monkeypatch.setattr(forking, "ForkServer", Dying)
    before = sorted(os.listdir("/proc/self/fd"))
    with (tmp_path / "log").open("wb") as errors:
        assert forking.fork(ForkRequest("tests.remote.work", [], {}, tmp_path, []), errors) is None
    assert len(started) == 2, "one that was killed is replaced"
    assert sorted(os.listdir("/proc/self/fd")) == before
