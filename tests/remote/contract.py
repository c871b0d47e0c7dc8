"""What every place promises (remote/process.py). Whoever fulfils it imports these tests beside a fixture ``places``."""

from __future__ import annotations

import queue
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
    "test_how_it_failed_and_died_is_raised",
    "test_messages_and_arrays_there_and_back",
    "test_newest_weights_and_status_are_seen_by_all_and_weights_come_before_what_is_said_after_them",
    "test_whoever_does_not_end_in_time_is_killed_and_saying_something_to_it_is_no_error",
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


@pytest.mark.parametrize("lends", [True, False])
def test_messages_and_arrays_there_and_back(tmp_path: Path, echo: Echo, lends: bool) -> None:
    """What it prints is in its log, and not between the messages."""
    log = tmp_path / "logs" / "Child.log"
    process, sent = echo(log=log, arguments={"a": [1]}, lends=lends), {"x": np.arange(3e5), "y": np.array([True])}
    with pytest.raises(TimeoutError):
        process.hear(0.0)
    with pytest.raises(ValueError, match="OBJECT"):  # it would have to be pickled
        process.say("hello", {}, {"x": np.array([object()])})
    for _ in range(2):
        process.say("hello", {"more": 2}, sent)
        kind, data, received = process.hear(HANG_S)
        assert (kind, data.pop("seconds_on_the_way") >= 0.0) == ("hello", True)
        assert data == {"more": 2, "arguments": {"a": [1]}}
        assert {name: values.tobytes() for name, values in received.items()} == {
            name: values.tobytes() for name, values in sent.items()
        }
        assert received["x"].dtype == np.float64
        assert received["x"].flags.writeable, "it is the receiver's own, and keeps nothing elsewhere alive"
    process.stop()
    process.end()
    assert process.exit_code == 0
    assert process.how() == f"with exit code 0; see {log}: this is printed"
    assert log.read_text() == "this is printed\n"


def test_newest_weights_and_status_are_seen_by_all_and_weights_come_before_what_is_said_after_them(
    echo: Echo, places: Places
) -> None:
    """In lock step whoever goes on must act with the weights of that moment."""
    place = places(2, 2)
    place.status[:] = 7
    process = echo(place, slot=1)
    assert place.status.tolist() == [[7] * STATUS, [0] * STATUS]
    answer(process, "status", numbers=[*range(STATUS)])
    assert place.status[1].tolist() == [*range(STATUS)]
    layout = layout_of({"w": np.zeros(2, np.float32)})
    published = [place.newest(layout) for _ in range(2)]
    with pytest.raises(IndexError):
        place.newest(layout)
    for version in range(30):
        for number, newest in enumerate(published):
            newest.write({"w": np.full(2, number, np.float32)}, version, 10 * version)
        process.say("weights", published[1].reference)
        process.say("hello", {"number": version})
    for version in range(30):
        assert process.hear(HANG_S).data["version"] >= version
        assert process.hear(HANG_S).data["number"] == version
    later = echo(place, slot=0)
    for number, newest in enumerate(published):
        _, data, arrays = answer(later, "weights", **newest.reference)
        assert (data["version"], data["opts"], arrays["w"].tolist()) == (29, 290, [number] * 2)
    published[0].tell(300)
    while answer(process, "weights", **published[0].reference).data["opts"] != 300:
        pass
    process.end()
    later.end()
    place.close()
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


def test_whoever_does_not_end_in_time_is_killed_and_saying_something_to_it_is_no_error(echo: Echo) -> None:
    process = echo(arguments={"deaf": True})
    assert process.pid
    process.end(0.1)
    said = rf"^the echo{ON} ended by SIGKILL \(it was killed; .* memory was low\)"
    with pytest.raises(ActorError, match=said + "(: this is printed)?$"):  # where it came to that
        process.hear(HANG_S)
    for _ in range(3):
        process.say("hello", {}, {"x": np.zeros(100_000)})
