"""``status.json``: the current state of a run, for other processes and machines."""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from typing_extensions import override

from tau_trainer.errors import DataError
from tau_trainer.files import atomic_write_text, reason
from tau_trainer.metrics.jsonl import SCHEMA
from tau_trainer.metrics.recorder import Recorder
from tau_trainer.metrics.snapshot import RunReport, RunSnapshot
from tau_trainer.metrics.timers import Clock

FILE_NAME = "status.json"
EVERY_S = 2.0
"""Seconds between two writes."""
SILENT_S = 15.0
"""Seconds without a write after which an unfinished run counts as dead or suspended."""


@dataclass(frozen=True, slots=True)
class Status:
    """The last state that a run wrote."""

    told: float
    """Time of writing, in seconds since 1970."""
    host: str
    pid: int
    outcome: str | None
    """Outcome of the run; None: it is still running."""
    run: RunSnapshot
    schema: int = SCHEMA
    """Version of this file's fields; files of earlier versions have none."""

    def sentence(self, now: float) -> str:
        """Age of the state in seconds; ``now``: seconds since 1970."""
        where, age = f"process {self.pid} on {self.host}", max(0.0, now - self.told)
        if self.outcome is not None:
            return f"{self.outcome}, {_span(age)} ago"
        if age < SILENT_S:
            return f"seen {_span(age)} ago, {where}"
        return f"nothing heard for {_span(age)}: {where} was killed or stopped; resume a killed run with --resume"


def _span(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def read_status(path: Path) -> Status:
    """Read the file. Raises DataError."""
    try:
        return TypeAdapter(Status).validate_json(path.read_bytes())
    except OSError as error:
        raise DataError(f"'{path}' cannot be read ({reason(error)})") from error
    except ValidationError as error:
        raise DataError(f"'{path}' was not written by this version of Tau Trainer; resume the run with it") from error


class StatusFile(Recorder):
    """Writes it, every :data:`EVERY_S` seconds and at the end."""

    def __init__(self, path: Path, clock: Clock = time.time) -> None:
        self._path, self._clock = path, clock
        self._next = 0.0
        self._newest: RunSnapshot | None = None

    @override
    def on_snapshot(self, snapshot: RunSnapshot) -> None:
        self._newest = snapshot
        if self._clock() >= self._next:
            self._write(None)

    @override
    def on_result(self, result: RunReport) -> None:
        self._write(result.outcome)

    def _write(self, outcome: str | None) -> None:
        if self._newest is None:
            return
        self._next = self._clock() + EVERY_S
        status = Status(self._clock(), platform.node(), os.getpid(), outcome, self._newest)
        atomic_write_text(self._path, json.dumps(asdict(status), indent=1))
