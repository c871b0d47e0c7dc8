"""Curves of a run's learning, read from its ``log.jsonl``."""

from __future__ import annotations

import contextlib
import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tau_trainer.files import parse_json
from tau_trainer.metrics import keys
from tau_trainer.metrics.jsonl import FILE_NAME, read_log
from tau_trainer.specs import Json

INDEPENDENT = re.compile(r"(?P<behavior>.+)-pair(?P<pair>\d+)")
"""Name of a learner if each pair has its own policy."""
EVALUATION_NAME = "evaluation.json"
NEW_START_S = 0.5
"""Seconds by which a log's clock must go back for a new start; threads may swap lines that are milliseconds apart."""
_MOST_STEPS = 2**53
"""A higher step is damage: the floats of curves cannot count further."""


@dataclass(slots=True)
class Curve:
    """One line: ``y`` over ``x`` (decisions), of equal length; ``x`` never decreases."""

    x: list[float] = field(default_factory=list)
    y: list[float] = field(default_factory=list)

    def add(self, x: float, y: object) -> None:
        """Append a point, or replace the last one if it has the same ``x``; skip values that are not finite numbers."""
        value = number(y)
        if value is not None:
            if self.x and self.x[-1] == x:
                del self.x[-1], self.y[-1]
            self.x.append(x)
            self.y.append(value)

    def cut(self, step: float) -> None:
        """Remove the points after ``step``."""
        end = bisect_right(self.x, step)
        del self.x[end:], self.y[end:]


TEST_ACCURACY, TEST_REWARD = "Test/Accuracy", "Test/Reward"
"""Keys of the exported policy's scores, one point each."""
SPREADS = ("std", "min", "max")
"""Statistics in the log that show how far a point's values lie apart."""
Line = tuple[str, str | None]
"""Behavior, and pair; None: all pairs together."""


