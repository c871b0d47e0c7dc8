"""What a sweep has come to: written down as it comes, ranked, shown, and handed on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.errors import SettingsError
from tau_trainer.search.member import TrialReport
from tau_trainer.search.sweep_record import SweepRecord
from tau_trainer.settings import RunSettings, load_settings
from tests.search.conftest import quick

RATE, SIZE = "hyperparameters.learning_rate", "hyperparameters.batch_size"
SPACE = {RATE: {"loguniform": [1e-5, 1e-2]}, SIZE: {"choice": [16, 32]}}


def swept(**given: object) -> RunSettings:
    changes: Any = {f"sweep__{name}": value for name, value in ({"space": SPACE, "trials": 4} | given).items()}
    return quick(**changes)


def filled(folder: Path, **given: object) -> SweepRecord:
    """One trial of each ending."""
    sweep = SweepRecord.begin(folder, swept(**given))
    told = [
        ("trial-1", 1e-3, TrialReport(100, 20.0)),
        ("trial-2", 2e-3, TrialReport(100, 30.0)),
        ("trial-1", 1e-3, TrialReport(200, 50.0, ended=True)),
        ("trial-3", 3e-3, TrialReport(100, 90.0, ended=True, error="it broke")),
        ("trial-4", 4e-3, TrialReport(100, 10.0)),
    ]
    for name, rate, report in told:
        sweep.record(name, {RATE: rate, SIZE: 16}, report)
    for name in ("trial-1", "trial-2", "trial-3"):
        sweep.ended(name)
    return sweep


@pytest.mark.parametrize("mode", ["max", "min"])
def test_the_best_of_those_that_did_not_fail_comes_first(mode: str, tmp_path: Path) -> None:
    sweep = filled(tmp_path, mode=mode)
    order = ["trial-1", "trial-2", "trial-4"]
    assert [trial.name for trial in sweep.ranked()] == [*(order if mode == "max" else order[::-1]), "trial-3"]
    assert sweep.best is not None
    assert sweep.best.name == (order if mode == "max" else order[::-1])[0]
    endings = {trial.name: trial.ending for trial in sweep.ranked()}
    assert endings == {"trial-1": "finished", "trial-2": "stopped", "trial-3": "failed", "trial-4": "unfinished"}
    assert not sweep.complete


def test_it_is_found_again_as_it_was_also_where_a_line_was_cut_off(tmp_path: Path) -> None:
    before = filled(tmp_path).to_dict()
    with (tmp_path / "reports.jsonl").open("a") as file:
        file.write('\n{"trial": "trial-4", "rep')
    again = SweepRecord(tmp_path)
    assert again.to_dict() == before
    again.record("trial-4", {RATE: 4e-3, SIZE: 16}, TrialReport(200, 11.0, ended=True))
    assert SweepRecord(tmp_path).trials["trial-4"].points == [(100, 10.0), (200, 11.0)], "what comes after it counts"
    again.ended("trial-4")
    assert again.complete
    assert SweepRecord(tmp_path).complete


def test_one_that_failed_and_was_begun_again_is_not_over(tmp_path: Path) -> None:
    """Else the others would complete the sweep, and what it goes on from would be removed."""
    sweep = SweepRecord.begin(tmp_path, swept(trials=1))
    sweep.record("trial-1", {RATE: 1e-3, SIZE: 16}, TrialReport(ended=True, error="its process ended 4 times"))
    sweep.ended("trial-1")
    assert SweepRecord(tmp_path).complete
    sweep.record("trial-1", {RATE: 1e-3, SIZE: 16}, TrialReport(100, 1.0))
    assert not sweep.complete
    assert SweepRecord(tmp_path).trials["trial-1"].ending == "unfinished"


def test_a_trial_that_went_back_has_the_points_that_it_has_gone_on_from(tmp_path: Path) -> None:
    sweep = SweepRecord.begin(tmp_path, swept())
    for decisions, reward in ((100, 1.0), (200, 2.0), (300, 3.0), (200, 5.0)):
        sweep.record("trial-1", {RATE: 1e-3, SIZE: 16}, TrialReport(decisions, reward))
    sweep.record("trial-1", {RATE: 2e-3, SIZE: 16}, TrialReport(250, None))
    assert sweep.trials["trial-1"].points == [(100, 1.0), (200, 5.0)]
    assert sweep.trials["trial-1"].values[RATE] == 2e-3


def test_a_table_and_files_of_which_one_can_be_trained_on(tmp_path: Path) -> None:
    sweep = filled(tmp_path)
    titles, rows = sweep.table()
    assert titles == ("trial", "learning_rate", "batch_size", "decisions", "mean reward", "")
    assert rows[0] == ("trial-1", "0.001", "16", "200", "50", "best")
    assert [row[-1] for row in rows[1:]] == ["stopped", "unfinished", "it broke"]
    files = sweep.write()
    assert [file.name for file in files] == ["result.json", "sweep.png", "best.yaml"]
    assert json.loads(files[0].read_text())["best"] == "trial-1"
    assert files[1].stat().st_size > 10_000
    best = load_settings(files[2])
    assert best.behaviors["CartPole-v1"].hyperparameters.learning_rate == 1e-3
    assert best.sweep is None
    assert "run_id" not in best.checkpoint_settings.model_fields_set, "a run of it gets a name of its own"


def test_lines_of_the_picture_are_the_trials_and_the_best_stands_first(tmp_path: Path) -> None:
    sweep = filled(tmp_path)
    for number in range(5, 9):
        sweep.record(f"trial-{number}", {RATE: 1e-4, SIZE: 32}, TrialReport(100, float(number)))
    [axes] = sweep.draw().axes
    lines = {str(line.get_label()).partition(":")[0]: line for line in axes.lines}
    assert np.asarray(lines["trial-1"].get_ydata()).tolist() == [20.0, 50.0]
    legend = axes.get_legend()
    assert legend is not None
    named = [text.get_text() for text in legend.get_texts()]
    assert named[0] == "trial-1: 0.001, 16"
    assert len(named) == 6
    assert len(axes.lines) == 7


def test_nothing_is_best_where_nothing_was_measured(tmp_path: Path) -> None:
    sweep = SweepRecord.begin(tmp_path, swept())
    assert sweep.best is None
    sweep.record("trial-1", {RATE: 1e-3, SIZE: 16}, TrialReport(100, None))
    assert sweep.best is None
    assert [file.name for file in sweep.write()] == ["result.json", "sweep.png"]


def test_keys_that_end_alike_are_told_whole(tmp_path: Path) -> None:
    space = {"behaviors.A.max_steps": {"choice": [1]}, "behaviors.B.max_steps": {"choice": [1]}, RATE: SPACE[RATE]}
    sweep = SweepRecord.begin(tmp_path, swept(space=space))
    assert [sweep.short(key) for key in space] == ["behaviors.A.max_steps", "behaviors.B.max_steps", "learning_rate"]


def test_there_is_nothing_to_go_on_with(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^there is no sweep to resume in '.*'; check --output"):
        SweepRecord(tmp_path)
