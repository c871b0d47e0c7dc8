"""A run of a sweep: it stops at each report, and goes on when it is told to. Knows nothing of who decides that."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from tau_trainer.bridge.protocol import BASE_PORT
from tau_trainer.errors import RunFinishedError, SettingsError, TauError
from tau_trainer.files import atomic_write_json
from tau_trainer.metrics import keys
from tau_trainer.runs.callbacks import Callback, EpisodeInfo, EvaluationInfo, SaveInfo
from tau_trainer.runs.folder import RunFolder
from tau_trainer.runs.moments import newest_moment
from tau_trainer.runs.session import Session
from tau_trainer.settings import RunSettings, SweepSettings, TrainerSettings, full_key, load_settings
from tau_trainer.training.manager import ParallelTrainerManager
from tau_trainer.training.plan import RunKind

BASE = "sweep.yaml"
"""In a sweep's folder: the settings that all trials share."""
STATE = "tune"
"""In a sweep's folder: what Ray Tune goes on from."""
_REPORT = "sweep.json"
"""In a trial's folder: its newest report."""
_POLL_S = 0.2
_LOCK_S = 120.0
"""How long the process that had this trial before may take to save it."""


@dataclass(frozen=True)
class Report:
    """How a trial does."""

    decisions: int = 0
    """Of the behavior that has most."""
    reward: float | None = None
    """Mean return of the episodes since the last report, of all behaviors together; None: none has ended yet."""
    accuracy: float | None = None
    """Of the newest policy on validation rows, 0 to 1; None: not evaluated."""
    ended: bool = False
    """Whether the run has come to its end."""
    error: str | None = None
    """Why it could not, in a sentence."""

    def value(self, metric: str) -> float:
        """What trials are compared by; NaN where there is none."""
        value = self.reward if metric == "reward" else self.accuracy
        return float("nan") if value is None else value


def sweep_of(settings: RunSettings) -> SweepSettings:
    """The section. Raises SettingsError where it is missing, or its trials could not start what they play."""
    if settings.sweep is None:
        raise SettingsError("there is no section sweep in these settings; say in sweep.space what is to be searched")
    if settings.env_settings.awaited:
        raise SettingsError(
            "a sweep starts its environments itself, and the Unity editor cannot be started, nor what joins by "
            "itself; name a build, headless:SCENE, gym:ID or pettingzoo:MODULE with --env"
        )
    if settings.cluster is not None:
        raise SettingsError("a trial is one machine's; say in sweep.cluster where trials run, and leave cluster out")
    if settings.sweep.metric == "accuracy" and settings.tau is None:
        raise SettingsError("sweep.metric accuracy is of the Tau task, whose settings have a section tau; use reward")
    return settings.sweep


def trainers_of(settings: RunSettings) -> list[TrainerSettings]:
    """Of every behavior, or those of whatever the environment shows."""
    return list(settings.behaviors.values()) or [settings.of_behavior("")]


def interval_of(settings: RunSettings) -> int:
    """Decisions between two reports."""
    trainers = trainers_of(settings)
    return sweep_of(settings).interval or min(trainer.summary_every(trainer.max_steps) for trainer in trainers)


def trial_settings(base: Path, values: Mapping[str, Any], trial: Path | None = None) -> RunSettings:
    """Settings of a trial that has these ``values``; without the folder of a ``trial`` as anybody may train on them.

    Raises SettingsError where they do not go together.
    """
    settings = load_settings(base, {full_key(key): value for key, value in values.items()})
    if trial is not None:
        if sweep_of(settings).scheduler == "pbt":
            every = {"behaviors.*.checkpoint_interval": interval_of(settings), "behaviors.*.even_checkpoints": False}
            settings = load_settings(base, {full_key(key): value for key, value in values.items()} | every)
        once = {"run_id": trial.name, "results_dir": str(trial.parent), "resume": False, "force": False}
        settings = settings.model_copy(
            update={
                "checkpoint_settings": settings.checkpoint_settings.model_copy(update=once | {"load_model": False}),
                # The first ports that are free: another trial may have those that the file names.
                "env_settings": settings.env_settings.model_copy(update={"base_port": BASE_PORT}),
            }
        )
    return settings.model_copy(update={"sweep": None})