@dataclass(slots=True)
class History:
    """Curves by key and line, and the scores of the baselines.

    A resumed run repeats the steps after its checkpoint: their points from before the resume are removed.
    """

    run_id: str = ""
    curves: dict[str, dict[Line, Curve]] = field(default_factory=dict)
    baselines: dict[str, dict[str, float]] = field(default_factory=dict)
    """``baselines["ridge"]["accuracy"]``, also ``["reward"]``."""
    steps: dict[str, int] = field(default_factory=dict)
    """The last step of each behavior."""
    task: dict[str, str] = field(default_factory=dict)
    """The task's names of scalars, by role: ``reward`` of a decision, its ``success``."""
    spreads: dict[str, dict[str, dict[Line, Curve]]] = field(default_factory=lambda: {name: {} for name in SPREADS})
    """Standard deviation, lowest and highest of the values that each point is the mean of, if the log has them."""
    evaluation: Json = field(default_factory=dict)
    """Content of ``evaluation.json``; empty: none."""
    part: str = "engine"
    """Name of one part of the run: ``pair`` if a task counts rewards of decisions, or if each pair has a policy."""
    seconds: dict[str, Curve] = field(default_factory=dict)
    """Seconds of training at each step, by behavior, summed over all starts of the run."""

    @classmethod
    def load(cls, run_dir: Path) -> History:
        """Read ``log.jsonl`` and, if it exists, ``evaluation.json``."""
        history = cls.from_records(read_log(run_dir / FILE_NAME))
        history.run_id = history.run_id or run_dir.resolve().name
        # If the file is damaged, only its points are missing from the picture.
        with contextlib.suppress(OSError, ValueError):
            history.add_evaluation(parse_json((run_dir / EVALUATION_NAME).read_text(encoding="utf-8")))
        return history

    @classmethod
    def from_records(cls, records: Iterable[Json]) -> History:
        """From records of :func:`~tau_trainer.metrics.jsonl.read_log`; unknown ones are skipped."""
        history = cls()
        before, last = 0.0, 0.0  # seconds of earlier starts, and the clock of this one
        for record in records:
            elapsed = number(record.get("elapsed"))
            if elapsed is not None:
                before = before + last if elapsed < last - NEW_START_S else before
                last = elapsed
            match record:
                case {"type": "summary", "behavior": str(behavior), "step": int(step)} if step < _MOST_STEPS:
                    history._cut(behavior, step)  # a second record of the same step adds to the first
                    history._add_summary(behavior, step, record)
                    history.seconds.setdefault(behavior, Curve()).add(step, before + last)
                case {"type": "event", "kind": "resumed", "fields": {"behavior": str(behavior), "step": int(step)}}:
                    history._cut(behavior, step)
                case {"type": "event", "kind": "task", "fields": dict(names)}:
                    history.task = {str(name): str(key) for name, key in names.items()}
                    history.part = "pair"
                case {"type": "event", "kind": "baselines", "fields": {"values": dict(values)}}:
                    history._add_baselines(values)
                case {"type": "result"}:
                    history.run_id = str(record.get("run_id") or "")
        return history

    def overall(self, key: str) -> dict[str, Curve]:
        """The curve of each behavior for that key."""
        return {behavior: curve for (behavior, pair), curve in self._lines(key) if pair is None}

    @property
    def reward_key(self) -> str:
        """Key of the reward: of a decision if a task counts those, otherwise of an episode."""
        decided = self.task.get("reward", "")
        return decided if self.overall(decided) else keys.CUMULATIVE_REWARD

    def pairs(self, key: str) -> dict[Line, Curve]:
        """The curve of each single pair for that key."""
        return {line: curve for line, curve in self._lines(key) if line[1] is not None}

    def merge_independent(self) -> History:
        """If each pair has its own behavior (``TauAgent-pair3``): these as pairs of one behavior, with their mean.

        The mean at a step is over the pairs that have reached it. Other histories are returned unchanged.
        """
        matches = {behavior: INDEPENDENT.fullmatch(behavior) for behavior in self.steps}
        names = {match["behavior"] for match in matches.values() if match}
        if len(self.steps) < 2 or not all(matches.values()) or len(names) != 1:
            return self
        [name] = names
        steps = {name: max(self.steps.values())}
        merged = History(self.run_id, baselines=self.baselines, steps=steps, task=self.task, part="pair")
        for key in self.curves:
            behaviors = self.overall(key)
            merged.curves[key] = {
                (name, match["pair"]): curve
                for behavior, curve in behaviors.items()
                if (match := matches.get(behavior)) is not None
            }
            merged.curves[key][name, None] = mean_curve(list(behaviors.values()))
        merged.add_evaluation(self.evaluation)
        return merged

    def over_time(self) -> History:
        """The same with seconds instead of decisions; curves without times are left out."""

        def timed(curves: Mapping[str, Mapping[Line, Curve]]) -> dict[str, dict[Line, Curve]]:
            return {
                key: {
                    line: Curve(np.interp(curve.x, clock.x, clock.y).tolist(), list(curve.y))
                    for line, curve in lines.items()
                    if (clock := self.seconds.get(line[0], Curve())).x
                }
                for key, lines in curves.items()
            }

        spreads = {name: timed(curves) for name, curves in self.spreads.items()}
        steps = {name: int(clock.y[-1]) for name, clock in self.seconds.items() if clock.y}
        return replace(self, curves=timed(self.curves), spreads=spreads, steps=steps)

    def _lines(self, key: str) -> list[tuple[Line, Curve]]:
        return [(line, curve) for line, curve in self.curves.get(key, {}).items() if curve.x]

    def _add_summary(self, behavior: str, step: int, record: Json) -> None:
        self.steps[behavior] = step
        for key, value in mapping(record.get("values")).items():
            self._curve(key, (behavior, None)).add(step, value)
        for key, statistics in mapping(record.get("statistics")).items():
            for name, spread in self.spreads.items():
                line = spread.setdefault(key, {}).setdefault((behavior, None), Curve())
                line.add(step, mapping(statistics).get(name))
        for pair, values in mapping(record.get("pairs")).items():
            for key, value in mapping(values).items():
                self._curve(key, (behavior, str(pair))).add(step, value)

    def _add_baselines(self, values: Json) -> None:
        for name, scores in values.items():
            if isinstance(scores, Mapping):
                known = {key: number(value) for key, value in scores.items()}
                self.baselines[str(name)] = {key: value for key, value in known.items() if value is not None}

    def add_evaluation(self, evaluation: object) -> None:
        """Add the exported policy's scores on test rows, from the content of ``evaluation.json``."""
        self.evaluation = content = mapping(evaluation)
        if not self.baselines:
            self._add_baselines(mapping(content.get("baselines")))
        exported = mapping(mapping(content.get("policies")).get(str(content.get("exported"))))
        decisions = number(exported.get("decisions", 0))
        if len(self.steps) == 1 and decisions is not None:
            [behavior] = self.steps
            for key, score in ((TEST_ACCURACY, "accuracy"), (TEST_REWARD, "reward")):
                self._curve(key, (behavior, None)).add(decisions, exported.get(score))

    def _curve(self, key: str, line: Line) -> Curve:
        return self.curves.setdefault(key, {}).setdefault(line, Curve())

    def _cut(self, behavior: str, step: int) -> None:
        for lines in (lines for curves in (self.curves, *self.spreads.values()) for lines in curves.values()):
            for (owner, _), curve in lines.items():
                if owner == behavior:
                    curve.cut(step)
        if behavior in self.seconds:
            self.seconds[behavior].cut(step)


def mapping(value: object) -> Json:
    """``value`` if it is a mapping, otherwise an empty one: the file may be damaged."""
    return value if isinstance(value, Mapping) else {}


def number(value: object) -> float | None:
    """``value`` as a float; None if it is not a finite number."""
    return float(value) if isinstance(value, int | float) and abs(value) <= sys.float_info.max else None


def moving_mean(values: Sequence[float], window: int) -> list[float]:
    """For each value, the mean of the ``window`` values around it; fewer at both ends."""
    known, before = np.asarray(values, float), window // 2
    after = window - before
    return [float(known[max(0, i - before) : i + after].mean()) for i in range(len(known))]


def mean_curve(curves: Sequence[Curve]) -> Curve:
    """Mean of curves at every ``x`` of any of them, interpolated linearly, over the curves that reach this ``x``."""
    if not curves:
        return Curve()
    grid = np.unique(np.concatenate([curve.x for curve in curves]))
    values = np.array([np.interp(grid, curve.x, curve.y, left=np.nan, right=np.nan) for curve in curves])
    return Curve(grid.tolist(), np.nanmean(values, axis=0).tolist())
