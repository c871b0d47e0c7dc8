"""ParallelTrainerManager: starts, watches and cancels runs for the command line and the Python API.

Imports no torch, which takes seconds to load, so that problems that do not need torch are reported at once.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

from tau_trainer.errors import TauError
from tau_trainer.metrics import Recorder, RunReport, RunSnapshot, TerminalMode
from tau_trainer.runs.callbacks import Callback
from tau_trainer.runs.collector import Collector
from tau_trainer.runs.folder import called
from tau_trainer.runs.run import Run
from tau_trainer.runs.session import Begin, Session, start
from tau_trainer.settings import RunSettings, check_device, dump_settings, resolve_seed
from tau_trainer.settings.gathering import check_trainable
from tau_trainer.settings.outlook import untrainable
from tau_trainer.settings.problems import check_chosen
from tau_trainer.training.elsewhere import changed, machines_of
from tau_trainer.training.plan import RunKind, RunPlan, is_offline, make_plan
from tau_trainer.training.resuming import check_resume
from tau_trainer.training.task import sized


class ParallelTrainerManager:
    """Starts runs and tracks them; :meth:`report` returns the reports of all of them."""

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
        """Start a run of pairs, of recordings, or of a batched environment in the background, as the settings say.

        A run without a name is named after its behavior or environment, with a number.

        ``recorders`` makes the recorders from the run's folder; by default log.jsonl, TensorBoard, and the terminal in
        mode
        ``terminal``. ``callbacks``: called after those that the settings name.

        Raises SettingsError (RunExistsError), DataError, LaunchError, PortInUseError, CheckpointError and
        RunFinishedError (a run that cannot or need not be resumed). In all these cases no files are left behind.
        """
        begin: Begin
        check_chosen(settings, *(["env_settings"] if settings.checkpoint_settings.inference else []))
        check_trainable(untrainable(settings))
        check_device(settings)
        settings = resolve_seed(_called(settings))
        if settings.environment is not None:
            from tau_trainer.training.batched.api import collector_of

            begin = partial(collector_of, settings)
        else:
            if command == "parallel":
                settings = sized(settings)
            offline = command == "learn" and is_offline(settings)
            begin = partial(_recordings, settings) if offline else partial(_pairs, command, settings)
        session = self.sessions[settings.checkpoint_settings.run_id] = start(
            settings,
            dump_settings(lasting(settings)),
            settings.env_settings.seed,
            begin,
            recorders=recorders,
            terminal=terminal,
            command_line=command_line,
            callbacks=callbacks,
        )
        return session

    def status(self) -> dict[str, RunSnapshot]:
        """Snapshots of all runs, by run-id."""
        return {run_id: session.status() for run_id, session in self.sessions.items()}

    def cancel(self, run_id: str) -> None:
        """Ask a run to end. Raises KeyError for a run that was not started here."""
        self.sessions[run_id].cancel()

    def report(self) -> dict[str, RunReport]:
        """Wait for all runs and return their reports by run-id. Runs that could not train are left out."""
        reports = {}
        for run_id, session in self.sessions.items():
            with contextlib.suppress(TauError):
                reports[run_id] = session.wait()
        return reports


@contextmanager
def _pairs(command: RunKind, settings: RunSettings, run: Run) -> Iterator[Collector]:
    """The collector that gathers the experience of pairs."""
    logs = Path(tempfile.mkdtemp(prefix="tau-train-")) if run.plays else run.folder.engine_logs
    try:
        with machines_of(command, settings, run.say) as (settings, machines):
            plan = make_plan(command, settings, logs)
            if run.folder.resumed or run.plays:
                run.say(f"reading what was saved in {run.folder.path}")
                check_resume(run.folder, plan)
            run.say(_starting(plan))
            if (size := getattr(plan.task, "size", None)) is not None:
                run.say(size(settings))
            with nullcontext() if machines is not None else run.abandonable():
                import torch

                from tau_trainer.training.pairs.collector import PairsCollector

            # Small networks gain nothing from a second thread inside one operation. torch keeps this number by thread.
            torch.set_num_threads(1)
            collector = PairsCollector(plan, run, machines)
            if machines is not None:
                collector.configuration = dump_settings(lasting(settings))
            try:
                yield collector
            finally:
                collector.close()
    finally:
        if run.plays:
            shutil.rmtree(logs, ignore_errors=True)


@contextmanager
def _recordings(settings: RunSettings, run: Run) -> Iterator[Collector]:
    """The collector that learns from recordings."""
    run.say(f"reading recordings, seed {run.seed}")
    with run.abandonable():
        import torch

        from tau_trainer.training.offline import RecordingsCollector

    torch.set_num_threads(1)
    yield RecordingsCollector(settings, run)


def _starting(plan: RunPlan) -> str:
    """The first line of a run, printed before everything that takes long."""
    if plan.population:
        return f"preparing {plan.pairs} pairs as one computation ({plan.environment}), seed {plan.seed}"
    of = f" of {plan.pairs}" if plan.max_concurrent < plan.pairs else ""
    engines = f"starting {plan.max_concurrent}{of} engine{'s' if plan.pairs > 1 else ''} ({plan.environment})"
    return f"{f'preparing for {plan.environment}' if plan.invitation else engines}, seed {plan.seed}"


def _called(settings: RunSettings) -> RunSettings:
    """Settings with a run id. If the user chose none, it is named after the environment or behavior, with a number."""
    if settings.environment is not None:
        name = settings.played.name.rpartition(":")[2]
    else:
        name = next(iter(settings.behaviors), settings.checkpoint_settings.run_id)
    chosen = called(settings.checkpoint_settings, name)
    return settings.model_copy(update={"checkpoint_settings": chosen})


def lasting(settings: RunSettings) -> RunSettings:
    """Settings to start the run with again: without the flags by which this start resumed or replaced a run."""
    return changed(settings, "checkpoint_settings", resume=False, force=False, load_model=False)
