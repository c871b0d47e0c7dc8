"""The record of a sweep: every report of its trials, written as it arrives; table, plot, and the best trial."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tau_trainer.errors import SettingsError
from tau_trainer.files import atomic_write_json, atomic_write_text, reason
from tau_trainer.metrics import read_log
from tau_trainer.metrics.plot import COLORS, GREY, decisions_along, new_figure, save_figure, style
from tau_trainer.search.member import BASE, TrialReport, sweep_of, trial_settings
from tau_trainer.search.results import Table
from tau_trainer.settings import RunSettings, dump_settings, load_settings
from tau_trainer.specs import Json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_REPORTS = "reports.jsonl"
_NAMED = 6
"""Number of trials that the plot names; the others are grey."""
_LABELS = {"reward": "mean reward\nof an episode", "accuracy": "accuracy on\nvalidation rows"}


@dataclass
class TrialRecord:
    """A trial and its progress."""

    name: str
    values: Json = field(default_factory=dict)
    """Current values, by key of the space."""
    report: TrialReport = field(default_factory=TrialReport)
    """The newest report."""
    points: list[tuple[int, float]] = field(default_factory=list)
    """Decisions and value of every report; if a trial went back to an earlier state, only reports before it remain."""
    over: bool = False
    """Whether the trial has ended."""

    @property
    def ending(self) -> str:
        """``finished``, ``failed``, ``stopped`` by the scheduler, or ``unfinished``."""
        if self.report.error is not None:
            return "failed"
        return "finished" if self.report.ended else "stopped" if self.over else "unfinished"


class SweepRecord:
    """The trials of a sweep, from its folder.

    Attributes:
        folder: folder of the sweep.
        settings: settings that its trials share.
        asked: their section ``sweep``.
        trials: trials that have reported, by name.
    """

    def __init__(self, folder: Path) -> None:
        """Raises SettingsError if there is no sweep in the folder."""
        if not (folder / BASE).is_file():
            raise SettingsError(f"there is no sweep to resume in '{folder}'; check --output, or leave --resume out")
        self.folder, self.settings = folder, load_settings(folder / BASE)
        self.asked = sweep_of(self.settings)
        self.trials: dict[str, TrialRecord] = {}
        for line in read_log(folder / _REPORTS):  # without incomplete lines
            self._take(line)

    @classmethod
    def begin(cls, folder: Path, settings: RunSettings) -> SweepRecord:
        """Start a new record in an empty folder."""
        atomic_write_text(folder / BASE, dump_settings(settings))
        return cls(folder)

    def _take(self, line: Json) -> None:
        trial = self.trials.setdefault(line["trial"], TrialRecord(line["trial"]))
        trial.over = "report" not in line  # --resume may start a failed one again
        if trial.over:
            return
        trial.values, trial.report = line["values"], TrialReport(**line["report"])
        value, decisions = trial.report.value(self.asked.metric), trial.report.decisions
        if not math.isnan(value) and trial.report.error is None:
            trial.points = [point for point in trial.points if point[0] < decisions] + [(decisions, value)]

    def _write(self, line: Json) -> None:
        path = self.folder / _REPORTS
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(f"\n{json.dumps(line)}")  # the previous line may be incomplete
        except OSError as error:
            raise SettingsError(
                f"cannot write {path} ({reason(error)}); free some space, and continue with --resume"
            ) from error
        self._take(line)

    def record(self, trial: str, values: Json, report: TrialReport) -> None:
        """Record a report."""
        self._write({"trial": trial, "values": dict(values), "report": asdict(report)})

    def ended(self, trial: str) -> None:
        """Record the end of a trial."""
        self._write({"trial": trial})

    @property
    def complete(self) -> bool:
        """Whether all trials have ended."""
        return len(self.trials) >= self.asked.trials and all(trial.over for trial in self.trials.values())

    def ranked(self) -> list[TrialRecord]:
        """Trials by their newest value, best first, then those without a value."""
        sign = -1.0 if self.asked.mode == "max" else 1.0

        def rank(trial: TrialRecord) -> tuple[bool, float]:
            nothing = trial.ending == "failed" or not trial.points
            return nothing, 0.0 if nothing else sign * trial.points[-1][1]

        return sorted(self.trials.values(), key=rank)

    @property
    def best(self) -> TrialRecord | None:
        """The best trial; None if nothing was measured."""
        first = next(iter(self.ranked()), None)
        return first if first is not None and first.points and first.ending != "failed" else None

    def short(self, key: str) -> str:
        """The last part of a key, if it is unique; otherwise the whole key."""
        last = key.rpartition(".")[2]
        return last if sum(other.rpartition(".")[2] == last for other in self.asked.space) == 1 else key

    def to_dict(self) -> dict[str, Any]:
        """For ``result.json``."""
        best = self.best
        return {
            "search": "sweep",
            "metric": self.asked.metric,
            "mode": self.asked.mode,
            "scheduler": self.asked.scheduler,
            "complete": self.complete,
            "best": None if best is None else best.name,
            "trials": [
                {
                    "name": trial.name,
                    "values": dict(trial.values),
                    "value": trial.points[-1][1] if trial.points else None,
                    "decisions": trial.report.decisions,
                    "ended": trial.ending,
                    "error": trial.report.error,
                }
                for trial in self.ranked()
            ],
        }

    def write(self) -> list[Path]:
        """Write ``result.json``, ``sweep.png``, and ``best.yaml``, a config for ``tau-train``; returns their paths."""
        files = [
            atomic_write_json(self.folder / "result.json", self.to_dict()),
            save_figure(self.draw(), self.folder / "sweep.png"),
        ]
        if (best := self.best) is not None:
            content = yaml.safe_load(dump_settings(trial_settings(self.folder / BASE, best.values)))
            for key in ("run_id", "resume", "force", "load_model"):
                content["checkpoint_settings"].pop(key, None)
            text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
            files.append(atomic_write_text(self.folder / "best.yaml", f"# {best.name} of {self.folder.name}\n{text}"))
        return files

    def table(self) -> Table:
        """The table of trials."""
        rows = []
        for trial in self.ranked():
            values = (shown(trial.values.get(key)) for key in self.asked.space)
            note = "best" if trial is self.best else trial.report.error or trial.ending
            newest = f"{trial.points[-1][1]:.4g}" if trial.points else "-"
            rows.append((trial.name, *values, f"{trial.report.decisions:,}", newest, note))
        metric = "mean reward" if self.asked.metric == "reward" else "accuracy"
        return ("trial", *map(self.short, self.asked.space), "decisions", metric, ""), rows

    def draw(self) -> Figure:
        """Plot of the trials' metric over their decisions, with names for the best ones."""
        figure, [axes] = new_figure(self.folder.name, 1)
        for place, trial in reversed([*enumerate(self.ranked())]):
            if not trial.points:
                continue
            x, y = zip(*trial.points, strict=True)
            values = ", ".join(shown(trial.values.get(key)) for key in self.asked.space)
            named = place < _NAMED
            look: dict[str, Any] = (
                {"color": COLORS[place], "label": f"{trial.name}: {values}"} if named else {"color": GREY}
            )
            width = 2.6 if place == 0 else 1.6 if named else 0.8
            end = {"stopped": "x", "failed": "X"}.get(trial.ending, "o")
            axes.plot(x, y, linewidth=width, marker=end, markevery=[-1], markersize=5.0, **look)
        style(axes, _LABELS[self.asked.metric])
        decisions_along(axes)
        lines, names = axes.get_legend_handles_labels()
        if names:
            axes.legend(lines[::-1], names[::-1], loc="best", framealpha=0.8, edgecolor="none", fontsize=9)
        return figure


def shown(value: Any) -> str:
    """A value as text for a table."""
    return f"{value:.4g}" if isinstance(value, float) else "-" if value is None else str(value)
