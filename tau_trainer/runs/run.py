"""A run from its first step to its report, whatever it gathers its experience by. Read this first.

How that is done is a :class:`~tau_trainer.runs.collector.Collector`; everything else of a run stands here, once.
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
ENDING, HURRYING = "saving, evaluating; press again to skip", "saving; evaluation and export are left out"
"""What Ctrl-C is answered at once, and the second one."""
_SNAPSHOT_S = 0.25
_DRAIN_S = 10.0
"""That recorders have for what is still to be written."""
_MOST_LISTED = 8
"""Policies that the last panel names."""
Outcome = Literal["completed", "cancelled", "failed", "played"]


@dataclass(slots=True)
class _Clock:
    """When a run did what, in seconds of the machine's clock."""

    started: float = field(default_factory=time.monotonic)
    """Of the run, which then loads and compiles what it needs."""
    began: float = field(default_factory=time.monotonic)
    """Of playing and learning."""
    began_at: int = 0
    """Steps of the runs before, where this one goes on from them."""
    learning_s: float = 0.0
    """How long it learned."""
    shown: float = 0.0
    """The newest picture; infinite: it can be shown no longer."""

    @property
    def elapsed_s(self) -> float:
        """Since the run started, as the hub's clock counts."""
        return time.monotonic() - self.started


