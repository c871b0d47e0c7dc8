"""Figures of learning with actors: losses, costs, speeds, and the lag of the weights that acted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tau_trainer.metrics import keys
from tau_trainer.specs import Aggregation, IntArray

if TYPE_CHECKING:
    from tau_trainer.training.learning.progress import Progress


@dataclass(slots=True)
class Lag:
    """Lag of weights: how many opts or updates newer ones have, over transitions or updates."""

    count: int = 0
    total: float = 0.0
    most: int = 0

    def add(self, lags: IntArray) -> None:
        """Count n lags, [n]."""
        self.count += len(lags)
        self.total += float(lags.sum())
        self.most = max(self.most, int(lags.max(initial=0)))

    @property
    def mean(self) -> float:
        """Mean lag; 0 before the first one."""
        return self.total / self.count if self.count else 0.0


@dataclass(slots=True)
class _Cost:
    """Costs since the last record."""

    opts: int = 0
    opt_seconds: float = 0.0
    samples: int = 0
    sample_seconds: float = 0.0


@dataclass(slots=True)
class Means:
    """Statistics of updates, weighted by their gradient steps."""

    sums: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)

    def add(self, stats: Mapping[str, float]) -> None:
        """Add the statistics of one update."""
        weight = max(stats.get(keys.MINIBATCHES, 0.0), 1.0)
        for key, value in stats.items():
            self.sums[key] = self.sums.get(key, 0.0) + value * weight
            self.weights[key] = self.weights.get(key, 0.0) + weight

    def take(self) -> dict[str, float]:
        """Return the means so far, and clear them."""
        means = {key: value / self.weights[key] for key, value in self.sums.items()}
        self.sums, self.weights = {}, {}
        return means


class Figures:
    """The figures of one behavior.

    Attributes:
        lag: over all transitions so far.
        means: of the statistics of updates, until they are recorded.
    """

    def __init__(self, progress: Progress) -> None:
        """``progress``: of a learner, which may have samples and opts already."""
        self.lag = Lag()
        self.means = Means()
        self._progress, self._name, self._hub = progress, progress.name, progress.hub
        self._cost = _Cost()
        self._began, self._first = time.monotonic(), (progress.samples, progress.opts)
        self._rate_at = (self._began, *self._first)

    def took_in(self, samples: int, seconds: float, lags: IntArray) -> None:
        """Count samples that arrived after ``seconds`` on the way; ``lags`` [n] in opts, record by record."""
        self.lag.add(lags)
        self._hub.add(self._name, keys.POLICY_LAG, lags, Aggregation.HISTOGRAM)
        self._cost.samples += samples
        self._cost.sample_seconds += seconds

    def learned(self, opts: int, seconds: float) -> None:
        """Count gradient steps."""
        self._cost.opts += opts
        self._cost.opt_seconds += seconds

    def record(self) -> None:
        """Record the figures since the last record.

        Milliseconds per opt and per sample are -1 if there were none.
        """
        self._hub.add_all(self._name, self.means.take())
        samples, opts = self._progress.samples, self._progress.opts
        now, (since, samples_then, opts_then) = time.monotonic(), self._rate_at
        seconds, new_samples, new_opts = now - since, samples - samples_then, opts - opts_then
        cost, self._cost, self._rate_at = self._cost, _Cost(), (now, samples, opts)
        if not (cost.opts or cost.samples):
            return
        opt = 1000.0 * cost.opt_seconds / cost.opts if cost.opts else -1.0
        sample = 1000.0 * cost.sample_seconds / cost.samples if cost.samples else -1.0
        figures = {keys.AVERAGE_OPT_TIME: opt, keys.AVERAGE_SAMPLE_TIME: sample}
        if seconds > 0:
            figures |= {keys.SAMPLES_PER_SECOND: new_samples / seconds, keys.OPTS_PER_SECOND: new_opts / seconds}
        if new_opts:
            figures[keys.SAMPLES_PER_OPT] = new_samples / new_opts
        self._hub.add_all(self._name, figures)

    def lines(self) -> tuple[str, ...]:
        """The figures that border's trainer prints, and the lag, since this process started."""
        samples, opts = self._progress.samples, self._progress.opts
        seconds = max(time.monotonic() - self._began, 1e-9)
        new_samples, new_opts = samples - self._first[0], opts - self._first[1]
        per_opt = f"{new_samples / new_opts:.2f}" if new_opts else "-"
        return (
            f"{new_samples / seconds:,.0f} samples/s",
            f"{new_opts / seconds:,.0f} opts/s",
            f"{opts:,} opts, {per_opt} samples each",
            f"policy lag {self.lag.mean:,.0f} opts, at most {self.lag.most:,}",
        )
