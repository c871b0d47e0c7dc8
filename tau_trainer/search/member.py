"""A trial of a sweep: it pauses at each report until it may continue. It does not depend on the scheduler."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from typing_extensions import override

from tau_trainer.bridge.protocol import BASE_PORT
from tau_trainer.errors import RunFinishedError, SettingsError, TauError
from tau_trainer.files import atomic_write_json
from tau_trainer.metrics import keys
from tau_trainer.runs.callbacks import Callback, EpisodeInfo, EvaluationInfo, SaveInfo
from tau_trainer.runs.checkpoint_sets import latest_set
from tau_trainer.runs.folder import RunFolder
from tau_trainer.runs.session import Session
from tau_trainer.search.trial import check_startable
from tau_trainer.settings import RunSettings, SweepSettings, full_key, load_settings
from tau_trainer.settings.run import ANEW
from tau_trainer.specs import Json
from tau_trainer.training.manager import ParallelTrainerManager
from tau_trainer.training.plan import RunKind

BASE = "sweep.yaml"
"""File in a sweep's folder with the settings that all trials share."""
STATE = "tune"
"""Folder in a sweep's folder with the state that Ray Tune resumes from."""
_REPORT = "sweep.json"
"""File in a trial's folder with its newest report."""
_POLL_S = 0.2
_LOCK_S = 120.0
"""Seconds to wait for the previous process of the trial to save it."""


@dataclass(frozen=True)
class TrialReport:
    """Progress of a trial."""

    decisions: int = 0
    """Decisions of the behavior with the most."""
    reward: float | None = None
    """Mean return of the episodes since the last report, over all behaviors; None if no episode has ended yet."""
    accuracy: float | None = None
    """Accuracy of the newest policy on validation rows, 0 to 1; None: not evaluated."""
    ended: bool = False
    """Whether the run has ended."""
    error: str | None = None
    """Why the run failed, in a sentence."""

    def value(self, metric: str) -> float:
        """The value to compare trials by; NaN if there is none."""
        value = self.reward if metric == "reward" else self.accuracy
        return float("nan") if value is None else value


def sweep_of(settings: RunSettings) -> SweepSettings:
    """The section ``sweep``. Raises SettingsError if it is missing, or its trials cannot start their environments."""
    if settings.sweep is None:
        raise SettingsError("there is no section sweep in these settings; add sweep.space with the settings to search")
    check_startable(settings, "sweep")
    if settings.cluster is not None:
        raise SettingsError("each trial runs on one machine; set sweep.cluster for the trials, and leave cluster out")
    if settings.sweep.metric == "accuracy" and settings.tau is None:
        raise SettingsError("sweep.metric accuracy needs the Tau task (a section tau in the settings); use reward")
    return settings.sweep


def interval_of(settings: RunSettings) -> int:
    """Decisions between two reports."""
    every = (trainer.summary_every(trainer.max_steps) for trainer in settings.trainers)
    return sweep_of(settings).interval or min(every)


def trial_settings(base: Path, values: Json, trial: Path | None = None) -> RunSettings:
    """Settings of a trial with these ``values``, in the folder ``trial``; None: settings for any run.

    Raises SettingsError if the values contradict each other.
    """
    settings = load_settings(base, {full_key(key): value for key, value in values.items()})
    if trial is not None:
        if sweep_of(settings).scheduler == "pbt":
            every = {"behaviors.*.checkpoint_interval": interval_of(settings), "behaviors.*.even_checkpoints": False}
            settings = load_settings(base, {full_key(key): value for key, value in values.items()} | every)
        once = {"run_id": trial.name, "results_dir": str(trial.parent), **ANEW}
        # Use the first free ports: another trial may use those of the file.
        settings = settings.having(checkpoint_settings=once, env_settings={"base_port": BASE_PORT})
    return settings.having(sweep=None)


