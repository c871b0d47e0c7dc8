"""The contract of recorders, which show, write or forward the hub's numbers, and the thread that calls them.

So no exchange waits for a disk.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from tau_trainer.metrics.snapshot import RunReport, RunSnapshot
from tau_trainer.metrics.summary import Event, Summary

Item = Summary | Event | RunSnapshot | RunReport


class Recorder:
    """Receives all data of the hub, one call at a time, in order, from one thread. This base class ignores it.

    An exception from any of these never stops a run: the hub warns once, through the other recorders, and continues.
    """

    keeps = False
    """Whether it writes files to keep; if it fails, the run has lost data."""

    shows = False
    """Whether it writes to the user's terminal; if it fails, no message can be shown there."""

    def on_summary(self, summary: Summary) -> None:
        """Receive a summary: one for every ``summary_freq`` decisions of a behavior. None is skipped."""

    def on_event(self, event: Event) -> None:
        """Receive an event. None is skipped."""

    def on_snapshot(self, snapshot: RunSnapshot) -> None:
        """Receive the run's current state. If states arrive too fast, only the newest is delivered."""

    def on_result(self, result: RunReport) -> None:
        """Receive the report of the ended run, which comes last."""

    def take(self, item: Item) -> None:
        """Pass an item to the method for its kind."""
        match item:
            case Summary():
                self.on_summary(item)
            case Event():
                self.on_event(item)
            case RunSnapshot():
                self.on_snapshot(item)
            case RunReport():
                self.on_result(item)

    def close(self) -> None:
        """Write the rest, and release files and the terminal."""


Failure = Callable[[Recorder, BaseException], None]
"""Called with the first exception of a recorder, on the dispatcher's thread."""


class Dispatcher:
    """A queue and the thread that empties it.

    Summaries, events and results are delivered in order, each exactly once. Of snapshots, only the newest waits.
    """

    def __init__(self, recorders: Sequence[Recorder], on_failure: Failure) -> None:
        self._recorders = tuple(recorders)
        self._on_failure = on_failure
        self._failed: set[int] = set()
        self._items: deque[Item] = deque()
        self._snapshot: RunSnapshot | None = None
        self._changed = threading.Condition()
        self._busy = False
        self._closing = False
        self._thread: threading.Thread | None = None

    def put(self, item: Item) -> None:
        """Queue an item; returns at once. Ignored after :meth:`close`, and if there are no recorders."""
        with self._changed:
            late = self._closing and threading.current_thread() is not self._thread
            if late or not self._recorders:
                return
            if isinstance(item, RunSnapshot):
                self._snapshot = item
            else:
                self._items.append(item)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tau-metrics", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def drain(self, timeout: float | None = None) -> bool:
        """Wait until all queued items are delivered; False if ``timeout`` seconds were not enough."""
        with self._changed:
            return self._changed.wait_for(self._idle, timeout)

    def close(self, timeout: float | None = 10.0) -> None:
        """Deliver the rest, then close every recorder. Safe to call twice."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout)
        for recorder in self._recorders:
            self._guarded(recorder, recorder.close)

    def _idle(self) -> bool:
        return not (self._items or self._snapshot or self._busy)

    def _run(self) -> None:
        while (item := self._next()) is not None:
            for recorder in self._recorders:
                self._guarded(recorder, partial(recorder.take, item))

    def _next(self) -> Item | None:
        """The next item; None if closed and empty. A snapshot comes after all others except the result."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._closing or bool(self._items) or self._snapshot is not None)
            self._busy = True
            if self._snapshot is not None and (not self._items or isinstance(self._items[0], RunReport)):
                snapshot, self._snapshot = self._snapshot, None
                return snapshot
            if self._items:
                return self._items.popleft()
            self._busy = False
            self._changed.notify_all()
            return None

    def _guarded(self, recorder: Recorder, call: Callable[[], None]) -> None:
        """Report an error once and continue: a recorder's defect or a full disk must not end a run."""
        try:
            call()
        except (Exception, SystemExit) as error:
            if id(recorder) not in self._failed:
                self._failed.add(id(recorder))
                self._on_failure(recorder, error)
