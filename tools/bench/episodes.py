"""The episodes of a run, as reported by the game: when a target is reached, and whether it is kept.

A target ("mark") is reached when the mean return of the last ``window`` episodes is at least the target, and again one
whole window later: luck in one window does not count.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]
_Row = tuple[float, float, float, float]
"""(begun, ended, return, time) of an episode."""

STRETCH = 12_000
"""Decisions of a summary of balance."""
HIGH, LOW, MANY, QUIET = 90.0, 80.0, 6, 3
"""Return of a learned summary; of a fallen one; lost balls in a fallen stretch; quiet stretches before a fall."""
_CURVE_POINTS = 200


@dataclass(frozen=True, slots=True)
class Episodes:
    """Ended episodes of one behavior, in the order of their ends; a row for each."""

    begun: Float64Array
    """float64 [n]: decisions of the behavior's agents when it began."""
    ended: Float64Array
    """float64 [n]: the same when it ended."""
    returns: Float64Array
    """float64 [n]: sum of its rewards."""
    time: Float64Array
    """float64 [n]: Unix time of its end, in seconds."""

    @classmethod
    def of(cls, rows: Sequence[_Row]) -> Episodes:
        """From rows in any order."""
        table = np.array(rows, np.float64).reshape(-1, 4)
        return cls(*table[np.argsort(table[:, 1], kind="stable")].T)

    def __len__(self) -> int:
        return len(self.ended)

    @property
    def decisions(self) -> float:
        """When the last one ended."""
        return float(self.ended[-1]) if len(self) else 0.0


@dataclass(frozen=True, slots=True)
class Mark:
    """The point at which a target was reached."""

    decisions: float
    begun: float
    """Decisions when the first episode of the window started, so without the window."""
    time: float
    """Unix time in seconds."""


@dataclass(frozen=True, slots=True)
class Falls:
    """The scene `balance` after its first summary at 90."""

    decisions: float
    """Decisions played since."""
    low: int
    """Summaries below 80."""
    falls: int
    """Stretches of 12,000 decisions that lost six balls or more, after at least three that lost fewer."""
    most: int
    """Most balls lost in any 12,000 decisions."""

    @property
    def safe(self) -> bool:
        """No summary below 80, no 12,000 decisions that lost six balls."""
        return self.low == 0 and self.most < MANY


def means(episodes: Episodes, window: int) -> Float64Array:
    """float64 [n - window + 1]: mean return of the newest ``window`` episodes at each end; empty with fewer."""
    if len(episodes) < window:
        return np.zeros(0)
    mean: Float64Array = sliding_window_view(episodes.returns, window).mean(axis=1)
    return mean


def mark(episodes: Episodes, goal: float, window: int) -> Mark | None:
    """The point at which the target was reached; None if it was not."""
    mean = means(episodes, window) >= goal - 1e-9
    good = np.flatnonzero(mean[:-window] & mean[window:])
    if not len(good):
        return None
    first, last = int(good[0]), int(good[0]) + window - 1
    begun = episodes.begun[first : last + 1].min()
    return Mark(float(episodes.ended[last]), float(begun), float(episodes.time[last]))


def falls(episodes: Episodes, lost_below: float) -> Falls | None:
    """How often balance was lost again, counted in whole stretches; None if no summary was at 90.

    ``lost_below``: returns of episodes that lost their ball are less.
    """
    stretches = int(episodes.decisions // STRETCH)
    place = ((episodes.ended - 1) // STRETCH).astype(np.intp)
    lost = episodes.returns < lost_below
    count, lost_in = (np.bincount(place, weights, stretches + 1)[:stretches] for weights in (None, lost))
    total = np.bincount(place, episodes.returns, stretches + 1)[:stretches]
    summary = np.divide(total, count, out=np.full(stretches, math.nan), where=count > 0)
    learned = np.flatnonzero(summary >= HIGH)
    if not len(learned):
        return None
    since = int(learned[0]) + 1
    fallen, quiet = 0, 0
    for balls in lost_in[since:]:
        fallen += int(balls >= MANY and quiet >= QUIET)
        quiet = 0 if balls >= MANY else quiet + 1
    ends = episodes.ended[lost & (episodes.ended > since * STRETCH)]
    most = np.arange(1, len(ends) + 1) - np.searchsorted(ends, ends - STRETCH, "right")
    low = int(np.count_nonzero(summary[since:] < LOW))
    return Falls(episodes.decisions - since * STRETCH, low, fallen, int(most.max(initial=0)))


def curve(episodes: Episodes, window: int, started: float) -> list[tuple[float, float, float]]:
    """(decisions, seconds since ``started``, mean return of the newest episodes), at most some hundred points."""
    window = min(window, len(episodes))
    if not window:
        return []
    mean = means(episodes, window)
    known = episodes.ended[window - 1 :]
    # Of episodes that end at the same decision, the last: its mean has all of them.
    some = np.unique(np.searchsorted(known, np.linspace(known[0], known[-1], _CURVE_POINTS), side="right") - 1)
    ends = some + window - 1
    return list(
        zip(episodes.ended[ends].tolist(), (episodes.time[ends] - started).tolist(), mean[some].tolist(), strict=True)
    )


class Reader:
    """Follows what headless engines (`--report-episodes`) or `timed_envs` write into a folder while a run goes on.

    Each process has its own count: episodes of several processes are overlaid.
    """

    def __init__(self, folder: Path, behavior: str) -> None:
        self._folder, self._behavior = folder, behavior
        self._read: dict[Path, int] = {}
        self._rows: list[_Row] = []

    def read(self) -> Episodes:
        """Everything written so far, except an unfinished last line."""
        for path in sorted(self._folder.iterdir()):
            if path.suffix == ".episodes":
                self._rows += [row for line in self._lines(path) if (row := _of_engine(line, self._behavior))]
            elif path.suffix == ".txt":
                self._rows += [row for line in self._lines(path) if (row := _of_gym(line))]
        return Episodes.of(self._rows)

    def _lines(self, path: Path) -> list[str]:
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            whole = file.read().rpartition(b"\n")[0]
        self._read[path] = self._read.get(path, 0) + len(whole) + bool(whole)
        return whole.decode().splitlines()


def _of_engine(line: str, behavior: str) -> _Row | None:
    told = json.loads(line)
    found = (told["begun"], told["ended"], told["return"], told["time"])
    return found if told["behavior"].partition("?")[0] == behavior else None


def _of_gym(line: str) -> _Row | None:
    when, length, total, begun, ended = map(float, line.split())
    return (begun, ended, total, when) if length else None
