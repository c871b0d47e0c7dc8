"""What happened to each number between two flushes: gathered cheaply, aggregated once."""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tau_trainer.metrics.keys import pair_key
from tau_trainer.specs import Aggregation

HISTOGRAM_BINS = 30


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of finite values in bins. ``edges``: float64 [b + 1], ascending; ``counts``: int64 [b]."""

    edges: NDArray[np.float64]
    counts: NDArray[np.int64]
    sum_squares: float


@dataclass(frozen=True, slots=True)
class Statistics:
    """All values of one key between two flushes. NaN and infinity are counted apart and stay out of the rest."""

    aggregation: Aggregation
    count: int
    """Finite values."""
    mean: float
    std: float
    """Population standard deviation (divided by ``count``), as ML-Agents reports it."""
    min: float
    max: float
    sum: float
    last: float
    non_finite: int = 0
    histogram: Histogram | None = None
    """For :attr:`Aggregation.HISTOGRAM` only."""

    def plain(self) -> dict[str, float]:
        """Everything but the histogram, for JSON."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "histogram"}

    @classmethod
    def from_plain(cls, told: Mapping[str, Any]) -> Statistics:
        """What :meth:`plain` gave."""
        return cls(**{**told, "aggregation": Aggregation(told["aggregation"])})

    @property
    def value(self) -> float:
        """The one scalar that a recorder writes; NaN when no value was finite."""
        match self.aggregation:
            case Aggregation.SUM:
                return self.sum
            case Aggregation.MOST_RECENT:
                return self.last
            case _:
                return self.mean


def together(earlier: Mapping[str, Statistics], later: Mapping[str, Statistics]) -> dict[str, Statistics]:
    """Statistics by key as if the values of both had come one after the other; a histogram has those of ``later``."""
    found = {**earlier, **later}
    for key in earlier.keys() & later.keys():
        one, other = earlier[key], later[key]
        if one.count and other.count:
            count, total = one.count + other.count, one.sum + other.sum
            mean = total / count
            squares = sum(part.count * (part.std**2 + (part.mean - mean) ** 2) for part in (one, other))
            found[key] = replace(
                other,
                count=count,
                mean=mean,
                std=math.sqrt(squares / count),
                min=min(one.min, other.min),
                max=max(one.max, other.max),
                sum=total,
                non_finite=one.non_finite + other.non_finite,
            )
        elif one.count:
            found[key] = replace(one, non_finite=one.non_finite + other.non_finite)
    return found


@dataclass(frozen=True, slots=True)
class Summary:
    """One behavior between two flushes: what recorders get."""

    behavior: str
    step: int
    """Decisions of this behavior so far: the horizontal axis of every curve."""
    elapsed_s: float
    """Seconds since the run started."""
    decisions_per_second: float
    """Between the last flush and this one."""
    statistics: Mapping[str, Statistics] = field(default_factory=dict)
    pairs: Mapping[str, Mapping[str, Statistics]] = field(default_factory=dict)
    """The same for each pair by its id, where a pair was named with the value."""
    eta_s: float | None = None
    training: bool = True
    time: float = field(default_factory=time.time)
    """Wall clock, seconds since 1970."""

    @property
    def values(self) -> dict[str, float]:
        """One scalar for each key."""
        return {key: statistics.value for key, statistics in self.statistics.items()}

    def pair_values(self) -> dict[str, float]:
        """One scalar for each key of each pair, named as in ``Pair 3/Mean Reward``."""
        return {
            pair_key(key, pair): statistics.value
            for pair, keys in self.pairs.items()
            for key, statistics in keys.items()
        }


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened once. A field ``message`` (one sentence) is shown to the person who watches."""

    kind: str
    elapsed_s: float
    fields: Mapping[str, Any] = field(default_factory=dict)
    time: float = field(default_factory=time.time)

    @property
    def message(self) -> str | None:
        """The sentence for the person, if there is one."""
        message = self.fields.get("message")
        return None if message is None else str(message)


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


def summarize(values: NDArray[np.float64], aggregation: Aggregation = Aggregation.AVERAGE) -> Statistics:
    """Statistics of float64 [n], n >= 0."""
    finite = values[np.isfinite(values)]
    non_finite = len(values) - len(finite)
    if len(finite) == 0:
        nan = float("nan")
        return Statistics(aggregation, 0, nan, nan, nan, nan, 0.0, nan, non_finite)
    with np.errstate(over="ignore", invalid="ignore"):
        return Statistics(
            aggregation=aggregation,
            count=len(finite),
            mean=float(finite.mean()),
            std=float(finite.std()),
            min=float(finite.min()),
            max=float(finite.max()),
            sum=float(finite.sum()),
            last=float(finite[-1]),
            non_finite=non_finite,
            histogram=_histogram(finite) if aggregation is Aggregation.HISTOGRAM else None,
        )


def _histogram(finite: NDArray[np.float64]) -> Histogram:
    """Equal bins from the smallest to the largest value; one bin where they are too close or too far apart for that."""
    low, high = float(finite.min()), float(finite.max())
    sum_squares = float(finite @ finite)
    edges = np.linspace(low, high, HISTOGRAM_BINS + 1) if np.isfinite(high - low) else np.array([low, high])
    if not (edges[1:] > edges[:-1]).all():
        edges = np.array([low, high if high > low else np.nextafter(low, np.inf)])
    counts = np.histogram(finite, edges)[0].astype(np.int64)
    return Histogram(edges, counts, sum_squares)
