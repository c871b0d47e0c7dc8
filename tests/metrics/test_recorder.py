from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tau_trainer.metrics import Event, Recorder, RunReport, RunSnapshot, Summary
from tau_trainer.metrics.recorder import Dispatcher
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from tests.remembering import Memory


def ignore(recorder: Recorder, error: BaseException) -> None:
    raise AssertionError(f"{recorder} failed: {error}")


def test_nobody_listens_and_no_thread_starts() -> None:
    before = threading.active_count()
    dispatcher = Dispatcher([], ignore)
    dispatcher.put(Event("x", 0.0))
    assert dispatcher.drain(0.0)
    dispatcher.close()
    assert threading.active_count() == before


def test_close_delivers_the_rest_and_ends_the_thread(memory: Memory) -> None:
    before = set(threading.enumerate())
    dispatcher = Dispatcher([memory], ignore)
    for number in range(200):
        dispatcher.put(Event(str(number), 0.0))
    dispatcher.close()
    dispatcher.close()
    dispatcher.put(Event("late", 0.0))
    assert [one.kind for one in memory.events] == [str(number) for number in range(200)]
    assert memory.closed == 1
    assert set(threading.enumerate()) <= before


class Ordered(Recorder):
    """Notes the kinds of what arrives; the first thing waits until it is released."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.release = threading.Event()

    def on_summary(self, summary: Summary) -> None:
        self.release.wait(HANG_S)
        self.order.append(f"summary {summary.step}")

    def on_snapshot(self, snapshot: RunSnapshot) -> None:
        self.order.append(f"snapshot {snapshot.decisions}")

    def on_result(self, result: RunReport) -> None:
        self.order.append("result")


def test_the_newest_snapshot_comes_before_the_result(result: RunReport) -> None:
    recorder = Ordered()
    dispatcher = Dispatcher([recorder], ignore)
    dispatcher.put(Summary("A", 1, 0.0, 0.0))
    dispatcher.put(RunSnapshot("r", "parallel", decisions=1))
    dispatcher.put(Summary("A", 2, 0.0, 0.0))
    dispatcher.put(RunSnapshot("r", "parallel", decisions=2))
    dispatcher.put(result)
    recorder.release.set()
    dispatcher.close()
    assert recorder.order == ["summary 1", "summary 2", "snapshot 2", "result"]


def test_a_warning_from_the_last_item_still_arrives(memory: Memory) -> None:
    """A failure while closing is told to the recorders that work."""

    class Broken(Recorder):
        def on_summary(self, summary: Summary) -> None:
            raise OSError("disk full")

    def report(recorder: Recorder, error: BaseException) -> None:
        dispatcher.put(Event("warning", 0.0, {"message": str(error)}))

    dispatcher = Dispatcher([Broken(), memory], report)
    dispatcher.put(Summary("A", 1, 0.0, 0.0))
    dispatcher.close()
    assert [one.message for one in memory.events] == ["disk full"]
