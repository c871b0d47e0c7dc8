"""The metrics hub: all of a run's numbers arrive here.

Collection (an asyncio loop, once an exchange) and learning (a thread) add values; the counter of decisions flushes
every ``summary_freq`` of them; recorders are called on a thread of their own. Adding costs about a microsecond, keeps
every value until the flush, and never waits for a recorder.
"""

from __future__ import annotations

import logging
import threading
import time
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tau_trainer.metrics import keys
from tau_trainer.metrics.recorder import Dispatcher, Recorder
from tau_trainer.metrics.snapshot import BaselineScore, RunReport, RunSnapshot
from tau_trainer.metrics.summary import UNIT, Event, Statistics, Summary, summarize, together
from tau_trainer.metrics.timers import Clock, Timer, eta_seconds
from tau_trainer.specs import Aggregation, Json

_log = logging.getLogger(__name__)
PairId = int | str


class Series:
    """Every value of one key since the last flush, as float64 in one growing block of memory."""

    __slots__ = ("aggregation", "values")

    def __init__(self, aggregation: Aggregation) -> None:
        self.aggregation = aggregation
        self.values = array("d")

    def add(self, value: float | ArrayLike) -> None:
        """Append a number, or all numbers of an array of any shape (copied: the caller may reuse its memory)."""
        if type(value) is float:
            self.values.append(value)
        else:
            self.values.frombytes(np.asarray(value, np.float64).tobytes())

    def statistics(self) -> Statistics:
        """Aggregate. The series must not grow any more."""
        return summarize(np.frombuffer(self.values, np.float64), self.aggregation)


_SeriesByKey = dict[tuple[str | None, str], Series]


@dataclass(slots=True)
class _Behavior:
    """State of a behavior at its last flush."""

    step: int
    time: float
    max_steps: int = 0
    unit: str = UNIT
    rested: float | None = None
    """Time of the decision that was perhaps its last one."""


