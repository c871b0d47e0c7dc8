"""``log.jsonl``: one JSON object on each line, complete even after a kill, for plots and other programs."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from tau_trainer.files import parse_json
from tau_trainer.metrics.recorder import Recorder
from tau_trainer.metrics.snapshot import RunReport, RunSnapshot
from tau_trainer.metrics.summary import Event, Statistics, Summary
from tau_trainer.shown import shown
from tau_trainer.specs import Json

FILE_NAME = "log.jsonl"
_SNAPSHOT_S = 1.0
"""Seconds between two lines of type ``snapshot``."""
SCHEMA = 1
"""Version of these lines and of ``status.json``, described in docs/output.md.

It rises when a field is removed or changes its meaning; new fields, types and kinds do not raise it."""


class JsonRecorder(Recorder):
    """Writes summaries, events and the result, each on a line."""

    def on_summary(self, summary: Summary) -> None:
        """Write a line of type ``summary``."""
        pairs = {pair: {key: known.value for key, known in values.items()} for pair, values in summary.pairs.items()}
        several = {key: known for key, known in summary.statistics.items() if known.count != 1}
        self._write(
            "summary",
            time=round(summary.time, 3),
            elapsed=round(summary.elapsed_s, 3),
            behavior=summary.behavior,
            step=summary.step,
            decisions_per_second=round(summary.decisions_per_second, 3),
            eta=summary.eta_s,
            training=summary.training,
            values=summary.values,
            statistics={key: _statistics_record(known) for key, known in several.items()},
            pairs=pairs,
        )

    def on_event(self, event: Event) -> None:
        """Write a line of type ``event``, with the event's own ``fields``."""
        times = {"time": round(event.time, 3), "elapsed": round(event.elapsed_s, 3)}
        self._write("event", **times, kind=event.kind, fields=dict(event.fields))

    def on_result(self, result: RunReport) -> None:
        """Write a line of type ``result``, without the content of evaluation.json."""
        scores = {name: result.score(name) for name in ("reward", "accuracy", "accuracy_train")}
        behaviors = [{**asdict(each), "games": [games.record for games in each.games]} for each in result.behaviors]
        left = {**_fields(result, *_LEFT), "behaviors": behaviors}
        self._write("result", **_fields(result, *_ENDED), **scores, **left)

    def _write(self, kind: str, /, **fields: Any) -> None:
        self._put(to_line({"type": kind, "schema": SCHEMA, **fields}))

    @abstractmethod
    def _put(self, line: str) -> None: ...


class JsonLines(JsonRecorder):
    """Appends lines to a file, and flushes after each.

    If a kill has cut the last line, the next start ends it with a line break, so that it damages no other line.
    """

    keeps = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: TextIO | None = None

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _put(self, line: str) -> None:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            torn = _ends_torn(self.path)
            self._file = self.path.open("a", encoding="utf-8", newline="\n")
            if torn:
                self._file.write("\n")
        self._file.write(line)
        self._file.flush()


class JsonStream(JsonRecorder):
    """Writes the same lines to a stream (``--json``), and at most one ``snapshot`` line a second."""

    shows = True

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next_snapshot = -math.inf

    def on_snapshot(self, snapshot: RunSnapshot) -> None:
        """Write a line of type ``snapshot``, unless one was written less than a second ago."""
        if snapshot.elapsed_s >= self._next_snapshot:
            self._next_snapshot = snapshot.elapsed_s + _SNAPSHOT_S
            pairs = [_fields(pair, *_PAIR) for pair in snapshot.pairs]  # what changes during training
            self._write("snapshot", **{**asdict(snapshot), "pairs": pairs})

    def _put(self, line: str) -> None:
        self._stream.write(line)
        self._stream.flush()


_PAIR = (
    "id",
    "state",
    "decisions",
    "mean_reward",
    "mean_group_reward",
    "success_rate",
    "decisions_per_second",
    "error",
)
_ENDED = ("run_id", "command", "outcome", "decisions", "wall_seconds", "decisions_per_second", "verdict")
_LEFT = ("baselines", "behaviors", "models", "files", "errors")


def _fields(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def to_line(record: Json) -> str:
    """One line of strict JSON: NaN and infinity become null, arrays lists, paths text with forward slashes."""
    return shown(json.dumps(_plain(record), ensure_ascii=False, allow_nan=False, separators=(",", ":"))) + "\n"


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """Every whole record of a log, oldest first; lines that a kill cut short are skipped. A missing file is empty."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                record = parse_json(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record


def _statistics_record(statistics: Statistics) -> dict[str, Any]:
    record = _fields(statistics, "count", "mean", "std", "min", "max")
    if statistics.non_finite:
        record["non_finite"] = statistics.non_finite
    if statistics.histogram is not None:
        record["histogram"] = {"edges": statistics.histogram.edges, "counts": statistics.histogram.counts}
    return record


def _plain(value: Any) -> Any:
    """The value in JSON's own types."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case np.ndarray() | np.generic():
            return _plain(value.tolist())
        case list() | tuple() | set() | frozenset():
            return [_plain(item) for item in value]
        case Path():
            return value.as_posix()
        case _ if is_dataclass(value) and not isinstance(value, type):
            return _plain(asdict(value))
        case _:
            return str(value)


def _ends_torn(path: Path) -> bool:
    """Whether the file exists and its last byte is not a line break."""
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) != b"\n"
