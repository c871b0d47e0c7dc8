"""ParallelTrainerManager: starts, watches and cancels runs for the command line and the Python API.

Imports no torch, which takes seconds: what is wrong with a run for other reasons is told before.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tau_trainer import plugins
from tau_trainer.bridge.protocol import COMMUNICATION_VERSION
from tau_trainer.errors import EngineError, TauError
from tau_trainer.metrics import (
    Event,
    JsonLines,
    MetricsHub,
    Recorder,
    RunReport,
    RunSnapshot,
    TensorBoard,
    TerminalMode,
    Timer,
    TimersFile,
    terminal_recorder,
)
from tau_trainer.settings import RunSettings, check_device, dump_settings, resolve_seed
from tau_trainer.settings.batched import BatchedSettings
from tau_trainer.training.callbacks import Callback, named
from tau_trainer.training.plan import RunKind, RunPlan, make_plan
from tau_trainer.training.provenance import provenance, versions
from tau_trainer.training.resuming import check_resume
from tau_trainer.training.run_folder import RunFolder, atomic_write_json, atomic_write_text

if TYPE_CHECKING:
    from tau_trainer.training.run import TrainingRun

SettingsT = TypeVar("SettingsT", RunSettings, BatchedSettings)
_POLL_S = 0.2
"""How often waiting looks up, so that Ctrl-C is noticed on Windows too."""


class Session:
    """One run in a thread of its own. Made by :meth:`ParallelTrainerManager.start`."""

    def __init__(self, run: TrainingRun, folder: RunFolder) -> None:
        self.run_id = run.run_id
        self.folder = folder.path
        self._run = run
        self._folder = folder
        self._report: RunReport | None = None
        self._failure: BaseException | None = None
        self.plays = run.plan.inference
        """Whether a saved run is played without learning."""
        self._thread = threading.Thread(target=self._work, name=f"run {run.run_id}", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        import torch

        from tau_trainer.training.runner import run_to_end

        # Small networks gain nothing from a second thread inside one operation. torch keeps this number by thread.
        torch.set_num_threads(1)
        try:
            self._report = asyncio.run(run_to_end(self._run, self._folder))
        except BaseException as error:
            self._failure = error
        finally:
            self._run.pool.close()
            self._run.hub.close()
            if self.plays:
                shutil.rmtree(self._run.plan.log_folder, ignore_errors=True)
            elif self._run.nothing_learned and (self._report is None or self._report.outcome != "completed"):
                self._discard()
            self._folder.release()

    def _discard(self) -> None:
        """Nothing was learned, so no folder is left; but what an engine wrote that failed may say why."""
        error = self._failure
        logs = self._folder.discard(keep_logs=isinstance(error, EngineError))
        if isinstance(error, EngineError) and logs is not None:
            self._failure = type(error)(f"{error}; the engine's whole log is kept in {logs}")

    @property
    def running(self) -> bool:
        """Whether the run goes on."""
        return self._thread.is_alive()

    def status(self) -> RunSnapshot:
        """The run as it was a moment ago: it is looked at a few times a second. Call from any thread."""
        return self._run.seen

    def say(self, message: str) -> None:
        """Show the person who watches a line. Call from any thread."""
        self._run.hub.event("note", message=message)

    def cancel(self, *, at_once: bool = False) -> None:
        """Let every pair finish its exchange, then save, evaluate and export; ``at_once``: do not wait for pairs."""
        if at_once:
            self._run.request_cancel()
        else:
            self._run.request_finish()

    def wait(self, timeout: float | None = None) -> RunReport:
        """Wait for the end; the central report.

        Raises TauError when nothing could be trained, TimeoutError when ``timeout`` seconds were not enough.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._thread.is_alive():
            self._thread.join(_POLL_S)
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"run '{self.run_id}' has not ended within {timeout:g} s")
        if self._failure is not None:
            raise self._failure
        assert self._report is not None
        return self._report