class Run:
    """Everything of a run but how it learns. Belongs to one thread, but for :meth:`stop`.

    Args:
        folder: the run's own.
        hub: where its numbers go.
        seed: of everything random.
        callbacks: told of it.
        say: shows the person who watches a sentence, before anything is recorded.
        plays: whether a saved run is played, which writes nothing.
    """

    collector: Collector
    """How it gathers experience."""
    seen: RunSnapshot
    """The run as it was a moment ago, for any thread to look at."""

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
        """Set once somebody wants it to end."""
        self.hurried = threading.Event()
        """Set once they want it to end without evaluation and export."""
        self.stopped: str | None = None
        """Why a callback wants the run to be done; None: none does."""
        self.loose = threading.Event()
        """Set while nothing would be lost if the run's thread were left behind: see :meth:`abandonable`."""
        self.error: Exception | None = None
        """What ended the whole run."""
        self.kept = False
        """Whether it has replaced what it was to replace, and stays."""
        self._clock = _Clock()
        self._usage = UsageMeter()

    @property
    def run_id(self) -> str:
        """What it is called."""
        return self.folder.path.name

    @property
    def ending(self) -> bool:
        """Whether it is to end before all is done."""
        return self.asked.is_set() or self.stopped is not None or self.error is not None

    def stop(self, *, at_once: bool = False) -> None:
        """Let it end once what was begun is over, saved and evaluated; twice, or ``at_once``: saved alone.

        May be called from any thread.
        """
        if at_once or self.asked.is_set():
            self.hurried.set()
        self.asked.set()
        if not self.plays:
            self.hub.event("note", message=HURRYING if self.hurried.is_set() else ENDING)
        if hasattr(self, "collector"):
            self.collector.interrupt()

    def _stop(self, reason: str) -> None:
        """A callback wants the run to be done."""
        if self.stopped is None:
            self.stopped = reason
            steps, unit = self.collector.steps, self.collector.unit
            self.hub.event("stopped", message=f"the run ends after {steps:,} {unit}: {reason}")

    def _fail(self, error: CallbackError) -> None:
        """A callback has failed: the run ends as if it were cancelled."""
        if self.error is None:
            self.error = error
        self.collector.interrupt()

    @contextmanager
    def abandonable(self) -> Iterator[None]:
        """Around what takes long, cannot be interrupted, and leaves nothing to be ended: loading torch, compiling.

        Whoever asks for the end of the run meanwhile does not wait for it.
        """
        self.loose.set()
        try:
            yield
        finally:
            self.loose.clear()

    def collect_by(self, collector: Collector) -> None:
        """Let it begin. Raises RunFinishedError where nothing is left to do."""
        if collector.done:
            early = collector.steps < collector.max_steps
            had, flag = ("learned enough", "criterion") if early else (f"had all its {collector.unit}", "max-steps")
            raise RunFinishedError(
                f"the run in '{self.folder.path}' has {had}, so there was nothing to do; raise --{flag} to go on"
            )
        self.collector, self._clock = collector, _Clock(self._clock.started, began_at=collector.steps)
        self.seen = self.snapshot()

    def to_end(self) -> RunReport:
        """Gather and learn, save, evaluate, export, draw, report.

        Where nothing was learned the folder is still to be discarded: after an error, and where the report is of a run
        that is not completed.

        Raises:
            TauError: nothing could be learned.
        """
        collector = self.collector
        collector.announce()
        self.callbacks.tell("on_train_begin", self.told())
        begun = time.monotonic()
        try:
            while collector.advance():
                self.show()
        except Exception as error:
            self.error = error if self.error is None else self.error
            if not isinstance(error, TauError):  # a defect of ours: what was learned is kept, and --debug says where
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
        self.folder.commit()  # from here on this run replaces what it was told to replace
        return self._finish()

    def _finish(self) -> RunReport:
        collector = self.collector
        collector.save()
        found = collector.conclude()
        models, failures = self._export(found)
        if not self.hurried.is_set():
            found = found._replace(chosen={name: words for name, words in found.chosen.items() if name in models})
        self.store.write_status([model for model in found.exports if model.name in models])
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
        self.callbacks.tell("on_train_end", self.told(report))
        return self._tell(report if self.error is before else make())

    def _export(self, found: Conclusion) -> tuple[dict[str, Path], list[str]]:
        """Models that were written by name, and a sentence for each thing that was not."""
        models, failures = dict[str, Path](), list(found.failures)
        for model in () if self.hurried.is_set() else found.exports:
            path = self.folder.onnx(model.name)
            try:
                model.write(path)
            except TauError as error:
                failures.append(str(error))
            else:
                models[model.name] = path
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
        """Hand the run's picture to the recorders, a few times a second. What goes wrong there costs no run."""
        if time.monotonic() - self._clock.shown >= _SNAPSHOT_S:
            self._clock.shown = time.monotonic()
            try:
                self.seen = self.snapshot()
                self.hub.snapshot(self.seen)
            except Exception as error:
                self._clock.shown = math.inf
                self.hub.warning(f"the run goes on, but is shown no longer: {type(error).__name__}: {error}")

    def snapshot(self) -> RunSnapshot:
        """The run now."""
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
            "max_decisions": collector.max_steps,
            "decisions_per_second": rate,
            "time_shares": time_shares(self.hub.timers, played),
            "usage": self._usage.take(),
            "pairs": collector.pairs,
            "behaviors": collector.behaviors,
            "learning": not self.plays,
        }
        fields |= collector.status
        rate, left = fields["decisions_per_second"], max(fields["max_decisions"] - fields["decisions"], 0)
        return RunSnapshot(**fields, eta_s=left / rate if rate > 0 and fields["max_decisions"] else None)

    def told(self, report: RunReport | None = None) -> TrainInfo:
        """What callbacks hear of the whole run; ``report``: how it ended."""
        return TrainInfo(self.run_id, self.folder.path, self.seed, self.collector.steps, report)

    def report(
        self, found: Conclusion, models: dict[str, Path] | None = None, failures: Sequence[str] = ()
    ) -> RunReport:
        """The central report; ``failures``: what could not be written."""
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
        """What is to be said of the policies, and which are exported, in sentences; None: nothing."""
        named = {name: "" if len(found.chosen) == 1 else f" of '{name}'" for name in found.chosen}
        sentences = [f"Exported{named[name]}: {words}." for name, words in found.chosen.items()]
        if self.hurried.is_set() and self.kept and not self.plays:
            models = ", and ".join(f"{words}{named[name]}" for name, words in found.chosen.items())
            text = "Nothing was evaluated or exported, because you asked twice for the end: tau-train export"
            sentences = [f"{text} {self.folder.path} exports {models or 'what was saved'}."]
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
        """How long all of it took, and steps a second while it learned: without loading, compiling and evaluation."""
        steps, seconds = self.collector.steps - self._clock.began_at, self._clock.learning_s
        return {
            "wall_seconds": round(self._clock.elapsed_s, 3),
            "decisions_per_second": steps / seconds if seconds > 0 else 0.0,
        }


def _holds_something(path: Path) -> bool:
    """Whether there is such a file, or a folder with something in it."""
    return any(path.iterdir()) if path.is_dir() else path.is_file()


def _listed(models: dict[str, Path]) -> dict[str, Path]:
    """Models by what they are called in the last panel; where there are very many, the folder of those left out."""
    if len(models) < 2:
        return dict(zip(["policy"], models.values(), strict=False))
    named = {f"policy {name}": path for name, path in list(models.items())[:_MOST_LISTED]}
    more = len(models) - len(named)
    return named | ({f"{more} policies more": [*models.values()][-1].parent} if more else {})
