"""The learning-rate finder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.errors import SettingsError
from tau_trainer.search.stopping import Stoppable
from tau_trainer.search.sweep import Sweep, learning_rates
from tau_trainer.search.trial import Begin, Ending, Metric, Trial, with_numbers
from tau_trainer.settings import RunSettings

STEPS, START, END, WINDOW = 40, 1e-6, 1e-1, 5
"""Defaults of a sweep."""


@dataclass(frozen=True, slots=True)
class LRResult:
    """Result of a sweep."""

    sweep: Sweep
    steps: int
    """Requested number of steps."""
    reason: str
    """Why the sweep ended, in words."""
    decisions: int

    @property
    def suggestion(self) -> float | None:
        """The suggested learning rate; None if the sweep does not show one."""
        return self.sweep.suggestion

    def to_dict(self) -> dict[str, Any]:
        """For ``lr.json``."""
        sweep = self.sweep
        columns = {
            "learning_rate": sweep.rates,
            sweep.metric: sweep.values,
            "mean_of_window": sweep.recent(),
            "normalized": sweep.normalized(),
            "smoothed": sweep.smoothed(),
            "change": sweep.change(),
        }
        return {
            "search": "lr",
            "metric": sweep.metric,
            "window": sweep.window,
            "suggestion": self.suggestion,
            "ended": self.reason,
            "decisions": self.decisions,
            "steps": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        }


class LRFinder(Stoppable):
    """Raises the learning rate during a short run, and finds the rate that learns fastest.

    Each learning rate is used for a minimum number of updates; with ``reward``, until the next end of an episode. Every
    behavior of the run learns with it.

    Args:
        settings: settings of a run of ``tau-train learn``.
        begin: state of a live learner (:func:`~tau_trainer.search.state_of`), to start with its weights.
    """

    def __init__(self, settings: RunSettings, *, begin: Begin | None = None) -> None:
        self._settings = settings
        self._begin = begin

    def find(
        self,
        metric: Metric = "reward",
        *,
        start: float = START,
        end: float = END,
        steps: int = STEPS,
        window: int = WINDOW,
        updates: int | None = None,
        on_step: Callable[[Sweep], None] | None = None,
    ) -> LRResult:
        """Sweep from ``start`` to ``end`` in ``steps`` factors; ``on_step`` is called after each.

        ``updates``: minimum updates with each learning rate; None: 1, or 10 if an update uses few decisions. Nothing
        existing changes: no file, not the learner that it starts from, no random generator.

        Raises:
            SettingsError: invalid numbers, or settings that cannot be tried.
            TauError: the environment failed.
        """
        if not 0.0 < start < end < float("inf"):
            raise SettingsError(f"a sweep goes from a learning rate above 0 to a larger one, not {start:g} to {end:g}")
        if steps < 2 or window < 1 or (updates is not None and updates < 1):
            raise SettingsError("a sweep needs at least 2 steps, a window of 1 and 1 update a step")
        sweep = Sweep(metric, window)
        least = updates or _usual_updates(self._settings)
        walk = _Walk(sweep, learning_rates(start, end, steps), least, on_step)
        settings = with_numbers(self._settings, learning_rate=start)
        episodes = walk.episodes if metric == "reward" else None
        walk.trial = trial = Trial(settings, begin=self._begin, on_episodes=episodes, on_update=walk.update)
        outcome = self.running(trial).run()
        return LRResult(sweep, steps, _reason(sweep, outcome.ending, whole=walk.whole), outcome.decisions)


class _Walk:
    """Moves from one learning rate to the next during a trial.

    By reward, the next rate follows at the first end of an episode after the updates; all episodes that end before the
    first update of the next rate count for the previous one.
    """

    trial: Trial

    def __init__(
        self, sweep: Sweep, rates: NDArray[np.float64], least: int, on_step: Callable[[Sweep], None] | None
    ) -> None:
        self._sweep, self._rates, self._least, self._on_step = sweep, rates, least, on_step
        self._values: list[float] = []
        self._updates = 0

    @property
    def whole(self) -> bool:
        """Whether every rate was tried."""
        return len(self._sweep.rates) == len(self._rates)

    def update(self, loss: float) -> None:
        """Record a finished update."""
        if self._sweep.metric == "loss":
            self._values.append(loss)
        elif self._values:
            self._measured()
        self._updates += 1
        if self._sweep.metric == "loss" and self._updates == self._least:
            self._measured()
            self._advance(len(self._sweep.rates))

    def episodes(self, returns: list[float]) -> None:
        """Record finished episodes."""
        if self._updates < self._least:
            return
        first, tried = not self._values, len(self._sweep.rates) + 1
        self._values += returns
        if tried == len(self._rates):
            self._measured()
        elif first:
            self._advance(tried)

    def _measured(self) -> None:
        self._sweep.add(float(self._rates[len(self._sweep.rates)]), float(np.mean(self._values)))
        self._values, self._updates = [], 0
        if self._on_step is not None:
            self._on_step(self._sweep)
        if self.whole or self._sweep.over is not None:
            self.trial.stop()

    def _advance(self, to: int) -> None:
        if to < len(self._rates):
            self.trial.learn_with(float(self._rates[to]))


def _usual_updates(settings: RunSettings) -> int:
    return 10 if any(trainer.hyperparameters.replays for trainer in settings.trainers) else 1


def _reason(sweep: Sweep, ending: Ending, *, whole: bool) -> str:
    if ending == "diverged":
        return "NaN"
    return sweep.over or ("the last learning rate was tried" if whole else "it was stopped")
