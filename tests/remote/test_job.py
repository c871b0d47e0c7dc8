from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

from tau_trainer.errors import LearnerError, TauError
from tau_trainer.remote.here import Here
from tau_trainer.remote.job import Job
from tau_trainer.remote.process import Target

pytestmark = pytest.mark.skipif(os.name == "nt", reason="these signals are POSIX's")


def job(how: str, limit_s: float | None = None) -> Job:
    target = Target("tests.remote.asked", {"how": how}, "the job", LearnerError, several=True)
    return Job(target, limit_s=limit_s)


def silent(_: Any) -> None:
    """Nobody wants to know how it goes."""


def test_progress_comes_before_the_answer() -> None:
    """What is printed meanwhile is neither."""
    progress: list[dict[str, Any]] = []
    assert job("counts").run(progress.append)["sum"] == 3
    assert [data["at"] for data in progress] == [0, 1, 2]


def test_it_is_stopped_while_it_works_and_before() -> None:
    """Signals do not stop it, those that a terminal sends among them."""
    waits = job("waits")
    heard: list[Any] = []

    def stop(progress: Any) -> None:
        heard.append(progress)
        assert waits.process is not None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(waits.process.pid, number)
        threading.Thread(target=waits.stop).start()

    assert waits.run(stop)["stopped"]
    assert len(heard) == 1
    before = job("waits")
    before.stop()
    assert before.run(silent)["stopped"]


def test_what_goes_wrong_is_raised() -> None:
    with pytest.raises(TauError, match=r"^this cannot be done; do that$") as refused:
        job("refuses").run(silent)
    assert type(refused.value) is TauError
    for how, said in (
        ("breaks", r"^the job failed: ZeroDivisionError: two\nlines$"),
        ("dies", "^the job ended with exit code 3: out of luck$"),
    ):
        with pytest.raises(LearnerError, match=said):
            job(how).run(silent)


def test_whoever_takes_too_long_is_killed() -> None:
    hangs = job("hangs", limit_s=0.2)
    with pytest.raises(TimeoutError):
        hangs.run(silent)
    assert hangs.process is not None
    assert hangs.process.exit_code == -signal.SIGKILL


def test_it_may_be_stopped_by_a_signal_while_it_is_launched() -> None:
    """The handler runs in the thread that launches it, and must not wait for that."""

    class Interrupted(Here):
        def launch(self, target: Target, take: Any = None) -> Any:
            asked.stop()
            return super().launch(target, take)

    target = Target("tests.remote.asked", {"how": "waits"}, "the job", LearnerError, several=True)
    asked = Job(target, place=Interrupted())
    assert asked.run(silent)["stopped"]