class Member(Callback):
    """A trial, whose run goes on from where its folder stands.

    Args:
        base: the sweep's own settings, :data:`BASE` in its folder, which every machine must see.
        name: of the trial, whose run lies beside ``base``.
        values: by key of ``sweep.space``.
    """

    def __init__(self, base: Path, name: str, values: Mapping[str, Any]) -> None:
        if not base.is_file():
            raise TauError(
                f"{base}: is not on this machine; let --output, or --results-dir, be on a disk that all share"
            )
        settings = load_settings(base)
        asked = sweep_of(settings)
        self.waits = asked.scheduler == "pbt" and asked.synch
        """Whether all trials wait for each other once they are saved."""
        self._interval, self._saves = interval_of(settings), asked.scheduler == "pbt"
        self._folder, self._base, self._values = base.parent / name, base, dict(values)
        self._session: Session | None = None
        self._waiting: Report | None = None
        self._changed = threading.Condition()
        self._returns: list[float] = []
        self._decisions: dict[str, int] = {}
        self._last = self._read()
        self._saved = self._ending = False

    def _read(self) -> Report:
        try:
            return replace(Report(**json.loads((self._folder / _REPORT).read_bytes())), error=None, ended=False)
        except (OSError, ValueError, TypeError):
            return Report()

    def next(self) -> Report:
        """Let it go on until the next report; :attr:`Report.ended` with the last, which an error is too."""
        try:
            if self._session is None:
                self._session = self._begun()
            else:
                self._let_go()
            return self._heard(self._session)
        except RunFinishedError:  # whoever decides was ended before it knew
            return replace(self._last, ended=True)
        except TauError as error:
            return replace(self._last, ended=True, error=str(error))

    def _begun(self) -> Session:
        settings = trial_settings(self._base, self._values, self._folder)
        self._await_others()
        there = newest_moment(self._folder / "checkpoints").checkpoints
        # What was killed before it had saved anything begins anew.
        again = {"resume": bool(there), "force": not there and self._folder.exists()}
        chosen = settings.checkpoint_settings.model_copy(update=again)
        settings = settings.model_copy(update={"checkpoint_settings": chosen})
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

    def _heard(self, session: Session) -> Report:
        """The next report, or what the run has come to."""
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

    def _report(self, *, ended: bool = False) -> Report:
        mean = float(np.mean(self._returns)) if self._returns else self._last.reward
        self._returns.clear()
        decisions = max(self._decisions.values(), default=self._last.decisions)
        self._last = Report(decisions, mean, self._last.accuracy, ended)
        atomic_write_json(self._folder / _REPORT, asdict(self._last))
        return self._last

    def save(self, folder: Path) -> None:
        """Copy its newest checkpoints into ``folder``, for any trial to go on from."""
        (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
        for checkpoint in newest_moment(self._folder / "checkpoints").checkpoints.values():
            shutil.copytree(checkpoint.path, folder / "checkpoints" / checkpoint.path.name)
        atomic_write_json(folder / _REPORT, asdict(self._last))

    def load(self, folder: Path) -> None:
        """Go on from what :meth:`save` has left in ``folder``, of whichever trial that was. Before it begins."""
        self._await_others()
        shutil.rmtree(self._folder / "checkpoints", ignore_errors=True)
        shutil.copytree(folder / "checkpoints", self._folder / "checkpoints")
        shutil.copyfile(folder / _REPORT, self._folder / _REPORT)
        self._last = self._read()

    def end(self) -> None:
        """End it now, and save it; :meth:`next` would go on from there."""
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
