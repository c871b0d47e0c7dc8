"""The shell of a run that its own thread plays: folder, recorders, Ctrl-C, checkpoints, models, curve and report.

What differs is how experience is gathered and learned from, which a :class:`Shell`'s subclass says: batched tensors and
recordings do. :func:`in_foreground` is such a run from its first line to its report. Imports no torch.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from tau_trainer.columns import Arrays
from tau_trainer.errors import RunFinishedError, SettingsError, TauError
from tau_trainer.metrics import (
    BehaviorSnapshot,
    Event,
    MetricsHub,
    Recorder,
    RunReport,
    RunSnapshot,
    TerminalMode,
    Timer,
    plot_learning_curve,
    terminal_recorder,
)
from tau_trainer.settings import RunSettings
from tau_trainer.settings.batched import BatchedSettings
from tau_trainer.specs import BehaviorSpec
from tau_trainer.training.api import ENDING, HURRYING, on_interrupt
from tau_trainer.training.checkpoints import retire
from tau_trainer.training.manager import kept_recorders
from tau_trainer.training.moments import Moment, last_number, write_model
from tau_trainer.training.provenance import provenance
from tau_trainer.training.run_folder import RunFolder, atomic_write_json, atomic_write_text
from tau_trainer.training.status import write_status

if TYPE_CHECKING:
    from tau_trainer.models import Policy

_SNAPSHOT_S = 0.25
_DRAIN_S = 10.0
"""That recorders have for what is still to be written."""
SettingsT = TypeVar("SettingsT", RunSettings, BatchedSettings)
Say = Callable[[str], None]
"""Shows the person who watches a sentence, before there is a hub."""


class Kept(NamedTuple):
    """What a checkpoint keeps of one policy."""

    steps: int
    """That it is made from, as the checkpoint is called."""
    arrays: Arrays
    manifest: Mapping[str, Any]


class Shell(ABC):
    """Everything of a run but how it learns. Belongs to one thread, but for :meth:`stop`.

    Args:
        settings: with a run id.
        folder: the run's own.
        hub: where its numbers go.
    """

    command: ClassVar[str]
    """Of ``tau-train``."""
    unit: ClassVar[str] = "decisions"
    """What :attr:`steps` counts."""

    def __init__(self, settings: RunSettings | BatchedSettings, folder: RunFolder, hub: MetricsHub) -> None:
        self.run_id = settings.checkpoint_settings.run_id
        self.folder, self.hub = folder, hub
        self.asked = threading.Event()
        """Set once somebody wants it to end."""
        self.hurried = threading.Event()
        """Set once they want it to end without evaluation and export."""
        self.error: TauError | None = None
        self.unsaved: dict[str, str] = {}
        """Why the last checkpoint of a policy is not there."""
        self.failures: list[str] = []
        """What else could not be written at the end."""
        self.models: dict[str, Path] = {}
        """That were exported at the end, by policy."""
        self.started = time.monotonic()
        self.first = 0
        """Steps of the runs before, where this one goes on from them."""
        self._shown = 0.0
        self._moment = last_number(folder.checkpoints) if folder.resumed else 0

    # What a subclass says.

    @property
    @abstractmethod
    def steps(self) -> int:
        """So far, in all runs, of everything that learns together."""

    @property
    @abstractmethod
    def max_steps(self) -> int:
        """Where the run ends."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether everything has had all its steps."""

    @property
    @abstractmethod
    def subject(self) -> str:
        """What is learned from, in a word or two."""

    @property
    @abstractmethod
    def behaviors(self) -> tuple[BehaviorSnapshot, ...]:
        """Each policy now."""

    @abstractmethod
    def collect_and_learn(self) -> None:
        """Gather and learn until :attr:`done`, or a good moment after :attr:`asked`. Raises TauError."""

    @abstractmethod
    def conclude(self) -> Mapping[str, Path]:
        """Save, evaluate and :meth:`export`, as far as whoever pressed Ctrl-C will wait; further files by name."""

    @abstractmethod
    def keep(self, name: str) -> Kept:
        """What a checkpoint of that policy keeps."""

    @abstractmethod
    def policy_of(self, name: str) -> tuple[Policy | None, BehaviorSpec]:
        """That policy as it stands, and of what; None: it is nothing that can be exported."""

    @property
    def more_of_snapshot(self) -> Mapping[str, Any]:
        """Further fields of :class:`RunSnapshot`."""
        return {}

    @property
    def verdict(self) -> str | None:
        """What came of it, for the last panel."""
        return None

    # What is the same everywhere.

    def stop(self) -> None:
        """Let it end once everything that was gathered is learned from, saved and evaluated; twice: saved alone."""
        if self.asked.is_set():
            self.hurried.set()
        self.asked.set()
        self.hub.event("note", message=HURRYING if self.hurried.is_set() else ENDING)

    def begin(self) -> None:
        """Everything is made and restored. Raises RunFinishedError where nothing is left to do."""
        self.first, self.started = self.steps, time.monotonic()
        if self.done:
            raise RunFinishedError(
                f"the run in '{self.folder.path}' has had all its {self.unit}, so there was nothing to do; raise "
                "--max-steps to go on"
            )

    def run(self) -> None:
        """Play and learn to the end; what fails is in :attr:`error`."""
        try:
            self.collect_and_learn()
        except TauError as error:
            self.error = error

    def show(self) -> None:
        """Hand the run's picture to the recorders, a few times a second."""
        if time.monotonic() - self._shown > _SNAPSHOT_S:
            self._shown = time.monotonic()
            self.hub.snapshot(self.snapshot())

    def save_moment(self, names: Sequence[str], keep: int) -> None:
        """Write a checkpoint of each of these policies, and its model; what cannot be written is a warning.

        All are one moment: where one cannot be written none is, and what is left is the moment before. The newest
        ``keep`` stay.
        """
        self._moment += 1
        moment = Moment(self.folder.checkpoints, self._moment, names)
        written: dict[str, tuple[int, Path]] = {}
        try:
            for name in names:
                kept = self.keep(name)
                written[name] = kept.steps, moment.write(name, kept.steps, kept.arrays, kept.manifest)
        except TauError as error:
            moment.give_up()
            self.unsaved |= dict.fromkeys(names, str(error))
            self.hub.warning(str(error))
            return
        for name, (steps, path) in written.items():
            self.unsaved.pop(name, None)
            retire(self.folder.checkpoints, name, path, keep)
            self._write_model(name, steps, path)
            self.hub.event("checkpoint", behavior=name, step=steps, path=str(path))
        try:
            write_status(self.folder.path, {})
        except TauError as error:
            self.hub.warning(str(error))

    def _write_model(self, name: str, steps: int, path: Path) -> None:
        policy, spec = (None, None) if self.hurried.is_set() else self.policy_of(name)
        if policy is not None and spec is not None:
            try:
                write_model(self.folder.path, name, policy, spec, steps)
            except TauError as error:
                self.hub.warning(f"the model of checkpoint {path.name} was not written: {error}")

    def export(self, name: str, policy: Policy, spec: BehaviorSpec) -> None:
        """Write the model of a policy that is at its end."""
        from tau_trainer.export import export_onnx

        try:
            self.models[name] = export_onnx(policy, spec, self.folder.onnx(name))
        except TauError as error:
            self.failures.append(str(error))

    def finish(self) -> RunReport:
        """Save, evaluate, export, draw, report."""
        files = self.conclude()
        self.hub.drain(_DRAIN_S)
        if not self.hurried.is_set():
            try:
                plot_learning_curve(self.folder.path)
            except Exception as error:  # drawing must never cost a trained policy
                self.hub.warning(f"the learning curve was not drawn: {type(error).__name__}: {error}")
        report = self.report(files)
        self.hub.snapshot(self.snapshot())
        self.hub.result(report)
        self.hub.drain(_DRAIN_S)
        return report

    def report(self, others: Mapping[str, Path]) -> RunReport:
        """The central report; ``others``: further files by name."""
        seconds, folder = time.monotonic() - self.started, self.folder
        named = {"curve": folder.learning_curve, "checkpoints": folder.checkpoints, "log": folder.log}
        models = {f"policy {name}" if len(self.models) > 1 else "policy": path for name, path in self.models.items()}
        ended = () if self.error is None else (str(self.error),)
        return RunReport(
            run_id=self.run_id,
            folder=folder.path,
            command=self.command,
            outcome="failed" if self.error else "completed" if self.done else "cancelled",
            decisions=self.steps,
            wall_seconds=seconds,
            decisions_per_second=(self.steps - self.first) / seconds,
            unit=self.unit,
            behaviors=self.behaviors,
            verdict=self.verdict,
            models=tuple(self.models.values()),
            files=models | dict(others) | {name: path for name, path in named.items() if path.exists()},
            errors=(*ended, *dict.fromkeys(self.unsaved.values()), *self.failures, *self.hub.losses),
        )

    def snapshot(self) -> RunSnapshot:
        """The run now."""
        elapsed = time.monotonic() - self.started
        rate = (self.steps - self.first) / elapsed if elapsed > 0 else 0.0
        return RunSnapshot(
            run_id=self.run_id,
            command=self.command,
            subject=self.subject,
            elapsed_s=elapsed,
            decisions=self.steps,
            max_decisions=self.max_steps,
            decisions_per_second=rate,
            eta_s=max(self.max_steps - self.steps, 0) / rate if rate > 0 else None,
            behaviors=self.behaviors,
            **self.more_of_snapshot,
        )


