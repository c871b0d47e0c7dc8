"""A learning rate that grows from step to step: the results, when to stop, and which rate to suggest.

A range test (Smith 2017, *Cyclical Learning Rates*, section 3.3): the rate grows exponentially during training. If the
rate is far too small, nothing changes; with a good rate, the metric improves; if it is too large, the metric collapses.
The suggested rate is where the metric improves fastest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tau_trainer.metrics.history import moving_mean
from tau_trainer.search.trial import Metric

_FIRST = 5
"""Steps before a sweep may stop early."""
_WORST_LOSS = 4.0
"""Multiple of the best loss that ends a sweep."""
_WORST_REWARD = 0.5
"""Share of the best reward whose loss ends a sweep."""
_ORDERS = 5000
"""Number of random orders of the measured values to compare the real order with."""
_LEAST_ORDERS = 500
"""Minimum number of random orders, for long sweeps."""
_PAIRS = 50_000_000
"""Approximate number of compared pairs in all orders together: about a second."""
_CHANCE = 0.01
"""Maximum share of random orders with as large a rise; above it, chance explains the rise."""
_LEAST = 1e-8
"""Minimum of a deviation in a denominator."""


def learning_rates(start: float, end: float, steps: int) -> NDArray[np.float64]:
    """``steps + 1`` rates from ``start`` to ``end``, with a constant factor between them."""
    return np.geomspace(start, end, steps + 1)


@dataclass(slots=True)
class Sweep:
    """The measurements so far, one value for each learning rate."""

    metric: Metric
    window: int = 5
    """Number of steps to average."""
    rates: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    """Mean return of the episodes, or mean loss of the updates, of each step."""

    def add(self, rate: float, value: float) -> None:
        """Add the result of a step."""
        self.rates.append(rate)
        self.values.append(value)

    @property
    def over(self) -> str | None:
        """Why no further rate is worth trying, in words; None: continue.

        After the first steps, the sweep ends if the loss is four times the best, or if the reward has fallen from the
        best by half of it, or by one deviation if that is more. Both are means over the window, so a single bad episode
        does not end the sweep.
        """
        if len(self.values) <= _FIRST:
            return None
        recent = self.recent()
        whole = recent[self.window - 1 :] or recent[-1:]
        if self.metric == "loss":
            best = min(whole)
            worse = recent[-1] - best > (_WORST_LOSS - 1.0) * max(abs(best), _LEAST)
            return "the loss is more than four times the best" if worse else None
        best, deviation = max(whole), float(np.std(self.values[-self.window :]))
        fallen = best - recent[-1] > max(_WORST_REWARD * abs(best), deviation, _LEAST)
        return "the reward has fallen to half of the best" if fallen else None

    def recent(self) -> list[float]:
        """For each step, the mean over the window that ends there."""
        return [float(np.mean(part)) for part in self._windows()]

    def normalized(self) -> list[float]:
        """For each step, its distance to the mean of the window that ends there, in deviations of that window."""
        values = zip(self.values, self._windows(), strict=True)
        return [float((value - np.mean(part)) / (np.std(part) + _LEAST)) for value, part in values]

    def _windows(self) -> list[Sequence[float]]:
        return [self.values[max(0, i + 1 - self.window) : i + 1] for i in range(len(self.values))]

    def smoothed(self) -> list[float]:
        """For each step, the mean over the window around it, which has no lag."""
        return moving_mean(self.values, self.window)

    def change(self) -> list[float]:
        """Derivative of :meth:`smoothed` by the logarithm of the rate to base 10, smoothed once more."""
        if len(self.values) < 2:
            return [0.0] * len(self.values)
        return moving_mean(np.gradient(np.asarray(self.smoothed()), np.log10(self.rates)).tolist(), self.window)

    @property
    def best(self) -> int | None:
        """The step of the suggested rate: where the reward rises, or the loss falls, fastest.

        None if chance explains the rise, by Pettitt's test for a change (1979, *A Non-Parametric Approach to the
        Change-Point Problem*, section 2), one-sided, up to the clearest rise; its significance is the share of random
        orders with as clear a rise.
        """
        if len(self.values) <= _FIRST or not np.isfinite(self.values).all():
            return None
        sign = 1.0 if self.metric == "reward" else -1.0
        gains = sign * np.asarray(self.change())
        # At both ends windows are shorter, so a twice smoothed value there may be a single step.
        margin = min(self.window + 1, (len(gains) - 1) // 3)
        place = margin + int(np.argmax(gains[margin : len(gains) - margin]))
        return place if gains[place] > 0.0 and _chance(tuple(sign * value for value in self.values)) < _CHANCE else None

    @property
    def suggestion(self) -> float | None:
        """The suggested learning rate; None if nothing improved."""
        return None if self.best is None else self.rates[self.best]


@lru_cache(maxsize=1)
def _chance(values: tuple[float, ...]) -> float:
    """Share of random orders of ``values`` [n] with at least as clear a rise as in the given order."""
    above = np.sign(np.subtract.outer(values, values).T).astype(np.int32)  # [n, n]: 1: the second is above the first
    orders = max(_LEAST_ORDERS, min(_ORDERS, _PAIRS // len(values) ** 2))
    random = np.random.default_rng(0)
    rises = [_rise(above[np.ix_(order, order)]) for order in (random.permutation(len(values)) for _ in range(orders))]
    return float((np.array(rises) >= _rise(above)).mean())


def _rise(above: NDArray[np.int32]) -> int:
    """Maximum, over all prefixes cut in two, of the pairs across the cut that rise minus those that fall.

    The fall that ends a sweep is after the prefix, so it does not reduce the rise before it.

    Args:
        above: int32 [n, n], 1 where the second value is above the first, -1 below.
    """
    # Pairs within the first part cancel out, so the sum counts only the pairs across the cut.
    return int(above.cumsum(axis=0).cumsum(axis=1).max())
