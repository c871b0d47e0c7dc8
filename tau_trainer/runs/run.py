"""A run from its first step to its report, independent of how it collects experience. Read this first.

A :class:`~tau_trainer.runs.collector.Collector` collects the experience; everything else of a run is here.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tau_trainer.errors import CallbackError, RunFinishedError, TauError, sentence_of
from tau_trainer.files import atomic_write_json
from tau_trainer.metrics import MetricsHub, RunReport, RunSnapshot, plot_learning_curve
from tau_trainer.metrics.timers import time_shares
from tau_trainer.metrics.usage import UsageMeter
from tau_trainer.runs.callbacks import Callback, Callbacks, TrainInfo
from tau_trainer.runs.collector import Collector, Conclusion
from tau_trainer.runs.folder import RunFolder
from tau_trainer.runs.store import Store

_log = logging.getLogger(__name__)
ENDING = "saving, evaluating; press again to skip"
HURRYING = "saving; evaluation and export are left out"
"""Messages at the first and at the second Ctrl-C."""
_SNAPSHOT_S = 0.25
_DRAIN_S = 10.0
"""Seconds for recorders to write remaining data."""
_MOST_LISTED = 8
"""Maximum number of policies in the last panel."""
Outcome = Literal["completed", "cancelled", "failed", "played"]


@dataclass(slots=True)
class _Clock:
    """Times of a run, in seconds of the machine's clock."""

    started: float = field(default_factory=time.monotonic)
    """Start of the run, which first loads and compiles code."""
    began: float = field(default_factory=time.monotonic)
    """Start of playing and learning."""
    began_at: int = 0
    """Steps before the run was resumed."""
    learning_s: float = 0.0
    """Duration of learning."""
    shown: float = 0.0
    """Time of the newest snapshot; infinite after an error, when no more are taken."""

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run started, as on the hub's clock."""
        return time.monotonic() - self.started


