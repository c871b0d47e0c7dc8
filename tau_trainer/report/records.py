"""The files of one run, read for a report. A missing or damaged file costs only its own part of the report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tau_trainer.errors import CheckpointError, TauError
from tau_trainer.files import reason
from tau_trainer.metrics import keys, read_log
from tau_trainer.metrics.history import NEW_START_S, History, mapping, number
from tau_trainer.report.configuration import Configuration
from tau_trainer.runs.checkpoint_index import learner_names, scan
from tau_trainer.runs.checkpoints import read_manifest
from tau_trainer.runs.folder import RunFolder
from tau_trainer.specs import Json

IN_PROGRESS, BROKEN_OFF = "in progress", "broken off"


@dataclass(slots=True)
class SessionRecord:
    """One start of the program within a run; a resumed run has several. Times are seconds since that start."""

    ended: float = 0.0
    """Time of the last line."""
    training: float | None = None
    """Time at which the first pair started to train."""
    trained: float | None = None
    """Time of the last summary before the evaluation."""
    updates: int = 0
    update_seconds: float = 0.0
    """Time in updates, of all learners together. They run at the same time as acting."""
    held_seconds: float = 0.0
    """Time that engines waited because learning was behind."""
    result: Json | None = None
    """The line with the result; None if there is none."""


@dataclass(frozen=True, slots=True)
class Happening:
    """A message during the run, or a fault of its files."""

    kind: str
    """``engine restart``, ``refused update``, ``warning``, ``error``, ``damaged file``, or the name of the event."""
    text: str
    elapsed: float | None = None
    """Seconds since the start of its session; None: unknown."""

    @property
    def fault(self) -> bool:
        """Whether it is a fault."""
        return self.kind in FAULTS


FAULTS = ("error", "engine restart", "refused update", "warning", "damaged file")
"""Kinds of faults, worst first."""


@dataclass(frozen=True, slots=True)
class SavedPolicy:
    """One checkpoint, from its manifest."""

    learner: str
    step: int
    created: str
    size: int
    """Bytes of its tensors."""
    accuracy: float | None
    """Validation accuracy of the policy at that step, if the task measures it."""
    best: int | None
    """Decisions of the best policy so far, which it contains too; None if the run does not choose a best policy."""


@dataclass(slots=True)
class PairRecord:
    """One pair, from the log."""

    state: str = ""
    restarts: int = 0


@dataclass(slots=True)
class RunRecord:
    """One run."""

    folder: Path
    name: str
    history: History
    """Its curves; independent pairs are pairs of one behavior."""
    outcome: str
    """Outcome of the result, ``in progress`` or ``broken off``."""
    sessions: list[SessionRecord] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)
    pairs: dict[str, PairRecord] = field(default_factory=dict)
    non_finite: int = 0
    """Number of values that were NaN or infinite."""
    evaluation: Json = field(default_factory=dict)
    """Content of ``evaluation.json``; empty if it is missing."""
    provenance: Json = field(default_factory=dict)
    """Content of ``run.json``."""
    timers: Json = field(default_factory=dict)
    """Content of ``timers.json``, of the last session; empty if it is missing."""
    configuration: Configuration = field(default_factory=Configuration)
    checkpoints: list[SavedPolicy] = field(default_factory=list)
    models: list[Path] = field(default_factory=list)
    """ONNX files in the folder."""

    @classmethod
    def load(cls, folder: Path) -> RunRecord:
        """Read a run's folder. Raises TauError if it has no readable log."""
        files = RunFolder(folder, resumed=True)
        if not files.log.is_file():
            raise TauError(
                f"'{folder}' has no {files.log.name}, so there is nothing to report; name a run of Tau Trainer"
            )
        try:
            records = list(read_log(files.log))
        except OSError as error:
            raise TauError(f"Cannot read '{files.log}' ({reason(error)}); check that you may read it.") from error
        if not records:
            raise TauError(f"'{files.log}' holds nothing that can be read, so there is nothing to report.")
        name = folder.resolve().name
        run = cls(folder, name, History.from_records(records), BROKEN_OFF)
        run.history.run_id = name
        run.evaluation = run._read_json(files.evaluation)
        run.history = run.history.merge_independent()
        run.history.add_evaluation(run.evaluation)
        run.provenance = run._read_json(files.run_json)
        run.timers = run._read_json(files.timers)
        run.configuration = Configuration.load(files.configuration)
        if run.configuration.fault is not None:
            run.happenings.append(Happening("damaged file", run.configuration.fault))
        run._read_records(records)
        run._read_checkpoints(files.checkpoints)
        run.models = sorted(folder.glob("*.onnx"))
        if run.result:
            run.outcome = str(run.result.get("outcome") or "ended")
        elif files.being_trained:
            run.outcome = IN_PROGRESS
        return run

    @property
    def result(self) -> Json:
        """The line with the run's result; empty if the run is in progress or was broken off."""
        return (self.sessions[-1].result if self.sessions else None) or {}

    @property
    def faults(self) -> dict[str, int]:
        """Number of faults of each kind, worst first."""
        kinds = [happening.kind for happening in self.happenings]
        return {kind: kinds.count(kind) for kind in FAULTS if kind in kinds}

    @property
    def decisions(self) -> int:
        """Decisions of all behaviors together."""
        decisions = self.result.get("decisions")
        return decisions if isinstance(decisions, int) else sum(self.history.steps.values())

    @property
    def seconds(self) -> float:
        """Seconds of all sessions together."""
        return sum(session.ended for session in self.sessions)

    def _read_json(self, path: Path) -> Json:
        if not path.is_file():
            return {}
        try:
            content = json.loads(path.read_text("utf-8"))
            if isinstance(content, dict):
                return content
            why = "holds no table"
        except (OSError, ValueError, RecursionError) as error:
            why = f"cannot be read ({error})"
        self.happenings.append(Happening("damaged file", f"{path.name} {why}"))
        return {}

    def _read_records(self, records: Iterable[Json]) -> None:
        for record in records:
            elapsed = number(record.get("elapsed"))
            now = self.sessions[-1] if self.sessions else None
            if now is None or now.result is not None or (elapsed is not None and elapsed < now.ended - NEW_START_S):
                now = SessionRecord()
                self.sessions.append(now)
            now.ended = max(now.ended, elapsed or 0.0)
            match record:
                case {"type": "summary"}:
                    self._add_summary(now, record)
                case {"type": "event", "kind": str(kind), "fields": dict(fields)}:
                    self._add_event(now, kind, fields, elapsed)
                case {"type": "result"}:
                    now.result = record
                    now.ended = max(now.ended, number(record.get("wall_seconds")) or 0.0)
                    errors = record.get("errors")
                    for error in errors if isinstance(errors, list) else ():
                        self.happenings.append(Happening("error", str(error)))

    def _add_summary(self, session: SessionRecord, record: Json) -> None:
        values, statistics = mapping(record.get("values")), mapping(record.get("statistics"))
        seconds = number(values.get(keys.UPDATE_SECONDS))
        if seconds is not None:
            # Only keys with more than one value have statistics.
            count = number(mapping(statistics.get(keys.UPDATE_SECONDS)).get("count")) or 1
            session.updates += int(count)
            session.update_seconds += seconds * count
        session.held_seconds += number(values.get(keys.HELD_SECONDS)) or 0.0
        if record.get("training"):
            session.trained = session.ended
        self.non_finite += sum(int(number(mapping(summed).get("non_finite")) or 0) for summed in statistics.values())

    def _add_event(self, session: SessionRecord, kind: str, fields: Json, elapsed: float | None) -> None:
        pair, text = fields.get("pair"), fields.get("message")
        if kind == "pair":
            self.pairs.setdefault(str(pair), PairRecord()).state = str(fields.get("state"))
            if fields.get("state") == "Training" and session.training is None:
                session.training = elapsed
        if text is None:
            return
        text = str(text)
        if kind == "warning":
            kind = _kind_of_warning(fields, text)
        if kind == "engine restart" and pair is not None:
            self.pairs.setdefault(str(pair), PairRecord()).restarts += 1
        self.happenings.append(Happening(kind, text, elapsed))

    def _read_checkpoints(self, folder: Path) -> None:
        for name in learner_names(folder):
            for entry in scan(folder, name):
                try:
                    self.checkpoints.append(_saved(read_manifest(entry.path)))
                except CheckpointError as error:
                    self.happenings.append(Happening("damaged file", str(error)))


Runs = Sequence[RunRecord]
"""The runs of a report: one, or several of the same experiment."""


def _kind_of_warning(fields: Json, text: str) -> str:
    """Kind of a warning, by its fields; in older logs, which lack them, by its words."""
    if "restart" in fields or "starting it again in" in text:
        return "engine restart"
    return "refused update" if "skipped" in fields or text.startswith("an update was skipped") else "warning"


def _saved(manifest: Json) -> SavedPolicy:
    learner = mapping(mapping(manifest["content"]).get("learner"))
    scores = learner.get("recent_scores")
    newest = mapping(scores[-1]) if isinstance(scores, list) and scores else {}
    best = mapping(learner.get("best")).get("decisions")
    return SavedPolicy(
        learner=manifest["name"],
        step=manifest["step"],
        created=manifest["created"],
        size=int(sum(number(mapping(facts).get("bytes")) or 0 for facts in manifest["files"].values())),
        accuracy=number(newest.get(keys.VALIDATION_ACCURACY)),
        best=best if isinstance(best, int) else None,
    )
