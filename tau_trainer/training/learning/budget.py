"""The number of gradient steps for a number of transitions: the minimum, which acting waits for, and the maximum."""

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
"""Most gradient steps in one update: enough for full speed, few enough to take in new transitions soon."""
_BLOCK_S = 0.004
"""Seconds of gradient steps that fill spare time: short enough for new work, long enough to be worth an update."""

_now = time.monotonic

_Moment = tuple[float, float]
"""Samples and opts from which to count."""


class Budget:
    """Gradient steps (opts) that a learner owes for its samples, and those that it may take for them.

    Both grow linearly with samples. The counts of samples and opts are the learner's own.
    """

    def __init__(
        self, learner: Learner, hyper: OffPolicyHyperparameters, ratio: tuple[float, float], carried: float = math.inf
    ) -> None:
        """Counts from now.

        Args:
            learner: has its counters already if a run is resumed.
            hyper: hyperparameters of its algorithm.
            ratio: samples per opt, minimum and maximum.
            carried: opts that may still be taken for earlier samples when more samples arrive. If finite, steps taken
                beyond the owed ones do not reduce what later samples owe. If infinite, the ratio applies to all samples
                together.
        """
        self._progress, self._carried = learner.progress, carried
        self._least, self._most = ratio
        # If the replay memory was not saved, it has to be filled again, and the steps earned before are lost with it.
        first_samples, first_opts = (0, 0) if learner.remembers else (learner.progress.samples, learner.progress.opts)
        self._warm_at = first_samples + min(max(hyper.buffer_init_steps, hyper.batch_size), hyper.buffer_size)
        self._owed_from: _Moment = self._warm_at, first_opts
        self._allowed_from: _Moment = self._owed_from

    def take_in(self, samples: int) -> None:
        """Count samples that arrive."""
        progress = self._progress
        if math.isfinite(self._carried) and progress.samples >= self._warm_at:
            owed = max(self._line(self._owed_from, self._most, 0), 0.0)
            allowed = min(self._line(self._allowed_from, self._least, 0), max(self._carried, owed))
            self._owed_from = progress.samples, progress.opts + owed
            self._allowed_from = progress.samples, progress.opts + max(allowed, owed)
        progress.samples += samples

    def owed(self, samples: int = 0) -> int:
        """Opts that must be taken after ``samples`` more have arrived, before others are taken in."""
        return self._opts(self._owed_from, self._most, samples)

    def allowed(self, samples: int = 0) -> int:
        """Opts that may be taken after ``samples`` more have arrived."""
        return self._opts(self._allowed_from, self._least, samples)

    def _opts(self, begin: _Moment, ratio: float, samples: int) -> int:
        if self._progress.samples + samples < self._warm_at:
            return 0
        return math.floor(self._line(begin, ratio, samples))

    def _line(self, begin: _Moment, ratio: float, samples: int) -> float:
        """Opts earned by all samples and ``samples`` more, at ``ratio`` samples each, minus those taken."""
        first_samples, first_opts = begin
        return first_opts + (self._progress.samples + samples - first_samples) / ratio - self._progress.opts


def budget_of(learner: Learner, hyper: OffPolicyHyperparameters, *, repeatable: bool = False) -> Budget:
    """The budget for ``steps_per_update``.

    In a ``repeatable`` run, auto uses its minimum, because times always vary.
    """
    least, most = hyper.decisions_per_step
    if repeatable or least == most:
        return Budget(learner, hyper, (most, most))
    return Budget(learner, hyper, (least, most), carried=MOST_STEPS)


class Filling:
    """Gradient steps that fill the time which the game takes: steps of each update, and blocks of steps between them.

    Belongs to the event loop.
    """

    def __init__(self, learner: Learner, hyper: OffPolicyHyperparameters) -> None:
        """See :class:`Budget`."""
        self._learner, self._budget = learner, budget_of(learner, hyper)
        self._came = -math.inf
        self._every_s = self._update_s = self._step_s = 0.0
        """Seconds between two hand-overs, of an update from one of them, and of a gradient step."""

    def comes(self) -> None:
        """Report that new experience is handed over."""
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

        Experience that arrives during the block waits for its end. The block ends early enough to learn from that
        experience before the next arrives; otherwise the game would wait.
        """
        if self._learner.done or not self._step_s:
            return None
        to_come = max(0.0, self._came + self._every_s - _now())
        fitting = int((to_come + self._every_s - self._update_s) / self._step_s)
        steps = min(MOST_STEPS, max(1, int(_BLOCK_S / self._step_s)), fitting, self._budget.allowed())
        return Work(NO_TRANSITIONS, gradient_steps=steps) if steps > 0 else None

    @property
    def spent(self) -> bool:
        """Whether no more steps may be taken before new experience arrives."""
        return self._budget.allowed() <= 0

    def took(self, work: Work, seconds: float) -> None:
        """Report how many seconds an update took."""
        if work.gradient_steps:
            self._step_s = seconds / work.gradient_steps
        if work.data is not NO_TRANSITIONS:
            self._update_s = _mean(self._update_s, seconds)


def _mean(mean: float, newest: float) -> float:
    """A smoothed mean of a value that changes and has outliers, such as the first update."""
    return (mean + newest) / 2 if mean else newest