class Run:
    """A run, except for its learning. Use it in one thread only, except :meth:`stop`.

    Args:
        folder: the run's folder.
        hub: receives the run's metrics.
        seed: random seed.
        callbacks: receive the run's events.
        say: shows a sentence to the user, before anything is recorded.
        plays: whether to play a saved run, which writes nothing.
    """

    collector: Collector
    """Collects the run's experience."""
    seen: RunSnapshot
    """The latest snapshot of the run; any thread may read it."""

    def __init__(
        self,
        folder: RunFolder,
        hub: MetricsHub,
        seed: int,
        callbacks: Sequence[Callback] = (),
        say: Callable[[str], None] = lambda sentence: None,
        *,
        plays: bool = False,
    ) -> None:
        self.folder, self.hub, self.seed, self.say, self.plays = folder, hub, seed, say, plays
        self.callbacks = Callbacks(callbacks, self._stop, self._fail)
        self.store = Store(folder.path, hub, self.callbacks, goes_on=folder.resumed)
        self.asked = threading.Event()
        """Set once the run is asked to end."""
        self.hurried = threading.Event()
        """Set once the run is asked to end without evaluation and export."""
        self.stopped: str | None = None
        """The reason of the callback that ended the run; None: no callback did."""
        self.loose = threading.Event()
        """Set while abandoning the run's thread loses nothing: see :meth:`abandonable`."""
        self.error: Exception | None = None
        """The error that ended the run."""
        self.kept = False
        """Whether the run's folder is final and the run that it replaces is deleted."""
        self._clock = _Clock()
        self._usage = UsageMeter()

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.folder.path.name

    @property
    def ending(self) -> bool:
        """Whether the run must end early."""
        return self.asked.is_set() or self.stopped is not None or self.error is not None

    def stop(self, *, at_once: bool = False) -> None:
        """End the run after its current work, then save and evaluate; called twice, or with ``at_once``: only save.

        Call it from any thread.
        """
        if at_once or self.asked.is_set():
            self.hurried.set()
        self.asked.set()
        if not self.plays:
            self.hub.event("note", message=HURRYING if self.hurried.is_set() else ENDING)
        if hasattr(self, "collector"):
            self.collector.interrupt()

    def _stop(self, reason: str) -> None:
        """End the run because a callback stopped it."""
        if self.stopped is None:
            self.stopped = reason
            steps, unit = self.collector.steps, self.collector.unit
            self.hub.event("stopped", message=f"the run ends after {steps:,} {unit}: {reason}")

    def fail(self, error: Exception) -> None:
        """End the run with this error, unless it has one already. It is the collector's to stop."""
        self.error = self.error or error

    def _fail(self, error: CallbackError) -> None:
        """End the run as if it were cancelled, because a callback has failed."""
        self.fail(error)
        self.collector.interrupt()

    @contextmanager
    def abandonable(self) -> Iterator[None]:
        """Context for slow work that cannot be interrupted and needs no cleanup: loading torch, compiling.

        If the run is asked to end in the meantime, nothing waits for this work.
        """
        self.loose.set()
        try:
            yield
        finally:
            self.loose.clear()

    def collect_by(self, collector: Collector) -> None:
        """Set the collector and start the clock. Raises RunFinishedError if nothing is left to do."""
        if collector.done:
            early = collector.steps < collector.max_steps
            had, flag = ("criterion", "criterion") if early else ("max_steps", "max-steps")
            raise RunFinishedError(
                f"the run in '{self.folder.path}' has already reached {had}; raise --{flag} to continue it"
            )
        self.collector = collector
        self._clock = _Clock(self._clock.started, began_at=collector.steps)
        self.seen = self.snapshot()

    def to_end(self) -> RunReport:
        """Collect and learn, save, evaluate, export, draw, report.

        If nothing was learned, the caller must discard the folder: after an error, or if the report's outcome is not
        "completed".

        Raises:
            TauError: nothing could be learned.
        """
        collector = self.collector
        collector.announce()
        self.callbacks.tell("on_train_begin", self.train_info())
        begun = time.monotonic()
        try:
            while collector.advance():
                self.show()
        except Exception as error:
            self.fail(error)
            if not isinstance(error, TauError):  # a bug of ours: keep what was learned; --debug shows the place
                _log.debug("what ended the run", exc_info=error)
        self._clock.learning_s = time.monotonic() - begun
        self.seen = self.snapshot()
        self.hub.snapshot(self.seen)
        if self.plays or not collector.learned:
            failed = self.error or collector.failure
            if failed is not None and not (self.plays and collector.steps):
                raise failed
            report = self.report(Conclusion())
            if self.plays or report.outcome != "completed":
                if not self.plays:
                    self.hub.warning("the run ended before anything was learned, so nothing is kept")
                return self._tell(replace(report, files={}))
        self.kept = True
        self.folder.commit()  # from here on, this run replaces the old one
        return self._finish()

    def _finish(self) -> RunReport:
        collector = self.collector
        collector.save()
        found = collector.conclude()
        models, failures = self._export(found)
        if not self.hurried.is_set():
            found = found._replace(chosen={name: words for name, words in found.chosen.items() if name in models})
        self.store.write_status(found.lessons, [model for model in found.exports if model.name in models])
        if found.evaluation is not None:
            content = {**found.evaluation, "decisions": collector.steps, **self._speeds()}
            found = found._replace(evaluation=content)
            try:
                atomic_write_json(self.folder.evaluation, content)
            except TauError as error:
                failures.append(str(error))
        self.hub.snapshot(self.snapshot())
        self._draw()
        make = partial(self.report, found, models, [*self.store.failures.values(), *failures])
        report, before = make(), self.error
        self.callbacks.tell("on_train_end", self.train_info(report))
        return self._tell(report if self.error is before else make())

    def _export(self, found: Conclusion) -> tuple[dict[str, Path], list[str]]:
        """Written models by name, and a sentence for each failure."""
        models, failures = dict[str, Path](), list(found.failures)
        for model in () if self.hurried.is_set() else found.exports:
            path = self.folder.onnx(model.name)
            try:
                model.write(path)
            except TauError as error:
                failures.append(str(error))
            else:
                models[model.name] = path
                facts = {"behavior": model.name, "step": model.steps, "reward": model.reward}
                self.hub.event("exported", **facts, model=str(path))
        return models, failures

    def _draw(self) -> None:
        self.hub.drain(_DRAIN_S)
        if not self.hurried.is_set():
            try:
                plot_learning_curve(self.folder.path)
            except Exception as error:  # drawing must never cost a trained policy
                self.hub.warning(f"the learning curve was not drawn: {type(error).__name__}: {error}")

    def _tell(self, report: RunReport) -> RunReport:
        self.hub.snapshot(self.snapshot())
        self.hub.result(report)
        self.hub.drain(_DRAIN_S)
        return report

    def show(self) -> None:
        """Pass a snapshot to the recorders, a few times per second. An error there does not end the run."""
        if time.monotonic() - self._clock.shown >= _SNAPSHOT_S:
            self._clock.shown = time.monotonic()
            try:
                self.seen = self.snapshot()
                self.hub.snapshot(self.seen)
            except Exception as error:
                self._clock.shown = math.inf
                self.hub.warning(f"live display disabled; training continues: {type(error).__name__}: {error}")

    def snapshot(self) -> RunSnapshot:
        """A snapshot of the run."""
        collector, elapsed = self.collector, self._clock.elapsed_s
        played = time.monotonic() - self._clock.began
        rate = (collector.steps - self._clock.began_at) / played if played > 0 else 0.0
        fields: dict[str, Any] = {
            "run_id": self.run_id,
            "command": collector.command,
            "subject": collector.subject,
            "seed": self.seed,
            "elapsed_s": elapsed,
            "decisions": collector.steps,
            "unit": collector.unit,
            "max_decisions": collector.max_steps,
            "decisions_per_second": rate,
            "time_shares": time_shares(self.hub.timers, played),
            "usage": self._usage.take(),
            "pairs": collector.pairs,
            "behaviors": collector.behaviors,
            "learning": not self.plays,
        }
        fields |= collector.status
        rate = fields["decisions_per_second"]
        left = max(fields["max_decisions"] - fields["decisions"], 0)
        return RunSnapshot(**fields, eta_s=left / rate if rate > 0 and fields["max_decisions"] else None)

    def train_info(self, report: RunReport | None = None) -> TrainInfo:
        """The event about the whole run for callbacks; ``report``: at the end."""
        return TrainInfo(self.run_id, self.folder.path, self.seed, self.collector.steps, report)

    def report(
        self, found: Conclusion, models: dict[str, Path] | None = None, failures: Sequence[str] = ()
    ) -> RunReport:
        """The run's report; ``failures``: a sentence for each file that could not be written."""
        collector, folder, models = self.collector, self.folder, models or {}
        named = {
            "evaluation": folder.evaluation,
            "curve": folder.learning_curve,
            "checkpoints": folder.checkpoints,
            "log": folder.log,
        }
        listed = _listed(models) | dict(found.files) | named
        ended = () if self.error is None else (sentence_of(self.error),)
        return RunReport(
            run_id=self.run_id,
            folder=folder.path,
            command=collector.command,
            outcome=self._outcome,
            decisions=collector.steps,
            **self._speeds(),
            unit=collector.unit,
            pairs=collector.pairs,
            behaviors=collector.behaviors,
            evaluation=found.evaluation,
            verdict=self._verdict(found),
            baselines=found.baselines,
            models=tuple(models.values()),
            files={name: path for name, path in listed.items() if _holds_something(path)},
            errors=(*collector.errors, *ended, *dict.fromkeys(failures), *self.hub.losses),
        )

    def _verdict(self, found: Conclusion) -> str | None:
        """Sentences about the policies and the exported models; None if there are none."""
        named = {name: "" if len(found.chosen) == 1 else f" of '{name}'" for name in found.chosen}
        sentences = [f"Exported{named[name]}: {words}." for name, words in found.chosen.items()]
        if self.hurried.is_set() and self.kept and not self.plays:
            models = ", and ".join(f"{words}{named[name]}" for name, words in found.chosen.items())
            text = "Nothing was evaluated or exported, because you pressed Ctrl-C twice. tau-train export"
            sentences = [f"{text} {self.folder.path} exports {models or 'the saved policies'}."]
        verdict = [] if found.verdict is None else [found.verdict]
        return ("\n" if "\n" in (found.verdict or "") else " ").join([*verdict, *sentences]) or None

    @property
    def _outcome(self) -> Outcome:
        if self.error is not None or self.collector.failure is not None:
            return "failed"
        if self.plays:
            return "played"
        return "cancelled" if self.asked.is_set() and not self.collector.done else "completed"

    def _speeds(self) -> dict[str, float]:
        """Total duration, and steps per second of learning, without loading, compiling and evaluation."""
        steps, seconds = self.collector.steps - self._clock.began_at, self._clock.learning_s
        return {
            "wall_seconds": round(self._clock.elapsed_s, 3),
            "decisions_per_second": steps / seconds if seconds > 0 else 0.0,
        }


def _holds_something(path: Path) -> bool:
    """Whether the path is a file or a non-empty folder."""
    return any(path.iterdir()) if path.is_dir() else path.is_file()


def _listed(models: dict[str, Path]) -> dict[str, Path]:
    """Models by their names in the last panel; if there are too many, the folder of the others."""
    if len(models) < 2:
        return dict(zip(["policy"], models.values(), strict=False))
    named = {f"policy {name}": path for name, path in list(models.items())[:_MOST_LISTED]}
    more = len(models) - len(named)
    return named | ({f"{more} more policies": [*models.values()][-1].parent} if more else {})
