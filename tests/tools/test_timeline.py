"""Rates from what engines counted: windows, whole cycles, and the return of recent episodes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tools.bench.timeline import Timeline, read_reports

Row = tuple[float, int, int, int, float | None]


def write_report(folder: Path, pid: int, rows: list[Row], rest: str = "") -> None:
    keys = ("time", "decisions", "exchanges", "episodes", "mean_return")
    lines = [json.dumps(dict(zip(keys, row, strict=True))) for row in rows]
    (folder / f"engine-{pid}.jsonl").write_text("\n".join([*lines, rest]), encoding="utf-8")


@pytest.fixture
def two_engines(tmp_path: Path) -> Timeline:
    """One plays 100 decisions a second from time 0, the other 50 from time 2; both stop at time 10."""
    write_report(tmp_path, 11, [(float(t), 100 * t, 10 * t, 0, None) for t in range(11)])
    write_report(tmp_path, 12, [(float(t), 50 * (t - 2), 5 * (t - 2), 0, None) for t in range(2, 11)])
    return read_reports(tmp_path)


def test_counts_of_all_engines_add_up(two_engines: Timeline) -> None:
    assert [engine.pid for engine in two_engines.engines] == [11, 12]
    assert two_engines.total(1.0) == 100
    assert two_engines.total(4.5) == 450 + 125
    assert two_engines.end() == 10.0
    assert two_engines.rate(4.0, 8.0) == pytest.approx(150.0)
    assert two_engines.rate(4.0, 8.0, "exchanges") == pytest.approx(15.0)
    assert two_engines.rate(5.0, 5.0) == 0.0
    assert two_engines.crossing(50) == pytest.approx(0.5), "between the lines"
    assert two_engines.crossing(200 + 75) == pytest.approx(2.5)
    assert two_engines.crossing(10_000) is None


def test_whole_cycles_count_the_pause_of_an_update(tmp_path: Path) -> None:
    """100 decisions in a second, then two seconds of standing still, again and again: 33 a second."""
    rows: list[Row] = [(float(t), 100 * ((t + 2) // 3), 0, 0, None) for t in range(31)]
    write_report(tmp_path, 1, rows)
    timeline = read_reports(tmp_path)
    assert timeline.rate(3.0, 16.0) > 36.0
    whole = timeline.cycle_rate(100, 3.0, 16.0)
    assert whole is not None
    assert whole[0] == pytest.approx(100 / 3)
    assert whole[1] == 5
    assert timeline.cycle_rate(100_000, 0.0, 30.0) is None


def test_recent_return_weighs_lines_by_their_episodes(tmp_path: Path) -> None:
    write_report(tmp_path, 1, [(1.0, 0, 0, 10, 1.0), (2.0, 0, 0, 10, None), (3.0, 0, 0, 70, 5.0)])
    write_report(tmp_path, 2, [(1.5, 0, 0, 40, 3.0), (2.5, 0, 0, 40, None)])
    timeline = read_reports(tmp_path)
    assert timeline.recent_return(60) == (5.0, 60)
    mean, count = timeline.recent_return(100)
    assert count == 100
    assert mean == pytest.approx((60 * 5.0 + 40 * 3.0) / 100)
    assert timeline.recent_return(1000)[1] == 110
    assert timeline.recent_return(40, time=2.0) == (3.0, 40)


def test_a_goal_is_reached_with_the_first_line_that_shows_it(tmp_path: Path) -> None:
    write_report(tmp_path, 1, [(float(t), 10 * t, t, 60 * t, 10.0 * t) for t in range(1, 6)])
    timeline = read_reports(tmp_path)
    assert timeline.reached_at(10.0, 100) == 2.0
    assert timeline.reached_at(35.0, 100) == 4.0
    assert timeline.reached_at(35.0, 60) == 4.0
    assert timeline.reached_at(46.0, 100) is None


def test_nothing_yet(tmp_path: Path) -> None:
    write_report(tmp_path, 1, [])
    timeline = read_reports(tmp_path)
    assert timeline.engines == ()
    assert timeline.end() == 0.0
    assert timeline.crossing(1) is None
    mean, count = timeline.recent_return(100)
    assert count == 0
    assert math.isnan(mean)
    write_report(tmp_path, 1, [(1.0, 12, 1, 0, None)], rest='{"time": 2.0, "decis')
    assert read_reports(tmp_path).engines[0].decisions.tolist() == [12.0], "a line is still being written"
