"""How many gradient steps so many transitions are worth: at least, which are waited for, and at most."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tau_trainer.memory import NO_TRANSITIONS, Rollout, Work
from tau_trainer.settings import OffPolicyHyperparameters

if TYPE_CHECKING:
    from tau_trainer.training.learning.learner import Learner

MOST_STEPS = 64
"""Gradient steps in one update: large enough for full speed, and new transitions are soon taken in."""
_BLOCK_S = 0.004
"""Of gradient steps that fill time: what comes meanwhile waits so long at most, and an update is worth beginning."""

_now = time.monotonic

_Moment = tuple[float, float]
"""Samples and opts from which is counted."""


class Budget:
    """Gradient steps (opts) that a learner owes for its samples, and those that it may take for them.

    Both are straight lines over samples, and samples and opts are the learner's own counts.
    """

    def __init__(
        self, learner: Learner, numbers: OffPolicyHyperparameters, ratio: tuple[float, float], carried: float = math.inf
    ) -> None:
        """Counts from now.

        Args:
            learner: has its counters already, where a run is resumed.
            numbers: of its algorithm.
            ratio: samples for each opt, at least and at most.
            carried: opts that may still be taken for earlier samples once more samples come; and then what was taken
                beyond what is owed does not lessen what those owe. Infinite: the ratio is one of all samples together.
        """
        self._progress, self._carried = learner.progress, carried
        self._least, self._most = ratio
        # Where the replay memory was not kept it has to be filled again, and what was earned before is gone with it.
        first_samples, first_opts = (0, 0) if learner.remembers else (learner.progress.samples, learner.progress.opts)
        self._warm_at = first_samples + min(max(numbers.buffer_init_steps, numbers.batch_size), numbers.buffer_size)
        self._owed_from: _Moment = self._warm_at, first_opts
        self._allowed_from: _Moment = self._owed_from

    def take_in(self, samples: int) -> None:
        """So many samples come in."""
        progress = self._progress
        if math.isfinite(self._carried) and progress.samples >= self._warm_at:
            owed = max(self._line(self._owed_from, self._most, 0), 0.0)
            allowed = min(self._line(self._allowed_from, self._least, 0), max(self._carried, owed))
            self._owed_from = progress.samples, progress.opts + owed
            self._allowed_from = progress.samples, progress.opts + max(allowed, owed)
        progress.samples += samples

    def owed(self, samples: int = 0) -> int:
        """Opts that have to be taken once so many samples more are there, before others are."""
        return self._opts(self._owed_from, self._most, samples)

    def allowed(self, samples: int = 0) -> int:
        """Opts that may be taken once so many samples more are there."""
        return self._opts(self._allowed_from, self._least, samples)

    def _opts(self, begin: _Moment, ratio: float, samples: int) -> int:
        if self._progress.samples + samples < self._warm_at:
            return 0
        return math.floor(self._line(begin, ratio, samples))

    def _line(self, begin: _Moment, ratio: float, samples: int) -> float:
        """Opts that are left of what so many samples more would have earned, at ``ratio`` samples each."""
        first_samples, first_opts = begin
        return first_opts + (self._progress.samples + samples - first_samples) / ratio - self._progress.opts


def budget_of(learner: Learner, numbers: OffPolicyHyperparameters, *, repeatable: bool = False) -> Budget:
    """By ``steps_per_update``; auto is its floor in a run that is ``repeatable``, for time is never the same twice."""
    least, most = numbers.decisions_per_step
    if repeatable or least == most:
        return Budget(learner, numbers, (most, most))
    return Budget(learner, numbers, (least, most), carried=MOST_STEPS)


class Filling:
    """Gradient steps that fill the time which the game takes: how many each update takes, and what comes between.

    Belongs to the event loop.
    """

    def __init__(self, learner: Learner, numbers: OffPolicyHyperparameters) -> None:
        """As :class:`Budget`."""
        self._learner, self._budget = learner, budget_of(learner, numbers)
        self._came = -math.inf
        self._every_s = self._update_s = self._step_s = 0.0
        """Seconds between two hand-overs, of an update from one of them, and of a gradient step."""

    def comes(self) -> None:
        """New experience is handed over."""
        now = _now()
        if math.isfinite(self._came):
            self._every_s = _mean(self._every_s, now - self._came)
        self._came = now

    def taken_in(self, work: Work) -> Work:
        """New experience with the steps that are owed for it."""
        self._budget.take_in(len(Rollout(work)))
        return replace(work, gradient_steps=self._budget.owed())

    def between(self) -> Work | None:
        """A block of steps from earlier experience; None: the learner rests.

        What comes meanwhile waits for the block, and is to be learned from before the next after it comes: else the
        game would wait.
        """
        if self._learner.done or not self._step_s:
            return None
        to_come = max(0.0, self._came + self._every_s - _now())
        fitting = int((to_come + self._every_s - self._update_s) / self._step_s)
        steps = min(MOST_STEPS, max(1, int(_BLOCK_S / self._step_s)), fitting, self._budget.allowed())
        return Work(NO_TRANSITIONS, gradient_steps=steps) if steps > 0 else None

    @property
    def spent(self) -> bool:
        """Whether no more steps may be taken before there is new experience."""
        return self._budget.allowed() <= 0

    def took(self, work: Work, seconds: float) -> None:
        """An update took so long."""
        if work.gradient_steps:
            self._step_s = seconds / work.gradient_steps
        if work.data is not NO_TRANSITIONS:
            self._update_s = _mean(self._update_s, seconds)


def _mean(mean: float, newest: float) -> float:
    """Of what changes and has spikes, as the first update is one."""
    return (mean + newest) / 2 if mean else newest
