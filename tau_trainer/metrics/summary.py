"""Statistics of numbers between two flushes, and the other data that recorders get."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

from tau_trainer.metrics.keys import pair_key
from tau_trainer.specs import Aggregation, Json

HISTOGRAM_BINS = 30
UNIT = "decisions"
"""The usual meaning of a step."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of finite values in bins. ``edges``: float64 [b + 1], ascending; ``counts``: int64 [b]."""

    edges: NDArray[np.float64]
    counts: NDArray[np.int64]
    sum_squares: float


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of a key between two flushes. NaN and infinity are only counted, in ``non_finite``."""

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
        """All fields except the histogram, for JSON."""
        return {column.name: getattr(self, column.name) for column in fields(self) if column.name != "histogram"}

    @classmethod
    def from_plain(cls, values: Json) -> Statistics:
        """The inverse of :meth:`plain`."""
        return cls(**{**values, "aggregation": Aggregation(values["aggregation"])})

    @property
    def value(self) -> float:
        """The scalar that recorders write; NaN if no value was finite."""
        match self.aggregation:
            case Aggregation.SUM:
                return self.sum
            case Aggregation.MOST_RECENT:
                return self.last
            case _:
                return self.mean


def together(earlier: Mapping[str, Statistics], later: Mapping[str, Statistics]) -> dict[str, Statistics]:
    """Statistics by key of the values of both together; a histogram contains only those of ``later``."""
    found = {**earlier, **later}
    for key in earlier.keys() & later.keys():
        first, second = earlier[key], later[key]
        if first.count and second.count:
            count, total = first.count + second.count, first.sum + second.sum
            mean = total / count
            squares = sum(part.count * (part.std**2 + (part.mean - mean) ** 2) for part in (first, second))
            found[key] = replace(
                second,
                count=count,
                mean=mean,
                std=math.sqrt(squares / count),
                min=min(first.min, second.min),
                max=max(first.max, second.max),
                sum=total,
                non_finite=first.non_finite + second.non_finite,
            )
        elif first.count:
            found[key] = replace(first, non_finite=first.non_finite + second.non_finite)
    return found


@dataclass(frozen=True, slots=True)
class Summary:
    """One behavior between two flushes, for recorders."""

    behavior: str
    step: int
    """Decisions of this behavior so far: the horizontal axis of every curve."""
    elapsed_s: float
    """Seconds since the run started."""
    decisions_per_second: float
    """Speed between the last flush and this one."""
    statistics: Mapping[str, Statistics] = field(default_factory=dict)
    pairs: Mapping[str, Mapping[str, Statistics]] = field(default_factory=dict)
    """The same by pair id, for values that were added with a pair."""
    eta_s: float | None = None
    training: bool = True
    unit: str = UNIT
    """The meaning of a step, for example :data:`UNIT`."""
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
    """Something that happened once. A field ``message`` (one sentence) is shown to the user."""

    kind: str
    elapsed_s: float
    fields: Json = field(default_factory=dict)
    time: float = field(default_factory=time.time)

    @property
    def message(self) -> str | None:
        """The sentence for the user, if there is one."""
        message = self.fields.get("message")
        return None if message is None else str(message)


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
    """Equal bins from the smallest to the largest value; one bin if these are too close together or too far apart."""
    low, high = float(finite.min()), float(finite.max())
    sum_squares = float(finite @ finite)
    edges = np.linspace(low, high, HISTOGRAM_BINS + 1) if np.isfinite(high - low) else np.array([low, high])
    if not (edges[1:] > edges[:-1]).all():
        edges = np.array([low, high if high > low else np.nextafter(low, np.inf)])
    counts = np.histogram(finite, edges)[0].astype(np.int64)
    return Histogram(edges, counts, sum_squares)
