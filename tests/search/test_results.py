from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tau_trainer.errors import SettingsError
from tau_trainer.search import Comparison, LRResult, TrialResult
from tau_trainer.search.compare import CandidateResult
from tau_trainer.search.results import check_folder, results_folder, smoothed_points, table, write
from tests.search.test_sweep import rises_at, sweep

COMPARISON = Comparison(
    "optimizer",
    "reward",
    (
        CandidateResult("adam", TrialResult([(10, 1.0), (20, 3.0)], [(15, 0.5)], 30)),
        CandidateResult("sgd", TrialResult([(10, 1.0)], [], 12, "stopped")),
        CandidateResult("nadam", TrialResult(), "it broke"),
    ),
)


def size_of(picture: Path) -> tuple[int, int]:
    with Image.open(picture) as image:
        return image.size


def test_a_sweep_leaves_a_table_a_file_and_a_picture(tmp_path: Path) -> None:
    result = LRResult(sweep("reward", rises_at(23)), 40, "the last learning rate was tried", 9000)
    files = write(result, tmp_path)
    assert [file.name for file in files] == ["lr.json", "lr.png"]
    assert json.loads(files[0].read_text())["suggestion"] == result.suggestion
    assert size_of(files[1]) == (1080, 816)
    titles, rows = table(result)
    assert titles[0] == "learning rate"
    assert {len(row) for row in rows} == {len(titles)}
    [suggested] = [row for row in rows if row[-1] == "suggested"]
    assert float(suggested[0]) == pytest.approx(result.suggestion, rel=0.01)
    assert rows[0][0] == "1.00e-06"
    assert rows[-1][0] == "1.00e-01"
    assert 12 <= len(rows) <= 13


def test_a_sweep_that_shows_nothing_is_drawn_too(tmp_path: Path) -> None:
    result = LRResult(sweep("loss", [1.0, 1.0]), 40, "it was stopped", 9)
    assert result.suggestion is None
    assert size_of(write(result, tmp_path)[1]) == (1080, 816)
    assert len(table(result)[1]) == 2


def test_a_comparison_leaves_the_same(tmp_path: Path) -> None:
    files = write(COMPARISON, tmp_path)
    assert [file.name for file in files] == ["optimizer.json", "optimizer.png"]
    assert json.loads(files[0].read_text())["candidates"][2]["error"] == "it broke"
    titles, rows = table(COMPARISON)
    assert titles == ("optimizer", "mean reward", "mean loss", "episodes", "updates", "decisions", "")
    assert rows == [
        ("adam", "2", "0.5", "2", "1", "30", "best"),
        ("sgd", "1", "-", "1", "0", "12", "stopped"),
        ("nadam", "-", "-", "0", "0", "0", "it broke"),
    ]


def test_means_of_consecutive_points() -> None:
    points = [(i, float(i % 2)) for i in range(600)]
    x, y = smoothed_points(points)
    assert len(x) == 30
    np.testing.assert_allclose(y, 0.5)
    assert x[0] == 9.5
    assert smoothed_points(points[:2]) == ([0.0, 1.0], [0.0, 1.0])


def test_a_folder_that_holds_something_is_never_written_to(tmp_path: Path) -> None:
    assert results_folder("find-lr", tmp_path / "results") == tmp_path / "results" / "find-lr"
    assert results_folder("find-lr", tmp_path / "results") == tmp_path / "results" / "find-lr-2"
    given = tmp_path / "given"
    assert results_folder("find-lr", tmp_path, given) == given
    assert results_folder("find-lr", tmp_path, given) == given, "empty still"
    (given / "mine").touch()
    for check in (lambda: check_folder(given), lambda: results_folder("find-lr", tmp_path, given)):
        with pytest.raises(SettingsError, match="is not empty; choose a new or empty folder"):
            check()
    with pytest.raises(SettingsError, match="is not empty"):
        check_folder(given / "mine")
    with pytest.raises(SettingsError, match="cannot create the folder"):
        results_folder("find-lr", tmp_path, given / "mine" / "deeper")
