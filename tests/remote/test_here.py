from __future__ import annotations

import os
import queue
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.errors import ActorError, CheckpointError, LearnerError
from tau_trainer.remote import forking, here
from tau_trainer.remote.here import Here
from tau_trainer.remote.process import STATUS, Message, Process, Target
from tau_trainer.remote.weights import layout_of

pytestmark = pytest.mark.skipif(os.name == "nt", reason="these signals are POSIX's")
Echo = Callable[..., Process]


def target(**options: Any) -> Target:
    given: dict[str, Any] = {"arguments": {}, "name": "the echo", "failure": ActorError, "several": True}
    return Target("tests.remote.echo", **(given | options))


@pytest.fixture
def echo() -> Iterator[Echo]:
    begun: list[Process] = []

    def launch(place: Here | None = None, **options: Any) -> Process:
        begun.append((place or Here()).launch(target(**options)))
        return begun[-1]

    yield launch
    for process in begun:
        process.kill()
        process.end()


def answer(process: Process, kind: str = "hello", **facts: Any) -> Message:
    process.say(kind, facts)
    return process.hear(30.0)


@pytest.mark.parametrize("forks", [True, False])
def test_it_speaks_and_leaves_signals_to_the_trainer(
    tmp_path: Path, echo: Echo, forks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it prints is in its log, not between the messages."""
    monkeypatch.setattr(forking, "POSSIBLE", forks and forking.POSSIBLE)
    log = tmp_path / "logs" / "Child.log"
    process = echo(log=log, arguments={"a": [1]})
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(process.pid, number)
    kind, facts, _ = answer(process, more=2)
    assert (kind, facts.pop("seconds_on_the_way") >= 0.0) == ("hello", True)
    if sys.platform == "linux":
        assert Path(f"/proc/{process.pid}/comm").read_text() == "echo\n", "in ps and top"
    assert facts == {"more": 2, "arguments": {"a": [1]}}
    process.stop()
    process.end()
    assert process.exit_code == 0
    assert process.how() == f"with exit code 0; see {log}: this is printed"
    assert log.read_text() == "this is printed\n"


@pytest.mark.parametrize("lends", [True, False])
def test_arrays_there_and_back(echo: Echo, lends: bool) -> None:
    process, sent = echo(lends=lends), {"x": np.arange(300_000.0), "y": np.array([True])}
    for _ in range(2):
        process.say("hello", {}, sent)
        received = process.hear(30.0).arrays
        assert {name: values.tobytes() for name, values in received.items()} == {
            name: values.tobytes() for name, values in sent.items()
        }


def test_newest_weights_and_status_are_seen_by_processes_that_run_already(echo: Echo) -> None:
    place = Here(seats=2, weights=1)
    place.status[:] = 7
    process = echo(place, seat=1)
    assert place.status.tolist() == [[7] * STATUS, [0] * STATUS]
    arrays = {"w": np.arange(3, dtype=np.float32)}
    newest = place.newest(layout_of(arrays))
    newest.write(arrays, 5, 40)
    _, facts, received = answer(process, "weights", **newest.reference)
    assert (facts["version"], facts["opts"], received["w"].tolist()) == (5, 40, [0.0, 1.0, 2.0])
    answer(process, "status", numbers=[*range(STATUS)])
    assert place.status[1].tolist() == [*range(STATUS)]
    with pytest.raises(IndexError):
        place.newest(layout_of(arrays))
    process.end()
    place.close()
    place.close()


def test_whoever_wants_messages_at_once_gets_them_and_the_end(tmp_path: Path) -> None:
    taken = queue.SimpleQueue[Message]()
    process = Here().launch(target(log=tmp_path / "log"), taken.put)
    process.say("hello")
    assert taken.get(timeout=30.0).kind == "hello"
    process.end()
    last = taken.get(timeout=30.0)
    assert (last.kind, last.facts["how"]) == ("ended", process.how())
    with pytest.raises(ActorError, match=r"the echo ended with exit code 0; see .*: this is printed"):
        process.checked(last)


def test_nothing_is_said_in_time(echo: Echo) -> None:
    process = echo()
    with pytest.raises(TimeoutError):
        process.hear(0.01)
    assert answer(process).kind == "hello"


def test_how_it_failed_and_died_is_raised(echo: Echo) -> None:
    """Without a log the last line that it wrote is told."""
    with pytest.raises(CheckpointError, match=r"^of another network$"):
        answer(echo(), "refuse")
    process = echo(failure=LearnerError)
    with pytest.raises(LearnerError, match=r"^the echo failed: ZeroDivisionError: two$"):
        answer(process, "break")
    for _ in range(2):
        with pytest.raises(LearnerError, match=r"^the echo ended with exit code 1: ZeroDivisionError: two$"):
            process.hear(30.0)
    with pytest.raises(ActorError, match=r"^the echo ended by SIGSEGV: this is printed$"):
        answer(echo(), "die")


def test_one_that_is_not_understood_is_given_up(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    process = echo()
    assert answer(process).kind == "hello"
    monkeypatch.setattr(here, "_CLOSE_S", 0.1)
    with pytest.raises(ActorError, match=r"^the echo ended its connection, and goes on$"):
        answer(process, "garble")


def test_saying_something_to_one_that_has_ended_is_no_error(echo: Echo) -> None:
    process = echo()
    os.kill(process.pid, signal.SIGKILL)
    said = r"^the echo ended by SIGKILL \(somebody killed it; .* memory was short\)"
    with pytest.raises(ActorError, match=said + "(: this is printed)?$"):  # where it came to that
        process.hear(30.0)
    for _ in range(3):
        process.say("hello", {}, {"x": np.zeros(100_000)})


def test_what_would_have_to_be_pickled_is_an_error(echo: Echo) -> None:
    with pytest.raises(ValueError, match="OBJECT"):
        echo().say("hello", {}, {"x": np.array([object()])})


def test_whoever_does_not_end_in_time_is_killed(echo: Echo) -> None:
    process = echo(arguments={"deaf": True})
    process.end(0.1)
    assert "by SIGKILL" in process.how()


def test_what_cannot_be_started_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(forking, "POSSIBLE", False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    for log in (None, tmp_path / "log"):
        with pytest.raises(ActorError, match="the echo cannot be started: No such file"):
            Here().launch(target(log=log, lends=True))


@pytest.mark.skipif(sys.platform == "win32", reason="signals are blocked on POSIX")
def test_signals_are_blocked_for_the_start_alone(echo: Echo) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    echo()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_file_stays_open(echo: Echo) -> None:
    echo().end()  # the server that others are forked from is there
    before = len(os.listdir("/proc/self/fd"))
    place = Here(seats=1, weights=2)
    process = place.launch(target(lends=True, seat=0))
    assert answer(process).kind == "hello"
    process.end()
    place.close()
    del place, process
    assert len(os.listdir("/proc/self/fd")) == before
