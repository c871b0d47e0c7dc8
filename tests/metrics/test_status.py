"""What a run tells of itself in a file is what is read from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tau_trainer.errors import DataError
from tau_trainer.metrics.games import Games
from tau_trainer.metrics.snapshot import BaselineScore, BehaviorSnapshot, PairMetrics, PairState, RunReport, RunSnapshot
from tau_trainer.metrics.status import EVERY_S, SILENT_S, Status, StatusFile, read_status

SNAPSHOT = RunSnapshot(
    "first",
    "learn",
    pairs=(PairMetrics(0, PairState.TRAINING, decisions=7), PairMetrics(1, PairState.FAILED, error="it fell")),
    behaviors=(BehaviorSnapshot("Basic", step=7, mean_reward=float("inf"), games=(Games("newest", won=2),)),),
    baselines={"zeros": BaselineScore(0.5, 0.25)},
    figures=("actors 100/s",),
    message="waiting",
)


def test_it_is_read_as_it_was_and_written_no_more_often_than_it_should(tmp_path: Path) -> None:
    path, now = tmp_path / "status.json", [1000.0]
    file = StatusFile(path, lambda: now[0])
    file.on_snapshot(SNAPSHOT)
    status = read_status(path)
    assert (status.run, status.told, status.outcome) == (SNAPSHOT, 1000.0, None)
    later = replace(SNAPSHOT, decisions=100)
    now[0] += EVERY_S / 2
    file.on_snapshot(later)
    assert read_status(path) == status
    now[0] += EVERY_S / 2
    file.on_snapshot(later)
    assert read_status(path).run == later
    file.on_snapshot(SNAPSHOT)
    file.on_result(RunReport("first", tmp_path, "learn", "cancelled", 100, 1.0, 100.0))
    assert (read_status(path).run, read_status(path).outcome) == (SNAPSHOT, "cancelled")


def test_a_run_that_was_never_shown_tells_nothing(tmp_path: Path) -> None:
    StatusFile(tmp_path / "s.json").on_result(RunReport("first", tmp_path, "learn", "failed", 0, 1.0, 0.0))
    assert not (tmp_path / "s.json").exists()


@pytest.mark.parametrize(
    ("age", "outcome", "sentence"),
    [
        (0.4, None, "seen 0 s ago, process 12 on here"),
        (-3.0, None, "seen 0 s ago, process 12 on here"),
        (
            SILENT_S + 70,
            None,
            "nothing heard for 85 s: process 12 on here was killed or stopped; resume a killed run with --resume",
        ),
        (7200.0, "completed", "completed, 2 h ago"),
        (300.0, "failed", "failed, 5 min ago"),
        (3 * 86400.0, "cancelled", "cancelled, 3 days ago"),
    ],
)
def test_how_new_it_is(age: float, outcome: str | None, sentence: str) -> None:
    assert Status(1000.0, "here", 12, outcome, SNAPSHOT).sentence(1000.0 + age) == sentence


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.json' cannot be read"):
        read_status(tmp_path / "none.json")
    (tmp_path / "old.json").write_text('{"told": 1}')
    with pytest.raises(DataError, match=r"old\.json' was not written by this version of Tau Trainer"):
        read_status(tmp_path / "old.json")