class ParallelTrainerManager:
    """Starts runs and keeps an eye on them; :meth:`report` is the central report of all of them."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}

    def start(
        self,
        settings: RunSettings,
        command: RunKind = "parallel",
        *,
        recorders: Callable[[Path], Sequence[Recorder]] | None = None,
        terminal: TerminalMode = "quiet",
        command_line: Sequence[str] | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Session:
        """Begin a run in the background.

        ``recorders`` makes them from the run's folder; by default log.jsonl, TensorBoard, and the terminal in mode
        ``terminal``. ``callbacks``: told of the run, after those that the settings name.

        Raises SettingsError (RunExistsError), DataError, LaunchError, PortInUseError, CheckpointError and
        RunFinishedError (a run that cannot be resumed, or need not) before anything is left behind.
        """
        settings = resolve_seed(settings)
        check_device(settings)
        checkpoint = settings.checkpoint_settings
        results, plays = Path(checkpoint.results_dir), checkpoint.inference
        if plays:
            folder, logs = RunFolder.look(results, checkpoint.run_id), Path(tempfile.mkdtemp(prefix="tau-train-"))
        else:
            folder = RunFolder.create(results, checkpoint.run_id, resume=checkpoint.resume, force=checkpoint.force)
            logs = folder.engine_logs
        hub: MetricsHub | None = None
        try:
            plan = make_plan(command, settings, logs)
            heard = [*named(settings.callbacks), *callbacks]
            shown = None if recorders else terminal_recorder(terminal)
            if checkpoint.resume or plays:
                _say(shown, f"{checkpoint.run_id}: reading what was saved in {folder.path}")
                check_resume(folder, plan)
            _say(shown, _starting(checkpoint.run_id, plan))
            from tau_trainer.training.run import TrainingRun

            # What is kept comes before what is shown.
            timers = Timer()
            kept = [] if plays else kept_recorders(folder, settings, timers, command_line)
            shown_too = [] if shown is None else [shown]
            hub = MetricsHub(recorders(folder.path) if recorders else [*kept, *shown_too], timers=timers)
            again = checkpoint.resume or plays
            run = TrainingRun(plan, checkpoint.run_id, folder.path, hub, resume=again, callbacks=heard)
            if not plays:
                atomic_write_text(folder.configuration, dump_settings(lasting(settings)))
                atomic_write_json(folder.run_json, provenance(plan.seed, command_line))
        except BaseException:
            if hub is not None:
                hub.close()
            folder.discard()
            if plays:
                shutil.rmtree(logs, ignore_errors=True)
            raise
        session = self.sessions[checkpoint.run_id] = Session(run, folder)
        return session

    def status(self) -> dict[str, RunSnapshot]:
        """All runs now, by run-id."""
        return {run_id: session.status() for run_id, session in self.sessions.items()}

    def cancel(self, run_id: str) -> None:
        """Ask a run to end. Raises KeyError for one that was never started here."""
        self.sessions[run_id].cancel()

    def report(self) -> dict[str, RunReport]:
        """Wait for all runs; their reports by run-id. Runs that could not train are left out."""
        reports = {}
        for run_id, session in self.sessions.items():
            with contextlib.suppress(TauError):
                reports[run_id] = session.wait()
        return reports


def kept_recorders(
    folder: RunFolder, settings: RunSettings | BatchedSettings, timers: Timer, command_line: Sequence[str] | None
) -> list[Recorder]:
    """Recorders of what stays in the run's folder, those of other packages last. Raises SettingsError."""
    names = {"python": "python_version", "tau-trainer": "tau_trainer_version", "torch": "pytorch_version"}
    names |= {"numpy": "numpy_version"}
    facts = {names[package]: version for package, version in versions().items() if package in names and version}
    facts["communication_protocol_version"] = COMMUNICATION_VERSION
    facts["command_line_arguments"] = " ".join(sys.argv if command_line is None else command_line)
    others = [plugins.load("recorders", name)(settings, folder.path) for name in plugins.names("recorders")]
    return [JsonLines(folder.log), TensorBoard(folder.path), TimersFile(folder.timers, timers, facts), *others]


def _say(shown: Recorder | None, sentence: str) -> None:
    """Tell the person who watches, before there is a hub."""
    if shown is not None:
        shown.on_event(Event("starting", 0.0, {"message": sentence}))


def _starting(run_id: str, plan: RunPlan) -> str:
    """The first line of a run: what begins, before everything that takes long."""
    if plan.population:
        return f"{run_id}: preparing {plan.pairs} pairs as one computation ({plan.environment}), seed {plan.seed}"
    of = f" of {plan.pairs}" if plan.max_concurrent < plan.pairs else ""
    engines = f"starting {plan.max_concurrent}{of} engine{'s' if plan.pairs > 1 else ''} ({plan.environment})"
    return f"{run_id}: {f'preparing for {plan.environment}' if plan.source.invitation else engines}, seed {plan.seed}"


def lasting(settings: SettingsT) -> SettingsT:
    """Settings to begin a run with again: whether this start resumed or replaced one is no part of them."""
    once = settings.checkpoint_settings.model_copy(update={"resume": False, "force": False, "load_model": False})
    return settings.model_copy(update={"checkpoint_settings": once})
