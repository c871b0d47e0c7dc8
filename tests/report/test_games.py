from __future__ import annotations

import re
from pathlib import Path

import pytest

from tau_trainer.metrics import BehaviorSnapshot, JsonLines, MetricsHub, RunReport
from tau_trainer.metrics.games import Games
from tests.report.conftest import append, write_run
from tests.report.pages import page, section

RESULTS = (
    Games("newest", 10, 5, 5),
    Games("snapshot at 0", 30, 0, 10, made=0),
    Games("snapshot at 2,000", 8, 0, 2, made=2000),
    Games("old.onnx", 1, 0, 0),
    Games("snapshot at 4,000", made=4000),  # as logs of earlier versions list it, without a game
)


@pytest.fixture
def played(tmp_path: Path) -> Path:
    folder = write_run(tmp_path / "first", result=False)
    behavior = BehaviorSnapshot("SoccerTwos", 5000, elo=1203.25, games=RESULTS)
    with MetricsHub([JsonLines(folder / "log.jsonl")]) as hub:
        hub.result(RunReport("first", folder, "learn", "completed", 5000, 1.0, 1.0, behaviors=(behavior,)))
    return folder


def test_results_are_a_table_and_a_picture_with_intervals(played: Path) -> None:
    text = page(played)
    told = section(text, "games")
    assert "SoccerTwos, Elo 1203.2" in told
    assert "snapshot at 0 40 30 0 10 75.0 % 59.8 % to 85.8 %" in told
    assert "old.onnx 1 1 0 0 100.0 %" in told
    assert "snapshot at 4,000" not in told
    assert "Score against snapshots" in told
    [drawn] = re.findall(r'<section id="games">.*?</section>', text, re.DOTALL)
    assert drawn.count("<circle") >= 2
    assert 'class="area' in drawn
    (played / "log.jsonl").write_text('{"type": "result", "outcome": "completed"}\n', "utf-8")
    assert 'id="games"' not in page(played)


def test_what_somebody_else_wrote_is_passed_over(played: Path) -> None:
    rows = [{"opponent": "x", "won": -1}, 7, {"opponent": "y", "won": 1, "drawn": 0, "lost": 0, "made": "z"}]
    record = {"type": "result", "behaviors": [{"name": "A", "games": rows}, 3, {"name": "B", "games": []}]}
    append(played, record)
    told = section(page(played), "games")
    assert "y 1 1 0 0" in told
    assert "x" not in told.split("opponent")[1].split("Score:")[0].replace("exact", "")