class MetricsHub:
    """Gathers values by behavior and key, aggregates them at a flush, hands them to recorders.

    Thread-safe. Use as a context manager, or call :meth:`close`.

    :param recorders: called in this order; what a recorder raises never reaches the caller.
    """

    def __init__(
        self, recorders: Sequence[Recorder] = (), clock: Clock = time.perf_counter, timers: Timer | None = None
    ) -> None:
        self._clock = clock
        self._started = clock()
        self.timers = timers if timers is not None else Timer()
        """The run's time by part."""
        self._lock = threading.Lock()
        self._series: dict[str, _SeriesByKey] = {}
        self._reported: dict[str, dict[str, Statistics]] = {}
        self._behaviors: dict[str, _Behavior] = {}
        self._kept: dict[str, float] = {}
        self.losses: list[str] = []
        """A sentence for each recorder that could not write all of its data."""
        self._dispatcher = Dispatcher(recorders, self._recorder_failed)

    @property
    def elapsed(self) -> float:
        """Seconds since the hub was made."""
        return self._clock() - self._started

    def begin(
        self, behavior: str, *, step: int = 0, max_steps: int = 0, hyperparameters: Json | None = None, unit: str = UNIT
    ) -> None:
        """Announce a behavior: first step (after a resume, not 0), last step, settings, and what a step is.

        Optional; without it, counting starts at 0 and there is no ETA.
        """
        with self._lock:
            self._behaviors[behavior] = _Behavior(step, self._clock(), max_steps, unit)
        if step > 0:
            self.event("resumed", behavior=behavior, step=step)
        if hyperparameters is not None:
            self.event("hyperparameters", behavior=behavior, step=step, values=dict(hyperparameters))

    def forget(self, behavior: str) -> None:
        """Drop the values added for a behavior since its last flush, and its step: the behavior starts again."""
        with self._lock:
            for values in (self._series, self._reported, self._behaviors):
                values.pop(behavior, None)

    def add(
        self,
        behavior: str,
        key: str,
        value: float | ArrayLike,
        aggregation: Aggregation = Aggregation.AVERAGE,
        *,
        pair: PairId | None = None,
    ) -> None:
        """Keep a number, or every number of an array of any shape, until the next flush.

        With ``pair``, the pair has the value for itself as well. The aggregation of a key is the one it was first
        added with since the last flush.
        """
        with self._lock:
            series = self._series.setdefault(behavior, {})
            _append(series, None, key, value, aggregation)
            if pair is not None:
                _append(series, str(pair), key, value, aggregation)

    def pending(self, behavior: str, wanted: Sequence[str]) -> dict[str, Statistics]:
        """Statistics of the ``wanted`` keys since the last flush, for a checkpoint."""
        with self._lock:
            series, earlier = self._series.get(behavior, {}), self._reported.get(behavior, {})
            found = {key: series[None, key].statistics() for key in wanted if (None, key) in series}
            known = together(earlier, found)
        return {key: known[key] for key in wanted if key in known and known[key].count}

    def carry(self, behavior: str, known: Mapping[str, Statistics]) -> None:
        """Add statistics of values that were not added one by one, once for each key between two flushes.

        The next flush combines them with the values of the same key. A resumed run passes what :meth:`pending` gave.
        """
        with self._lock:
            self._reported.setdefault(behavior, {}).update(known)

    def add_all(self, behavior: str, values: Mapping[str, float | ArrayLike], *, pair: PairId | None = None) -> None:
        """Add several keys at once, averaged, such as the statistics of an update."""
        for key, value in values.items():
            self.add(behavior, key, value, pair=pair)

    def keep(self, key: str, value: float) -> None:
        """Set a value that is part of every summary of every behavior from now on."""
        with self._lock:
            self._kept[key] = value

    def episode(
        self, behavior: str, pair: PairId | None, returns: ArrayLike, lengths: ArrayLike, groups: ArrayLike = ()
    ) -> None:
        """Count ``k`` finished episodes. ``returns`` [k]: undiscounted sums of reward; ``lengths`` [k]: decisions.

        ``groups`` [k]: what the group of each got in it, NaN for an agent without one; [0]: there are no groups.
        """
        if np.size(returns) == 0:
            return
        self.add(behavior, keys.CUMULATIVE_REWARD, returns, Aggregation.HISTOGRAM, pair=pair)
        self.add(behavior, keys.EPISODE_LENGTH, lengths, pair=pair)
        known = np.asarray(groups, np.float64)
        known = known[~np.isnan(known)]
        if len(known):
            self.add(behavior, keys.GROUP_CUMULATIVE_REWARD, known, Aggregation.HISTOGRAM, pair=pair)

    def rest(self, behavior: str) -> None:
        """Note that perhaps no decision follows: the time until the next flush then does not count for its speed."""
        with self._lock:
            self._behaviors.setdefault(behavior, _Behavior(0, self._started)).rested = self._clock()

    def flush(self, behavior: str, step: int, *, training: bool = True) -> Summary:
        """Aggregate all values since the last flush, pass them to the recorders, and return them.

        :param step: decisions of this behavior so far.
        """
        now = self._clock()
        with self._lock:
            series, earlier = self._series.pop(behavior, {}), self._reported.pop(behavior, {})
            state = self._behaviors.setdefault(behavior, _Behavior(0, self._started))
            end = now if state.rested is None else state.rested
            seconds, decisions = end - state.time, step - state.step
            state.step, state.time, state.rested = step, now, None
            rate = max(decisions, 0) / seconds if seconds > 0 else 0.0
            kept = {keys.DECISIONS_PER_SECOND: rate, **self._kept}
        statistics, pairs = _aggregate(series, kept)
        statistics = together(earlier, statistics)
        summary = Summary(
            behavior=behavior,
            step=step,
            elapsed_s=now - self._started,
            decisions_per_second=rate,
            statistics=statistics,
            pairs=pairs,
            eta_s=eta_seconds(step, state.max_steps, rate),
            training=training,
            unit=state.unit,
        )
        self._dispatcher.put(summary)
        return summary

    def event(self, kind: str, **fields: Any) -> Event:
        """Record an event. A field ``message`` (one sentence) is shown to the user."""
        event = Event(kind, self.elapsed, fields)
        self._dispatcher.put(event)
        return event

    def warning(self, message: str, **fields: Any) -> Event:
        """An event of kind ``warning`` with that sentence."""
        return self.event("warning", message=message, **fields)

    def task(self, names: keys.TaskKeys) -> Event:
        """Record a task's names for the rewards of single decisions."""
        return self.event("task", reward=names.reward, success=names.success, aggregated=names.aggregated)

    def baselines(self, scores: Mapping[str, BaselineScore]) -> Event:
        """Record the scores of the baselines, by name."""
        return self.event("baselines", values=dict(scores))

    def snapshot(self, snapshot: RunSnapshot) -> None:
        """Pass on the run's current state, for the live table. Call it as often as you like: recorders skip some."""
        self._dispatcher.put(snapshot)

    def result(self, result: RunReport) -> None:
        """Pass on the report of a run that has ended."""
        self._dispatcher.put(result)

    def drain(self, timeout: float | None = None) -> bool:
        """Wait until the recorders have everything; False if ``timeout`` seconds were not enough."""
        return self._dispatcher.drain(timeout)

    def close(self) -> None:
        """Pass the rest to the recorders and close them. Values that were never flushed are not written."""
        self._dispatcher.close()

    def __enter__(self) -> MetricsHub:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _recorder_failed(self, recorder: Recorder, error: BaseException) -> None:
        name = type(recorder).__name__
        if recorder.shows and isinstance(error, OSError):
            why = "its reader has closed it" if isinstance(error, BrokenPipeError) else error.strerror or str(error)
            said = f"the output cannot be written ({why}), so nothing more is shown"
            if not isinstance(error, BrokenPipeError):
                self.losses.append(said)
            _log.error("%s; training continues, and log.jsonl in the run's folder has all of it", said)
        if recorder.keeps:
            self.losses.append(f"{name} could not write everything: {error}")
        self.warning(f"{name} failed: {error}; training continues, but its record may have gaps", recorder=name)


def _append(
    series: _SeriesByKey, pair: str | None, key: str, value: float | ArrayLike, aggregation: Aggregation
) -> None:
    values = series.get((pair, key))
    if values is None:
        values = series[(pair, key)] = Series(Aggregation(aggregation))
    values.add(value)


def _aggregate(
    series: _SeriesByKey, kept: Mapping[str, float]
) -> tuple[dict[str, Statistics], dict[str, dict[str, Statistics]]]:
    """Statistics by key, and by pair and key; ``kept``: single values, for keys that have no series."""
    overall: dict[str, Statistics] = {}
    pairs: dict[str, dict[str, Statistics]] = {}
    for (pair, key), values in series.items():
        (overall if pair is None else pairs.setdefault(pair, {}))[key] = values.statistics()
    for key, value in kept.items():
        overall.setdefault(key, summarize(np.array([value]), Aggregation.MOST_RECENT))
    return overall, pairs
