"""The engines' counts, second by second, and rates computed from them."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class EngineCounts:
    """One engine's report: a row for each line of its file."""

    pid: int
    time: Float64Array
    """float64 [rows]: Unix time in seconds."""
    decisions: Float64Array
    """float64 [rows]: decisions so far."""
    exchanges: Float64Array
    """float64 [rows]: exchanges so far."""
    episodes: Float64Array
    """float64 [rows]: ended episodes so far."""
    mean_return: Float64Array
    """float64 [rows]: mean return of the episodes that ended since the previous row; NaN if none did."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The reports of all engines of one run."""

    engines: tuple[EngineCounts, ...]

    def total(self, time: float, what: str = "decisions") -> float:
        """The engines' total count at a time, interpolated between two lines."""
        return float(sum(np.interp(time, engine.time, getattr(engine, what), left=0.0) for engine in self.engines))

    def end(self) -> float:
        """The last time at which every engine has reported; 0 without reports."""
        return min((float(engine.time[-1]) for engine in self.engines), default=0.0)

    def rate(self, start: float, end: float, what: str = "decisions") -> float:
        """Counts a second between two times; 0 for an empty span."""
        return (self.total(end, what) - self.total(start, what)) / (end - start) if end > start else 0.0

    def crossing(self, decisions: float) -> float | None:
        """Time at which the total count reached a number; None if it did not."""
        times = np.unique(np.concatenate([engine.time for engine in self.engines] or [np.zeros(0)]))
        totals = np.array([self.total(float(time)) for time in times])
        reached = np.flatnonzero(totals >= decisions)
        if len(reached) == 0:
            return None
        last = int(reached[0])
        if last == 0:
            return float(times[0])
        return float(np.interp(decisions, totals[last - 1 : last + 1], times[last - 1 : last + 1]))

    def cycle_rate(self, cycle: int, start: float, end: float) -> tuple[float, int] | None:
        """Decisions a second over whole collect-and-update cycles of `cycle` decisions, and their number.

        A window that ends just before an update flatters a trainer that stops the engines to learn; from one multiple
        of the buffer's size to a later one, collecting and updating stand in their true proportion.
        """
        first = int(np.ceil(self.total(start) / cycle))
        last = int(self.total(end) // cycle)
        times = (self.crossing(first * cycle), self.crossing(last * cycle))
        if last <= first or times[0] is None or times[1] is None or times[1] <= times[0]:
            return None
        return (last - first) * cycle / (times[1] - times[0]), last - first

    def recent_return(self, episodes: int, time: float = np.inf) -> tuple[float, int]:
        """Mean return of about the last `episodes` episodes that ended up to a time, and how many were averaged.

        Whole lines are averaged, so there may be a few more episodes than requested; fewer only if fewer have ended.
        """
        total, count = 0.0, 0.0
        for when, ended_here, mean in reversed(self._ended()):
            if when <= time:
                total, count = total + ended_here * mean, count + ended_here
            if count >= episodes:
                break
        return (float(total / count), int(count)) if count else (float("nan"), 0)

    def reached_at(self, goal: float, episodes: int) -> float | None:
        """The first time at which the last `episodes` ended episodes had a mean return of `goal`; None if never."""
        window: deque[tuple[float, float]] = deque()
        total = count = 0.0
        for when, ended_here, mean in self._ended():
            window.append((ended_here, mean))
            total, count = total + ended_here * mean, count + ended_here
            while count - window[0][0] >= episodes:
                number, left = window.popleft()
                total, count = total - number * left, count - number
            if count >= episodes and total / count >= goal:
                return when
        return None

    def _ended(self) -> list[tuple[float, float, float]]:
        """(time, ended episodes, their mean return) of every line with ended episodes, in order of time."""
        rows = []
        for engine in self.engines:
            ended = np.diff(engine.episodes, prepend=0.0)
            rows += [(t, n, r) for t, n, r in zip(engine.time, ended, engine.mean_return, strict=True) if n > 0]
        return sorted(rows)


def read_reports(folder: Path) -> Timeline:
    """Read every `engine-<pid>.jsonl` in a folder; an incomplete last line is left out."""
    return Timeline(tuple(filter(None, (_read(path) for path in sorted(folder.glob("engine-*.jsonl"))))))


def _read(path: Path) -> EngineCounts | None:
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        mean = row["mean_return"]
        rows.append(
            (row["time"], row["decisions"], row["exchanges"], row["episodes"], np.nan if mean is None else mean)
        )
    if not rows:
        return None
    table = np.array(rows, np.float64)
    return EngineCounts(int(path.stem.split("-")[1]), *(table[:, column] for column in range(5)))
