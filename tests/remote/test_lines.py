from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from tau_trainer.remote import forking
from tau_trainer.remote.lines import Elsewhere, ProcessEndedError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="sessions and these signals are POSIX's")
WORK = "tests.remote.asked"


def elsewhere(how: str, limit_s: float | None = None) -> Elsewhere:
    return Elsewhere(WORK, {"how": how}, limit_s=limit_s)


def silent(_: Any) -> None:
    """Nobody wants to know how it goes."""


@pytest.mark.parametrize("forks", [True, False])
def test_progress_comes_before_the_answer(forks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed meanwhile is neither; Ctrl-C at the terminal is for others."""
    monkeypatch.setattr(forking, "POSSIBLE", forks and forking.POSSIBLE)
    told: list[int] = []
    assert elsewhere("counts").run(told.append) == {"sum": 3, "session": True}
    assert told == [0, 1, 2]


def test_it_is_stopped_while_it_works_and_before() -> None:
    work = elsewhere("waits")
    told: list[Any] = []

    def stop(progress: Any) -> None:
        told.append(progress)
        threading.Thread(target=work.stop).start()

    assert work.run(stop) == {"stopped": True}
    assert told == ["waits"]
    before = elsewhere("waits")
    before.stop()
    assert before.run(silent) == {"stopped": True}


def test_what_goes_wrong_is_the_answer() -> None:
    assert elsewhere("refuses").run(silent) == {"error": "this cannot be done; do that"}
    assert elsewhere("breaks").run(silent) == {"error": "internal error: ZeroDivisionError: two lines"}


@pytest.mark.parametrize(
    ("how", "code", "text"),
    [("dies", 3, "ended with exit code 3: out of luck"), ("is killed", -9, "ended with exit code -9: no word")],
)
def test_an_end_without_a_word_is_told(how: str, code: int, text: str) -> None:
    with pytest.raises(ProcessEndedError, match=text) as error:
        elsewhere(how).run(silent)
    assert (error.value.code, error.value.late) == (code, False)


def test_whoever_takes_too_long_is_killed() -> None:
    with pytest.raises(ProcessEndedError, match="exit code -9") as error:
        elsewhere("hangs", limit_s=0.2).run(silent)
    assert error.value.late