def in_foreground(
    settings: SettingsT,
    configuration: str,
    seed: int,
    begin: Callable[[RunFolder, MetricsHub, Say], AbstractContextManager[Shell]],
    *,
    starting: str,
    terminal: TerminalMode = "auto",
    command_line: Sequence[str] | None = None,
) -> RunReport:
    """A run to its end; Ctrl-C ends it after what it is at, and saves.

    Args:
        settings: of the run.
        configuration: what its ``configuration.yaml`` will say.
        seed: of everything random.
        begin: makes the run; what it needs beside it ends with the context.
        starting: what is said before anything that takes long.
        terminal: what is shown.
        command_line: how it was called; None: this process's.

    Raises:
        TauError: nothing could be learned; nothing is left behind.
    """
    chosen, shown, timers = settings.checkpoint_settings, terminal_recorder(terminal), Timer()

    def say(sentence: str) -> None:
        shown.on_event(Event("starting", 0.0, {"message": f"{chosen.run_id}: {sentence}"}))

    folder = RunFolder.create(Path(chosen.results_dir), chosen.run_id, resume=chosen.resume, force=chosen.force)
    hub: MetricsHub | None = None
    try:
        say(starting)
        kept: list[Recorder] = kept_recorders(folder, settings, timers, command_line)
        hub = MetricsHub([*kept, shown], timers=timers)
        with begin(folder, hub, say) as run:
            atomic_write_text(folder.configuration, configuration)
            atomic_write_json(folder.run_json, provenance(seed, command_line))
            with on_interrupt(run.stop):
                run.run()
                if run.steps == run.first:
                    raise run.error or SettingsError("the run ended before anything was learned, so nothing is kept")
                folder.commit()
                return run.finish()
    except BaseException:
        if hub is not None:
            hub.close()
            hub = None
        folder.discard()
        raise
    finally:
        if hub is not None:
            hub.close()
        folder.release()
