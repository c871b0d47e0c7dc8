"""Current speeds, and a run's time by part: ``run_logs/timers.json``, a tree in the format of ML-Agents."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from tau_trainer.files import atomic_write_json
from tau_trainer.metrics.recorder import Recorder
from tau_trainer.metrics.snapshot import RunReport
from tau_trainer.metrics.summary import Event, Summary

Clock = Callable[[], float]
"""Seconds since some fixed moment; they never decrease."""
_FORMAT_VERSION = "0.1.0"
"""Version of ML-Agents' format."""


class Timer:
    """Seconds spent on one activity and on its parts. One thread adds to it; any thread may read."""

    __slots__ = ("count", "parallel", "parts", "total")

    def __init__(self, *, parallel: bool = False) -> None:
        """``parallel``: several threads do it at the same time, so the seconds may exceed the elapsed time."""
        self.total = 0.0
        self.count = 0
        self.parallel = parallel
        self.parts: dict[str, Timer] = {}

    def part(self, name: str, *, parallel: bool = False) -> Timer:
        """The part of that name; it is made if it is missing."""
        return self.parts.setdefault(name, Timer(parallel=parallel))

    def tree(self) -> dict[str, Any]:
        """The tree in ML-Agents' format; ``self`` is the time outside all parts."""
        parts = {name: part.tree() for name, part in tuple(self.parts.items())}
        total = self.total or sum(part["total"] for part in parts.values())
        tree: dict[str, Any] = {"total": total, "count": self.count or len(parts)}
        tree |= {"is_parallel": True} if self.parallel else {}
        tree |= {"self": max(0.0, total - sum(part["total"] for part in parts.values()))}
        return tree | ({"children": parts} if parts else {})


class PhaseTimer:
    """A stopwatch for consecutive phases: each lasts since the end of the previous one."""

    __slots__ = ("_at", "_clock", "_timer")

    def __init__(self, timer: Timer, clock: Clock = time.perf_counter) -> None:
        self._timer, self._clock, self._at = timer, clock, clock()

    def begin(self) -> None:
        """Start a round; the time until now does not count."""
        self._at = self._clock()
        self._timer.count += 1

    def end(self, name: str) -> None:
        """Add the time since the last phase to the part ``name`` of the timer, and to the timer."""
        now = self._clock()
        part = self._timer.part(name)
        part.total += now - self._at
        part.count += 1
        self._timer.total += now - self._at
        self._at = now


_PARTS = {
    "pairs": {
        "wait for the environment": "game",
        "answer and record": "acting",
        "decide": "acting",
        "wait for the learner": "waiting",
    },
    "population": {
        "act and step": "game and acting",
        "count": "game and acting",
        "learn": "learning",
        "policies and validation": "validation",
        "checkpoint": "saving",
    },
}
"""Phases of play, by their names in the live table; starting an engine and waiting for the user do not count."""


def time_shares(timers: Timer, seconds: float) -> dict[str, float]:
    """Shares of the time by name, 0 to 1, from a run's timers. ``seconds``: time of play so far.

    Pairs' shares are of the total time of play of all pairs; the share of ``learning`` is the mean of the
    learners, which work at the same time as the pairs.
    """
    spent: dict[str, float] = {}
    for kind, names in _PARTS.items():
        timer = timers.parts.get(kind, Timer())
        for owner in (timer, *tuple(timer.parts.values())):
            for phase, name in names.items():
                if phase in owner.parts:
                    spent[name] = spent.get(name, 0.0) + owner.parts[phase].total
    total = sum(spent.values())
    shares = {name: part / total for name, part in spent.items() if total > 0.0}
    learners = tuple(timers.parts.get("learners", Timer()).parts.values())
    if learners and seconds > 0.0:
        shares["learning"] = min(sum(learner.total for learner in learners) / len(learners) / seconds, 1.0)
    return shares


class TimersFile(Recorder):
    """Writes the timers and the newest value of every scalar with each checkpoint and at the end."""

    keeps = True

    def __init__(
        self, path: Path, timers: Timer, metadata: Mapping[str, str] | None = None, clock: Clock = time.time
    ) -> None:
        """``timers``: the run's; ``metadata``: versions and the command line, for the file's metadata."""
        self._path = path
        self._timers = timers
        self._metadata = dict(metadata or {})
        self._clock = clock
        self._began = clock()
        self._gauges: dict[str, dict[str, float]] = {}

    @override
    def on_summary(self, summary: Summary) -> None:
        for key, statistics in summary.statistics.items():
            for kind, value in (("mean", statistics.mean), ("sum", statistics.sum)):
                if math.isfinite(value):
                    self._set(f"{summary.behavior}.{key}.{kind}".replace("/", ".").replace(" ", ""), value)

    def _set(self, name: str, value: float) -> None:
        gauge = self._gauges.setdefault(name, {"value": value, "min": value, "max": value, "count": 0})
        gauge |= {"value": value, "min": min(gauge["min"], value), "max": max(gauge["max"], value)}
        gauge["count"] += 1

    @override
    def on_event(self, event: Event) -> None:
        if event.kind == "checkpoint":
            self._write()

    @override
    def on_result(self, result: RunReport) -> None:
        self._write()

    def _write(self) -> None:
        now = self._clock()
        times = {"start_time_seconds": str(int(self._began)), "end_time_seconds": str(int(now))}
        metadata = {"timer_format_version": _FORMAT_VERSION, **times, **self._metadata}
        root = self._timers.tree() | {"total": now - self._began, "count": 1}
        root["self"] = max(0.0, root["total"] - sum(part["total"] for part in root.get("children", {}).values()))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write_json(self._path, {"name": "root", "gauges": self._gauges, "metadata": metadata, **root})


class RateMeter:
    """Events per second, averaged with exponential forgetting; safe to use from several threads.

    The estimate is exact from the first second on: the weight that a plain EWMA would give to the time before the
    start is divided out (the bias correction of Adam, Kingma & Ba 2015, section 3, in continuous time).

    :param half_life: seconds after which an event counts half.
    """

    def __init__(self, half_life: float = 5.0, clock: Clock = time.perf_counter) -> None:
        self._decay = math.log(2.0) / half_life
        self._clock = clock
        self._lock = threading.Lock()
        self._started = self._updated = clock()
        self._weighted = 0.0
        self._total = 0

    @property
    def total(self) -> int:
        """All events so far."""
        return self._total

    def add(self, count: int) -> None:
        """Count ``count`` events that happened now."""
        now = self._clock()
        with self._lock:
            self._weighted = self._weighted * math.exp(-self._decay * (now - self._updated)) + count
            self._updated = now
            self._total += count

    def rate(self) -> float:
        """Current events per second; it falls towards 0 if no further events happen."""
        now = self._clock()
        with self._lock:
            span = -math.expm1(-self._decay * (now - self._started)) / self._decay
            return self._weighted * math.exp(-self._decay * (now - self._updated)) / span if span > 0 else 0.0


def eta_seconds(done: float, total: float, rate: float) -> float | None:
    """Seconds until ``done`` reaches ``total`` at ``rate`` a second; None without a total or without movement."""
    if total <= 0 or rate <= 0:
        return None
    return max(total - done, 0.0) / rate
