"""TensorBoard recorder: ML-Agents' scalar names, one event file a behavior, without tensorflow and without torch.

An event file is a sequence of records with an ``Event`` message each. Messages and records are the ``tensorboard``
package's own; its writer of event files is not used, because it imports tensorflow wherever that is installed.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from tau_trainer.files import file_name
from tau_trainer.metrics.recorder import Recorder
from tau_trainer.metrics.snapshot import RunReport, RunSnapshot
from tau_trainer.metrics.summary import Event, Histogram, Statistics, Summary
from tau_trainer.specs import Json

FLUSH_SECONDS = 2.0
MOST_PAIRS = 32
"""Maximum number of pairs with scalars of their own."""
TEXT_TAG = "Hyperparameters/text_summary"
"""Tag of the text ``Hyperparameters`` in ML-Agents' writer, which is torch's."""
_file_numbers = itertools.count()


class TensorBoard(Recorder):
    """One event file for each behavior, ``<run>/<Behavior>/events.out.tfevents.*``, made at its first value.

    Step is the number of agent decisions, time is the wall clock. Scalars of single pairs are written as
    ``Pair 3/Mean Reward`` while there are at most :data:`MOST_PAIRS`, so that a run with 200 stays legible.
    """

    keeps = True

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self._files: dict[str, EventFile] = {}

    def on_summary(self, summary: Summary) -> None:
        """Write one scalar for each key, and ``<key>_hist`` for keys with a histogram."""
        values = [_value(key, simple_value=value) for key, value in scalars(summary).items()]
        values += [
            _value(f"{key}_hist", histo=_histogram(statistics, statistics.histogram))
            for key, statistics in summary.statistics.items()
            if statistics.histogram is not None
        ]
        self._write(summary.behavior, summary.time, summary.step, values)

    def on_event(self, event: Event) -> None:
        """Write the settings of a behavior (kind ``hyperparameters``) as text; other events are not TensorBoard's."""
        behavior, values = event.fields.get("behavior"), event.fields.get("values")
        if event.kind == "hyperparameters" and isinstance(behavior, str) and isinstance(values, Mapping):
            text = _text(TEXT_TAG, markdown_table(values))
            self._write(behavior, event.time, int(event.fields.get("step", 0)), [text])

    def on_snapshot(self, snapshot: RunSnapshot) -> None:
        """Flush the files that have waited long enough."""
        self._flush(FLUSH_SECONDS)

    def on_result(self, result: RunReport) -> None:
        """Flush everything."""
        self._flush(0.0)

    def close(self) -> None:
        """Flush and close every file."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _write(self, behavior: str, wall_time: float, step: int, values: list[Any]) -> None:
        folder = folder_name(behavior)
        if folder not in self._files:
            self._files[folder] = EventFile(self.run_dir / folder)
        event = messages().event.Event(wall_time=wall_time, step=step)
        event.summary.value.extend(values)
        self._files[folder].write(event.SerializeToString())
        self._flush(FLUSH_SECONDS)

    def _flush(self, older_than: float) -> None:
        for file in self._files.values():
            file.flush(older_than)


def scalars(summary: Summary) -> dict[str, float]:
    """One scalar for each key, and those of single pairs if there are at most :data:`MOST_PAIRS`."""
    # If an engine sends a scalar with the name of a pair's, the trainer's number is written.
    return summary.values | (summary.pair_values() if len(summary.pairs) <= MOST_PAIRS else {})


def folder_name(behavior: str) -> str:
    """The folder of a behavior: the file name of its name without ``?team=``."""
    return file_name(behavior.split("?", 1)[0])


def markdown_table(values: Json) -> str:
    """Settings as a table that TensorBoard's text tab renders; nested keys are joined with dots."""
    rows = (f"| {key} | {_cell(value)} |" for key, value in flattened(values))
    return "\n".join(["| setting | value |", "| --- | --- |", *rows])


def _cell(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False).replace("|", "\\|")


def flattened(values: Json, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by keys with dots; an empty mapping is a value."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from flattened(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _value(tag: str, **content: Any) -> Any:
    return messages().summary.Summary.Value(tag=tag, **content)


def _histogram(statistics: Statistics, histogram: Histogram) -> Any:
    """TensorBoard keeps right edges only: an empty first bucket carries the leftmost one."""
    return messages().summary.HistogramProto(
        min=statistics.min,
        max=statistics.max,
        num=statistics.count,
        sum=statistics.sum,
        sum_squares=histogram.sum_squares,
        bucket_limit=histogram.edges.tolist(),
        bucket=np.concatenate(([0], histogram.counts)).tolist(),
    )


def _text(tag: str, text: str) -> Any:
    value = _value(tag)
    value.metadata.plugin_data.plugin_name = "text"
    value.tensor.dtype = 7  # DT_STRING
    value.tensor.tensor_shape.dim.add(size=1)
    value.tensor.string_val.append(text.encode())
    return value


class Messages(NamedTuple):
    """The used parts of the ``tensorboard`` package."""

    event: ModuleType
    summary: ModuleType
    records: Callable[[BinaryIO], Any]
    """Writes records to a file."""


@functools.cache
def messages() -> Messages:
    """Import it only when the first event file is written."""
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.summary.writer.record_writer import RecordWriter

    return Messages(event_pb2, summary_pb2, RecordWriter)


class EventFile:
    """One ``events.out.tfevents.<time>.<host>.<process>.<number>`` file."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        host = re.sub(r"[^\w.-]", "_", platform.node()) or "host"
        name = f"events.out.tfevents.{int(time.time()):010d}.{host}.{os.getpid()}.{next(_file_numbers)}"
        self.path = folder / name
        self._file: BinaryIO = self.path.open("wb")
        self._records = messages().records(self._file)
        self._flushed = -float("inf")
        self.write(messages().event.Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
        self.flush()

    def write(self, data: bytes) -> None:
        """Append one record."""
        self._records.write(data)

    def flush(self, older_than: float = 0.0) -> None:
        """Flush to the operating system, unless that happened in the last ``older_than`` seconds."""
        now = time.monotonic()
        if now - self._flushed >= older_than:
            self._file.flush()
            self._flushed = now

    def close(self) -> None:
        """Flush and close."""
        self._file.close()