class Member(Callback):
    """A trial, whose run resumes from its folder.

    Args:
        base: the sweep's settings, :data:`BASE` in its folder, which all machines must share.
        name: name of the trial, whose run is next to ``base``.
        values: values by key of ``sweep.space``.
    """

    def __init__(self, base: Path, name: str, values: Json) -> None:
        if not base.is_file():
            raise TauError(
                f"{base}: is not on this machine; choose --output, or --results-dir, on a disk that all machines share"
            )
        settings = load_settings(base)
        asked = sweep_of(settings)
        self.waits = asked.scheduler == "pbt" and asked.synch
        """Whether all trials wait for each other after they are saved."""
        self._interval, self._saves = interval_of(settings), asked.scheduler == "pbt"
        self._folder, self._base, self._values = base.parent / name, base, dict(values)
        self._session: Session | None = None
        self._waiting: TrialReport | None = None
        self._changed = threading.Condition()
        self._returns: list[float] = []
        self._decisions: dict[str, int] = {}
        self._last = self._read()
        self._saved = self._ending = False

    def _read(self) -> TrialReport:
        try:
            return replace(TrialReport(**json.loads((self._folder / _REPORT).read_bytes())), error=None, ended=False)
        except (OSError, ValueError, TypeError):
            return TrialReport()

    def next(self) -> TrialReport:
        """Continue until the next report; the last one, also after an error, has :attr:`TrialReport.ended`."""
        try:
            if self._session is None:
                self._session = self._begun()
            else:
                self._let_go()
            return self._heard(self._session)
        except RunFinishedError:  # the scheduler was ended before it received the last report
            return replace(self._last, ended=True)
        except TauError as error:
            return replace(self._last, ended=True, error=str(error))

    def _begun(self) -> Session:
        settings = trial_settings(self._base, self._values, self._folder)
        self._await_others()
        there = latest_set(self._folder / "checkpoints").checkpoints
        # A trial that was killed before it saved anything starts from scratch.
        again = {"resume": bool(there), "force": not there and self._folder.exists()}
        settings = settings.having(checkpoint_settings=again)
        command: RunKind = "learn" if settings.tau is None else "parallel"
        return ParallelTrainerManager().start(settings, command, callbacks=[self])

    def _await_others(self) -> None:
        until = time.monotonic() + _LOCK_S
        while RunFolder(self._folder).being_trained and time.monotonic() < until:
            time.sleep(_POLL_S)

    def _let_go(self) -> None:
        with self._changed:
            self._waiting = None
            self._changed.notify_all()

    def _heard(self, session: Session) -> TrialReport:
        """The next report, or the last one after the end of the run."""
        with self._changed:
            while self._waiting is None and session.running:
                self._changed.wait(_POLL_S)
            if self._waiting is not None:
                return self._waiting
        result = session.wait()
        if result.outcome == "failed":
            raise TauError(next(iter(result.errors), "it has failed"))
        self._decisions |= {behavior.name: behavior.step for behavior in result.behaviors}
        return self._report(ended=True)

    def _report(self, *, ended: bool = False) -> TrialReport:
        mean = float(np.mean(self._returns)) if self._returns else self._last.reward
        self._returns.clear()
        decisions = max(self._decisions.values(), default=self._last.decisions)
        self._last = TrialReport(decisions, mean, self._last.accuracy, ended)
        atomic_write_json(self._folder / _REPORT, asdict(self._last))
        return self._last

    def save(self, folder: Path) -> None:
        """Copy the newest checkpoints to ``folder``, for any trial to continue from."""
        (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
        for checkpoint in latest_set(self._folder / "checkpoints").checkpoints.values():
            shutil.copytree(checkpoint.path, folder / "checkpoints" / checkpoint.path.name)
        atomic_write_json(folder / _REPORT, asdict(self._last))

    def load(self, folder: Path) -> None:
        """Continue from what :meth:`save` of any trial has written to ``folder``. Call it before the run starts."""
        self._await_others()
        shutil.rmtree(self._folder / "checkpoints", ignore_errors=True)
        shutil.copytree(folder / "checkpoints", self._folder / "checkpoints")
        shutil.copyfile(folder / _REPORT, self._folder / _REPORT)
        self._last = self._read()

    def end(self) -> None:
        """End the run now, and save it; :meth:`next` would continue from there."""
        if self._session is not None:
            self._ending = True
            self._session.cancel(at_once=True)
            self._let_go()
            with contextlib.suppress(TauError):  # it had nothing to save
                self._session.wait()
            self._session, self._ending = None, False

    @override
    def on_episode_end(self, info: EpisodeInfo) -> None:
        assert info.reward is not None
        self._returns.append(info.reward)
        self._decisions[info.behavior] = info.decisions
        due = self._saved if self._saves else info.decisions >= self._last.decisions + self._interval
        if due and not self._ending:
            self._saved = False
            with self._changed:
                self._waiting = self._report()
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting is None)

    @override
    def on_evaluation_end(self, info: EvaluationInfo) -> None:
        accuracy = info.scores.get(keys.VALIDATION_ACCURACY)
        self._last = replace(self._last, accuracy=self._last.accuracy if accuracy is None else accuracy)

    @override
    def on_save_end(self, info: SaveInfo) -> None:
        self._saved = info.path is not None
