"""The common part of experiment trackers: a thread, and one tracked run for all sessions of a run."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from textwrap import shorten
from typing import Any, ClassVar

from pydantic import BaseModel

from tau_trainer.errors import SettingsError, TauError
from tau_trainer.files import atomic_write_json
from tau_trainer.metrics.recorder import Recorder
from tau_trainer.metrics.snapshot import RunReport, RunSnapshot
from tau_trainer.metrics.summary import Event, Summary
from tau_trainer.metrics.tensorboard import flattened, folder_name, scalars

_log = logging.getLogger(__name__)
PROJECT = "tau-trainer"
"""Default name of MLflow's experiment and of the project at Weights & Biases."""
_RETRY_S = 30.0
"""Seconds from a failed delivery to the next try."""
_LAST_S = 30.0
"""What is left when a run ends may take so long where the service answers, else :data:`_LOST_S`."""
_LOST_S = 5.0
_LONGEST = 400
"""Maximum number of characters of a library's message."""
_MOST_WAITING = 10_000
"""Maximum number of summaries that wait for a service; beyond it, the oldest are dropped."""


def said(error: Exception) -> str:
    """A library's message, on one line."""
    return shorten(str(error), _LONGEST) or type(error).__name__


class Tracker(Recorder):
    """Passes summaries and the end of a run to a service, in its own thread, so that training never waits for it.

    A failed delivery is reported once and tried again until the run ends. The service's own name of the run is kept
    in the run's folder, so that a resumed run is tracked as the same one; ``--force`` starts another.

    Args:
        settings: of the run, which become its parameters.
        folder: of the run.

    Raises:
        SettingsError: the package that it needs is not installed, or cannot be used.
    """

    name: ClassVar[str]
    """Its name in ``recorders``, which is also the extra that installs its package."""

    def __init__(self, settings: BaseModel, folder: Path) -> None:
        self.folder = folder
        dumped = settings.model_dump(mode="json")
        self.parameters: dict[str, Any] = {key: value for key, value in flattened(dumped) if value is not None}
        """Settings by keys with dots."""
        try:
            self.connect()
        except ImportError as error:
            raise self._missing(str(error)) from error
        self._waiting: deque[Summary | RunReport] = deque(maxlen=_MOST_WAITING)
        self._changed = threading.Condition()
        self._failure: Exception | None = None
        self._lost, self._closing = "", False
        self._thread: threading.Thread | None = None

    @classmethod
    def check_installed(cls) -> None:
        """Raises SettingsError if the package is missing; imports nothing."""
        if find_spec(cls.name) is None:
            raise cls._missing(f"No module named '{cls.name}'")

    @classmethod
    def _missing(cls, why: str) -> SettingsError:
        return SettingsError(
            f"recorders: {cls.name} is not installed: pip install 'tau-trainer[{cls.name}]' ({why}), "
            "or take it out of recorders"
        )

    # The service's part: always called in the same thread, and tried again after any error.

    @abstractmethod
    def connect(self) -> None:
        """Import the package, in the caller's thread, without a request to a server."""

    @abstractmethod
    def begin(self, known: str | None) -> str:
        """Start a tracked run, or resume the one named ``known``; returns its name."""

    @abstractmethod
    def write(self, values: Mapping[str, float], behavior: str, step: int, time: float) -> None:
        """Send scalars of a behavior at ``step``; names start with the behavior. ``time``: seconds since 1970."""

    @abstractmethod
    def end(self, outcome: str, files: list[Path]) -> None:
        """Send files, and end the tracked run; ``outcome`` as in :class:`RunReport`."""

    # Called by the hub.

    def on_summary(self, summary: Summary) -> None:
        """Queue its scalars."""
        self._queue(summary)

    def on_event(self, event: Event) -> None:
        """Raise the error of a failed delivery."""
        self._tell()

    def on_snapshot(self, snapshot: RunSnapshot) -> None:
        """Raise the error of a failed delivery."""
        self._tell()

    def on_result(self, result: RunReport) -> None:
        """Queue the run's end."""
        self._queue(result)

    def close(self) -> None:
        """Deliver the rest, but do not wait for a service that does not answer."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_LOST_S if self._lost else _LAST_S)
            if left := len(self._waiting):  # the hub no longer receives warnings
                run = f"the run in '{self.folder}': {self._lost or f'it took more than {_LAST_S:.0f} s'}"
                _log.warning("%s has not taken the last %d records of %s", self.name, left, run)

    def _tell(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _queue(self, item: Summary | RunReport) -> None:
        with self._changed:
            self._waiting.append(item)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=f"tau-{self.name}", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        self._tell()

    # Called in the tracker's thread.

    def _work(self) -> None:
        begun, ended = False, False
        while not ended:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or bool(self._waiting))
                item = self._waiting[0] if self._waiting else None
                last = self._closing
            try:
                begun = begun or self._begin()
                self._deliver(item)
            except Exception as error:
                self._failed(error)
                if last:
                    return
                continue
            self._lost, ended = "", item is None or isinstance(item, RunReport)
            with self._changed:
                if self._waiting and self._waiting[0] is item:
                    self._waiting.popleft()

    def _failed(self, error: Exception) -> None:
        """Keep the error to report it, and wait for the next try, or for the last one."""
        with self._changed:
            if not self._lost:
                self._failure = TauError(f"{said(error)}; it is tried again until the run ends")
            self._lost = said(error)
            self._changed.wait_for(lambda: self._closing, _RETRY_S)

    def _begin(self) -> bool:
        file, known = self.folder / f"{self.name}.json", None
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            known = str(json.loads(file.read_text(encoding="utf-8"))["run"])
        name = self.begin(known)
        if name != known:
            atomic_write_json(file, {"run": name})
        return True

    def _deliver(self, item: Summary | RunReport | None) -> None:
        """``None``: the run has ended without a report."""
        if isinstance(item, Summary):
            behavior = folder_name(item.behavior)
            named = {f"{behavior}/{key}": value for key, value in scalars(item).items()}
            self.write(named, behavior, item.step, item.time)
        elif isinstance(item, RunReport):
            kept = [self.folder / "configuration.yaml", *item.models]
            kept += [path for key, path in item.files.items() if key != "log" and path not in kept]
            self.end(item.outcome, [path for path in kept if path.is_file()])
        else:
            self.end("failed", [])
