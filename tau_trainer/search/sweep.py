"""A learning rate that grows from step to step, what came of each, when to stop, and which one to take.

A range test (Smith 2017, *Cyclical Learning Rates*, section 3.3): the rate grows exponentially while training goes on.
With a rate that is far too small nothing changes, with a good one the measure gets better, with one too large it falls
apart. The one to take is where it gets better fastest.
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
"""Steps before anything can stop a sweep."""
_WORST_LOSS = 4.0
"""Times the best loss."""
_WORST_REWARD = 0.5
"""Share of the best reward that may be lost."""
_ORDERS = 5000
"""Random orders of the values that were measured, among which the one that was seen is looked for."""
_LEAST_ORDERS = 500
"""Of long sweeps."""
_PAIRS = 50_000_000
"""That are compared in all orders together, about: a second."""
_CHANCE = 0.01
"""Share of them that may rise as far: above that a rise is what chance brings."""
_LEAST = 1e-8
"""Of a deviation that is divided by."""


def learning_rates(start: float, end: float, steps: int) -> NDArray[np.float64]:
    """``steps + 1`` rates from ``start`` to ``end``, each the same factor times the one before."""
    return np.geomspace(start, end, steps + 1)


@dataclass(slots=True)
class Sweep:
    """What was measured so far, one value for each learning rate."""

    metric: Metric
    window: int = 5
    """Steps that are averaged."""
    rates: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    """Mean return of the episodes, or mean loss of the updates, of each step."""

    def add(self, rate: float, value: float) -> None:
        """A step is over."""
        self.rates.append(rate)
        self.values.append(value)

    @property
    def over(self) -> str | None:
        """Why no further rate is worth trying, in words; None: go on.

        After the first steps a loss ends it that is four times the best, and a reward that has fallen from the best
        by half of it, or by one deviation where that is more. Both are means over the window: whatever their sign and
        size, a single bad episode ends nothing.
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
        """Of each step the mean over the window that ends there."""
        return [float(np.mean(part)) for part in self._windows()]

    def normalized(self) -> list[float]:
        """Of each step how many deviations of the window that ends there it lies above that window's mean."""
        values = zip(self.values, self._windows(), strict=True)
        return [float((value - np.mean(part)) / (np.std(part) + _LEAST)) for value, part in values]

    def _windows(self) -> list[Sequence[float]]:
        return [self.values[max(0, i + 1 - self.window) : i + 1] for i in range(len(self.values))]

    def smoothed(self) -> list[float]:
        """Of each step the mean over the window around it, which lags behind nothing."""
        return moving_mean(self.values, self.window)

    def change(self) -> list[float]:
        """Derivative of :meth:`smoothed` by the logarithm of the rate to base 10, smoothed once more."""
        if len(self.values) < 2:
            return [0.0] * len(self.values)
        return moving_mean(np.gradient(np.asarray(self.smoothed()), np.log10(self.rates)).tolist(), self.window)

    @property
    def best(self) -> int | None:
        """The step whose rate is suggested: where the reward rises, or the loss falls, fastest.

        None where chance explains that some values are above those before them: Pettitt's test for a change (1979, *A
        Non-Parametric Approach to the Change-Point Problem*, section 2), one-sided, up to wherever the rise is
        clearest, whose share of random orders is counted.
        """
        if len(self.values) <= _FIRST or not np.isfinite(self.values).all():
            return None
        sign = 1.0 if self.metric == "reward" else -1.0
        gains = sign * np.asarray(self.change())
        # At both ends windows are cut short: what is smoothed twice there may be a single step.
        margin = min(self.window + 1, (len(gains) - 1) // 3)
        place = margin + int(np.argmax(gains[margin : len(gains) - margin]))
        return place if gains[place] > 0.0 and _chance(tuple(sign * value for value in self.values)) < _CHANCE else None

    @property
    def suggestion(self) -> float | None:
        """The learning rate to take; None where nothing got better."""
        return None if self.best is None else self.rates[self.best]


@lru_cache(maxsize=1)
def _chance(values: tuple[float, ...]) -> float:
    """Share of random orders of ``values`` [n] in which there is as clear a rise as in theirs."""
    above = np.sign(np.subtract.outer(values, values).T).astype(np.int32)  # [n, n]: 1: the second is above the first
    orders, random = max(_LEAST_ORDERS, min(_ORDERS, _PAIRS // len(values) ** 2)), np.random.default_rng(0)
    rises = [_rise(above[np.ix_(order, order)]) for order in (random.permutation(len(values)) for _ in range(orders))]
    return float((np.array(rises) >= _rise(above)).mean())


def _rise(above: NDArray[np.int32]) -> int:
    """Over all stretches that begin with the first value, cut in two: pairs that rise, less those that fall.

    The fall that ends a sweep is behind the stretch, and takes nothing from the rise before it.

    Args:
        above: int32 [n, n], 1 where the second value is above the first, -1 below.
    """
    # Pairs within the first part are above each other as often as below, so a sum over both counts those between.
    return int(above.cumsum(axis=0).cumsum(axis=1).max())
