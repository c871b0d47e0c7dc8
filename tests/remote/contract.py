"""What every place promises (remote/process.py). Whoever fulfils it imports these tests beside a fixture ``places``."""

from __future__ import annotations

import os
import queue
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.errors import ActorError, CheckpointError, LearnerError
from tau_trainer.remote.process import STATUS, Message, Place, Places, Process, Target
from tau_trainer.remote.weights import layout_of
from tests.waiting import HANG_S

Echo = Callable[..., Process]
ON = r"( on local-\d)?"
"""Where it ran, in a sentence about a node."""
__all__ = [
    "echo",
    "test_arrays_there_and_back",
    "test_how_it_failed_and_died_is_raised",
    "test_messages_keep_their_order_and_weights_come_before_what_is_said_after_them",
    "test_newest_weights_and_status_are_seen_by_processes_that_run_already",
    "test_nothing_is_said_in_time",
    "test_one_that_begins_later_has_the_newest_weights",
    "test_saying_something_to_one_that_has_ended_is_no_error",
    "test_what_it_prints_is_in_its_log",
    "test_what_would_have_to_be_pickled_is_an_error",
    "test_whoever_does_not_end_in_time_is_killed",
    "test_whoever_wants_messages_at_once_gets_them_and_the_end",
]


def target(**options: Any) -> Target:
    given: dict[str, Any] = {"arguments": {}, "name": "the echo", "failure": ActorError, "several": True}
    return Target("tests.remote.echo", **(given | options))


@pytest.fixture
def echo(places: Places) -> Iterator[Echo]:
    """Launches one, at a place of its own where none is given."""
    begun, made = list[Process](), list[Place]()

    def launch(place: Place | None = None, **options: Any) -> Process:
        if place is None:
            place = places(1, 0)
            made.append(place)
        begun.append(place.launch(target(**options)))
        return begun[-1]

    yield launch
    for process in begun:
        process.kill()
        process.end()
    for place in made:
        place.close()


def answer(process: Process, kind: str = "hello", **data: Any) -> Message:
    process.say(kind, data)
    return process.hear(HANG_S)


def test_what_it_prints_is_in_its_log(tmp_path: Path, echo: Echo) -> None:
    """And not between the messages."""
    log = tmp_path / "logs" / "Child.log"
    process = echo(log=log, arguments={"a": [1]})
    kind, data, _ = answer(process, more=2)
    assert (kind, data.pop("seconds_on_the_way") >= 0.0) == ("hello", True)
    assert data == {"more": 2, "arguments": {"a": [1]}}
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
        received = process.hear(HANG_S).arrays
        assert {name: values.tobytes() for name, values in received.items()} == {
            name: values.tobytes() for name, values in sent.items()
        }
        assert received["x"].dtype == np.float64
        assert received["x"].flags.writeable, "it is the receiver's own, and keeps nothing elsewhere alive"


def test_newest_weights_and_status_are_seen_by_processes_that_run_already(echo: Echo, places: Places) -> None:
    place = places(2, 1)
    place.status[:] = 7
    process = echo(place, slot=1)
    assert place.status.tolist() == [[7] * STATUS, [0] * STATUS]
    arrays = {"w": np.arange(3, dtype=np.float32)}
    newest = place.newest(layout_of(arrays))
    newest.write(arrays, 5, 40)
    _, data, received = answer(process, "weights", **newest.reference)
    assert (data["version"], data["opts"], received["w"].tolist()) == (5, 40, [0.0, 1.0, 2.0])
    answer(process, "status", numbers=[*range(STATUS)])
    assert place.status[1].tolist() == [*range(STATUS)]
    newest.tell(50)
    while answer(process, "weights", **newest.reference).data["opts"] != 50:
        pass
    with pytest.raises(IndexError):
        place.newest(layout_of(arrays))
    process.end()
    place.close()
    place.close()


