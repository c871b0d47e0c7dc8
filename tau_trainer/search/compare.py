"""Compares several settings under the same conditions: optimizers, or whole agents."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, get_args

from tau_trainer.errors import SettingsError, TauError
from tau_trainer.remote.process import Place
from tau_trainer.search.elsewhere import TrialElsewhere
from tau_trainer.search.trial import Begin, Metric, Trial, TrialResult, usual_decisions, with_numbers
from tau_trainer.settings import RunSettings
from tau_trainer.settings.hyperparameters import Optimizer

OPTIMIZERS: tuple[str, ...] = get_args(Optimizer)


@dataclass(frozen=True, slots=True)
class CandidateResult:
    """A candidate and its result."""

    name: str
    outcome: TrialResult
    error: str | None = None
    """Why the candidate could not be tried."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Results of candidates, best first, in the order of :func:`ranked`."""

    search: str
    """``optimizer`` or ``agent``."""
    metric: Metric
    tried: tuple[CandidateResult, ...]

    @property
    def best(self) -> str | None:
        """The name of the best; None if nothing was measured."""
        first = next(iter(self.tried), None)
        return first.name if first is not None and first.outcome.mean(self.metric) is not None else None

    def to_dict(self) -> dict[str, Any]:
        """For ``optimizer.json`` or ``agent.json``."""
        return {
            "search": self.search,
            "metric": self.metric,
            "best": self.best,
            "candidates": [
                {
                    "name": trial.name,
                    "mean_reward": trial.outcome.mean("reward"),
                    "mean_loss": trial.outcome.mean("loss"),
                    "episodes": len(trial.outcome.rewards),
                    "updates": len(trial.outcome.losses),
                    "decisions": trial.outcome.decisions,
                    "ended": trial.outcome.ending if trial.error is None else "failed",
                    "error": trial.error,
                }
                for trial in self.tried
            ],
        }


Told = Callable[[str, TrialResult, int], None]
"""Called with a candidate's name, its results so far, and its total decisions; from any thread."""


class AgentFinder:
    """Trains candidates for the same number of decisions each, and ranks them by mean reward or mean loss.

    The mean is over all episodes, or updates, of the trial, so a candidate that learns sooner has a better mean.

    Args:
        candidates: settings by name, each of a run of ``tau-train learn``.
        begin: state of a live learner (:func:`~tau_trainer.search.state_of`): candidates start with its weights and an
            empty buffer, and are tried in this process.
    """

    search = "agent"

    def __init__(self, candidates: Mapping[str, RunSettings], *, begin: Begin | None = None) -> None:
        if len(candidates) < 2:
            raise SettingsError("a comparison needs at least two candidates; name more files or more values")
        self._candidates = dict(candidates)
        self._begin = begin
        self._stopping = threading.Event()
        self._running: list[Trial | TrialElsewhere] = []

    def find(
        self,
        metric: Metric = "reward",
        *,
        decisions: int | None = None,
        jobs: int | None = None,
        on_progress: Told | None = None,
        place: Place | None = None,
    ) -> Comparison:
        """Try all candidates.

        Nothing existing changes: no file, not the learner that they start from, no random generator.

        Args:
            metric: value to rank by.
            decisions: decisions of each; None: those of 20 updates, or off-policy 10,000, and at most the run's own.
            jobs: trials at once, each in its own process; 1: in this process. None: one for each core.
            on_progress: called regularly.
            place: where to run this number of ``jobs`` at once, such as the nodes of a cluster; None: here.

        Raises:
            SettingsError: invalid numbers.
            TauError: no candidate could be tried.
        """
        if (decisions is not None and decisions < 1) or (jobs is not None and jobs < 1):
            raise SettingsError("a comparison needs at least 1 decision and 1 job")
        jobs = min(jobs or os.cpu_count() or 1, len(self._candidates))
        length = decisions or max(usual_decisions(settings) for settings in self._candidates.values())
        progress = on_progress or (lambda name, outcome, decisions: None)
        if (jobs == 1 and place is None) or self._begin is not None:
            tried = [self._here(name, length, progress) for name in self._candidates if not self._stopping.is_set()]
        else:
            with ThreadPoolExecutor(jobs) as pool:
                waiting = [pool.submit(self._elsewhere, name, length, place, progress) for name in self._candidates]
                tried = [trial for found in waiting if (trial := found.result()) is not None]
        if tried and all(trial.error is not None for trial in tried):
            raise TauError(str(tried[0].error))
        return Comparison(self.search, metric, ranked(tried, metric))

    def stop(self) -> None:
        """End all trials soon, and keep the results. Call from any thread."""
        self._stopping.set()
        for trial in list(self._running):
            trial.stop()

    def _here(self, name: str, decisions: int, progress: Told) -> CandidateResult:
        def tell(_: object) -> None:
            progress(name, trial.outcome, decisions)

        try:
            trial = Trial(self._candidates[name], decisions, begin=self._begin, on_episodes=tell, on_update=tell)
            return self._tried(name, trial)
        except TauError as error:
            return CandidateResult(name, TrialResult(), str(error))

    def _elsewhere(self, name: str, decisions: int, place: Place | None, progress: Told) -> CandidateResult | None:
        if self._stopping.is_set():
            return None

        def tell(seen: TrialResult) -> None:
            progress(name, seen, decisions)

        return self._tried(name, TrialElsewhere(self._candidates[name], decisions, tell, place))

    def _tried(self, name: str, trial: Trial | TrialElsewhere) -> CandidateResult:
        self._running.append(trial)
        if self._stopping.is_set():
            trial.stop()
        try:
            return CandidateResult(name, trial.run())
        except TauError as error:
            return CandidateResult(name, trial.outcome, str(error))
        finally:
            self._running.remove(trial)


class OptFinder(AgentFinder):
    """Trains with each optimizer, from the same first weights and an empty buffer, and ranks them.

    Args:
        settings: settings of a run of ``tau-train learn``, with a seed, which determines the first weights.
        optimizers: values of ``hyperparameters.optimizer``.
        begin: state of a live learner, to start with its weights.
    """

    search = "optimizer"

    def __init__(
        self, settings: RunSettings, optimizers: Sequence[str] = OPTIMIZERS, *, begin: Begin | None = None
    ) -> None:
        for name in optimizers:
            if name not in OPTIMIZERS:
                raise SettingsError(f"{name}: unknown optimizer; known: {', '.join(OPTIMIZERS)}")
        super().__init__({name: with_numbers(settings, optimizer=name) for name in optimizers}, begin=begin)


def ranked(tried: Sequence[CandidateResult], metric: Metric) -> tuple[CandidateResult, ...]:
    """Best first: complete trials, then stopped ones, then those without a result.

    Stopped trials have different numbers of decisions, so only the decisions that all of them have made count.
    """
    common = min((trial.outcome.decisions for trial in tried if trial.outcome.ending == "stopped"), default=None)

    def rank(trial: CandidateResult) -> tuple[int, float]:
        stopped = trial.outcome.ending == "stopped"
        mean = trial.outcome.mean(metric, common if stopped else None)
        if trial.error is not None or trial.outcome.mean(metric) is None:
            return 2, 0.0
        mean = float("inf") if mean is None else -mean if metric == "reward" else mean
        return int(stopped), mean

    return tuple(sorted(tried, key=rank))
