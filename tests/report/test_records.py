from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.errors import TauError
from tau_trainer.report import RunRecord, render
from tau_trainer.report.records import BROKEN_OFF, IN_PROGRESS
from tests.report.conftest import append, write_run


def event(kind: str, elapsed: float = 1.0, **fields: Any) -> dict[str, Any]:
    return {"type": "event", "time": 0.0, "elapsed": elapsed, "kind": kind, "fields": fields}


def summary(elapsed: float, step: int = 1000, **values: float) -> dict[str, Any]:
    return {"type": "summary", "elapsed": elapsed, "behavior": "A", "step": step, "training": True, "values": values}


def test_a_whole_run(run: Path) -> None:
    record = RunRecord.load(run)
    assert record.name == record.history.run_id == "first"
    assert record.outcome == "completed"
    assert record.decisions == 5000
    assert record.evaluation["accuracy"] == 0.9
    assert record.provenance["hardware"]["cpu"] == "A processor"
    assert record.configuration.fault is None
    assert {name: pair.state for name, pair in record.pairs.items()} == {"0": "Completed", "1": "Completed"}
    assert [(one.step, one.accuracy, one.best) for one in record.checkpoints] == [
        (2000, 0.6, 2000), (4000, 0.8, 4000), (5000, 0.75, 4000),
    ]  # fmt: skip
    assert record.checkpoints[0].size > 32
    assert record.faults == {}
    [session] = record.sessions
    assert (session.updates, session.update_seconds, session.held_seconds) == (10, 5.0, 0.625)
    assert session.ended == 12.5


def test_a_run_whose_folder_is_locked_is_in_progress(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", result=False)
    lock = FileLock(folder / ".lock")
    with lock:
        assert RunRecord.load(folder).outcome == IN_PROGRESS
        assert lock.is_locked
    (folder / ".lock").write_text("process 1 on a machine", "utf-8")
    assert RunRecord.load(folder).outcome == BROKEN_OFF, "the lock of a dead process is free"
    assert (folder / ".lock").read_text("utf-8") == "process 1 on a machine", "nothing of the run is touched"
    assert RunRecord.load(folder).evaluation == {}
    assert RunRecord.load(folder).decisions == 5000


def test_a_resumed_run_has_sessions_and_the_last_one_counts(run: Path) -> None:
    append(run, event("resumed", 0.01, behavior="TauAgent", step=5000), summary(3.0), event("note", 4.0))
    record = RunRecord.load(run)
    assert record.outcome == BROKEN_OFF, "the result is of the session before"
    assert record.result == {}
    assert [one.ended for one in record.sessions] == [12.5, 4.0]
    assert record.seconds == 16.5


def test_a_clock_that_goes_back_and_a_result_are_followed_by_a_new_start(tmp_path: Path) -> None:
    append(tmp_path, summary(10.0), event("note", 9.9), summary(20.0), summary(0.1, 500))
    append(tmp_path, {"type": "result", "outcome": "cancelled", "wall_seconds": 0.2}, summary(0.3, 2000))
    record = RunRecord.load(tmp_path)
    assert [one.ended for one in record.sessions] == [20.0, 0.2, 0.3], "however short one was"
    assert record.outcome == BROKEN_OFF


def test_restarts_and_refused_updates_are_told_apart_from_other_warnings(run: Path) -> None:
    """Older logs say of them in words alone."""
    append(
        run,
        event("warning", 20.0, message="in whatever words", pair=1, restart=1),
        event("warning", 21.0, message="in whatever words", behavior="TauAgent", skipped=1),
        event("warning", 22.0, message="something else"),
        event("warning", 22.5, message="engine 1 ended; starting it again in 0.25 s (restart 1)", pair=1),
        event("warning", 22.5, message="an update was skipped and the weights kept: NaN", behavior="TauAgent"),
        event("note", 23.0, message="pressed"),
        {"type": "result", "outcome": "failed", "wall_seconds": 24.0, "errors": ["pair 0: gone"]},
        {"type": "summary", "behavior": "B", "step": 1, "statistics": {"x": {"non_finite": 3}, "y": {"non_finite": 1}}},
    )
    record = RunRecord.load(run)
    assert record.faults == {"error": 1, "engine restart": 2, "refused update": 2, "warning": 1}
    assert [record.pairs[name].restarts for name in "01"] == [0, 2]
    assert record.non_finite == 4
    assert [one.kind for one in record.happenings if not one.fault] == ["lesson", "note"]


def test_damaged_files_are_faults_and_cost_no_more(run: Path) -> None:
    for name in ("run.json", "evaluation.json", "configuration.yaml"):
        (run / name).write_text("{", "utf-8")
    (run / "checkpoints" / "TauAgent-2000" / "manifest.json").write_text("{}", "utf-8")
    record = RunRecord.load(run)
    assert record.faults == {"damaged file": 4}
    assert [one.step for one in record.checkpoints] == [4000, 5000]
    assert "damaged file" in render([record])
    assert record.outcome == "completed"


@pytest.mark.parametrize("content", [None, "", "garbage\n", "[1]\n"])
def test_a_folder_without_a_log_is_one_sentence(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "log.jsonl").write_text(content)
    with pytest.raises(TauError, match="nothing to report"):
        RunRecord.load(tmp_path)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a user from whom files can be kept")
def test_a_log_that_may_not_be_read_is_one_sentence(run: Path) -> None:
    (run / "log.jsonl").chmod(0)
    with pytest.raises(TauError, match="Cannot read"):
        RunRecord.load(run)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(10**400)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(
    ["Environment/Cumulative Reward", "Tau/Mean Reward", "Validation/Accuracy", "Perf/Update Seconds", "x", "<script>"]
)
records = st.fixed_dictionaries(
    {"type": st.sampled_from(["summary", "event", "result"]) | anything},
    optional={
        "elapsed": anything,
        "behavior": st.sampled_from(["A", "A-pair0", "A-pair1"]) | anything,
        "step": st.integers(0, 100) | anything,
        "training": anything,
        "values": st.dictionaries(keys, scalars, max_size=3) | anything,
        "statistics": st.dictionaries(keys, anything, max_size=3) | anything,
        "pairs": st.dictionaries(st.text(max_size=3), anything, max_size=3) | anything,
        "kind": st.sampled_from(["task", "baselines", "pair", "warning", "resumed", "lesson"]) | anything,
        "fields": st.fixed_dictionaries(
            {}, optional=dict.fromkeys(["message", "pair", "state", "values", "reward", "behavior", "step"], anything)
        )
        | anything,
        "outcome": anything,
        "decisions": anything,
        "decisions_per_second": anything,
        "wall_seconds": anything,
        "verdict": anything,
        "errors": anything,
    },
)
files = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ["accuracy", "reward", "baselines", "strongest", "policies", "exported", "pairs", "rows", "accuracy_by_domain",
         "hardware", "versions", "git", "command", "started"],
        anything,
    ),
)  # fmt: skip


@given(st.lists(records, min_size=1, max_size=6), files)
def test_whatever_the_files_hold_there_is_a_report(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Any], other: dict[str, Any]
) -> None:
    folder = tmp_path_factory.mktemp("run")
    append(folder, *lines)
    for name in ("evaluation.json", "run.json"):
        (folder / name).write_text(json.dumps(other), "utf-8")
    text = render([RunRecord.load(folder)])
    assert text.startswith("<!doctype html>")
    assert text.count("<script>") == 1
    render([RunRecord.load(folder)] * 2)