def test_messages_keep_their_order_and_weights_come_before_what_is_said_after_them(echo: Echo, places: Places) -> None:
    """In lock step whoever goes on must act with the weights of that moment."""
    place = places(1, 2)
    process = echo(place, slot=0)
    layout = layout_of({"w": np.zeros(2, np.float32)})
    first, second = place.newest(layout), place.newest(layout)
    for version in range(30):
        for newest in (first, second):
            newest.write({"w": np.full(2, version, np.float32)}, version, version)
        process.say("weights", second.reference)
        process.say("hello", {"number": version})
    for version in range(30):
        assert process.hear(HANG_S).data["version"] >= version
        assert process.hear(HANG_S).data["number"] == version
    process.end()
    place.close()


def test_one_that_begins_later_has_the_newest_weights(echo: Echo, places: Places) -> None:
    place = places(1, 2)
    weights = [place.newest(layout_of({"w": np.zeros(1, np.float32)})) for _ in range(2)]
    for number, newest in enumerate(weights):
        for version in (1, 2, 3):
            newest.write({"w": np.full(1, number, np.float32)}, version, 10 * version)
    process = echo(place, slot=0)
    for number, newest in enumerate(weights):
        _, data, arrays = answer(process, "weights", **newest.reference)
        assert (data["version"], data["opts"], arrays["w"].tolist()) == (3, 30, [number])
    process.end()
    place.close()


def test_whoever_wants_messages_at_once_gets_them_and_the_end(tmp_path: Path, places: Places) -> None:
    taken = queue.SimpleQueue[Message]()
    place = places(0, 0)
    process = place.launch(target(log=tmp_path / "log"), taken.put)
    process.say("hello")
    assert taken.get(timeout=HANG_S).kind == "hello"
    process.end()
    last = taken.get(timeout=HANG_S)
    assert (last.kind, last.data["how"]) == ("ended", process.how())
    with pytest.raises(ActorError, match=rf"the echo{ON} ended with exit code 0; see .*: this is printed"):
        process.checked(last)
    place.close()


def test_nothing_is_said_in_time(echo: Echo) -> None:
    process = echo()
    with pytest.raises(TimeoutError):
        process.hear(0.01)
    assert answer(process).kind == "hello"


def test_how_it_failed_and_died_is_raised(echo: Echo) -> None:
    """Without a log the last line that it wrote is told."""
    with pytest.raises(CheckpointError, match=rf"^(the echo{ON}: )?of another network$"):
        answer(echo(), "refuse")
    process = echo(failure=LearnerError)
    with pytest.raises(LearnerError, match=rf"^the echo{ON} failed: ZeroDivisionError: two$"):
        answer(process, "break")
    for _ in range(2):
        with pytest.raises(LearnerError, match=rf"^the echo{ON} ended with exit code 1: ZeroDivisionError: two$"):
            process.hear(HANG_S)
    with pytest.raises(ActorError, match=rf"^the echo{ON} ended by SIGSEGV: this is printed$"):
        answer(echo(), "die")


def test_saying_something_to_one_that_has_ended_is_no_error(echo: Echo) -> None:
    process = echo()
    os.kill(process.pid, signal.SIGKILL)
    said = rf"^the echo{ON} ended by SIGKILL \(it was killed; .* memory was low\)"
    with pytest.raises(ActorError, match=said + "(: this is printed)?$"):  # where it came to that
        process.hear(HANG_S)
    for _ in range(3):
        process.say("hello", {}, {"x": np.zeros(100_000)})


def test_what_would_have_to_be_pickled_is_an_error(echo: Echo) -> None:
    with pytest.raises(ValueError, match="OBJECT"):
        echo().say("hello", {}, {"x": np.array([object()])})


def test_whoever_does_not_end_in_time_is_killed(echo: Echo) -> None:
    process = echo(arguments={"deaf": True})
    assert process.pid
    process.end(0.1)
    assert "by SIGKILL" in process.how()
