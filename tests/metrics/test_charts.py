from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.metrics.charts import Line, band, charts, group_of, thin, thin_band
from tau_trainer.metrics.history import Curve, History
from tests.report.conftest import write_run

sizes, seeds = st.integers(1, 400), st.integers(0, 10**6)


def values(size: int, seed: int) -> list[float]:
    drawn: list[float] = np.random.default_rng(seed).normal(size=size).tolist()
    return drawn


def summary(step: int, values: dict[str, float], behavior: str = "A", **more: Any) -> dict[str, Any]:
    return {"type": "summary", "behavior": behavior, "step": step, "values": values, **more}


def history(name: str, *records: dict[str, Any]) -> History:
    made = History.from_records(records)
    made.run_id = name
    return made


def lines_of(*histories: History, title: str) -> tuple[Line, ...]:
    return next(one for group in charts(histories).values() for one in group if one.title == title).lines


@given(sizes, seeds, st.integers(4, 60))
def test_a_thinned_curve_keeps_its_ends_and_extremes(size: int, seed: int, most: int) -> None:
    y = values(size, seed)
    curve = Curve(list(map(float, range(size))), y)
    thinned = thin(curve, most)
    assert len(thinned.x) <= max(most, 4)
    assert (thinned.x[0], thinned.x[-1]) == (curve.x[0], curve.x[-1])
    assert (min(thinned.y), max(thinned.y)) == (min(y), max(y))
    assert thinned.x == sorted(set(thinned.x))
    assert all(curve.y[int(x)] == value for x, value in zip(thinned.x, thinned.y, strict=True)), "no value is made up"


@given(sizes, seeds, st.integers(3, 60))
def test_a_thinned_band_reaches_as_far(size: int, seed: int, most: int) -> None:
    y = values(size, seed)
    x = list(map(float, range(size)))
    high = [one + 1 for one in y]
    xs, lows, highs = thin_band(x, y, high, most)
    assert len(xs) == len(lows) == len(highs) <= most
    assert (min(lows), max(highs)) == (min(y), max(high))
    assert xs == sorted(xs)


def test_a_band_is_lowest_to_highest_of_those_that_reach_so_far() -> None:
    curves = [Curve([0, 10, 20], [0, 10, 20]), Curve([0, 10], [4, 4])]
    assert band(curves, [0, 5, 10, 20]) == ([0, 4, 4, 20], [4, 5, 10, 20])


def test_pairs_make_a_band_around_all() -> None:
    [line] = lines_of(
        history("r", *(summary(s, {"x": 2.0}, pairs={"0": {"x": 1.0}, "1": {"x": 3.0 + s}}) for s in (1, 2))), title="x"
    )
    assert line.curve.y == [2.0, 2.0]
    assert (line.low, line.high) == ([1.0, 1.0], [4.0, 5.0])
    assert {name: one.y for name, one in line.members.items()} == {"engine 0": [1.0, 1.0], "engine 1": [4.0, 5.0]}
    [line] = lines_of(history("r", summary(1, {"x": 0.0}, pairs={str(p): {"x": p} for p in range(9)})), title="x")
    assert (line.members, line.low, line.high) == ({}, [0.0], [8.0]), "of many pairs a band alone"


def test_runs_make_a_mean_and_a_band() -> None:
    first, second = (history(f"r{k}", summary(1, {"x": 1.0 * k}), summary(3, {"x": 3.0 * k})) for k in (1, 3))
    chart = charts([first, second])["Environment"][0]
    [line] = chart.lines
    assert line.curve == Curve([1.0, 3.0], [2.0, 6.0])
    assert (line.low, line.high) == ([1.0, 3.0], [3.0, 9.0])
    assert list(line.members) == ["r1", "r3"]
    assert chart.band == "lowest to highest of 2 runs around their mean"


def test_a_single_pair_has_the_deviation_of_its_episodes_within_what_was_seen() -> None:
    key = "Environment/Cumulative Reward"
    spread = {key: {"count": 5, "std": 0.5}}
    one = history("r", summary(1, {key: 2.0}, statistics=spread), summary(2, {key: 3.0}), summary(3, {"y": 1.0}))
    chart = charts([one])["Reward"][0]
    assert (chart.lines[0].low, chart.lines[0].high) == ([1.5, 3.0], [2.5, 3.0])
    assert chart.band == "one standard deviation around the mean"
    seen = {key: {"count": 5, "std": 0.5, "min": 1.9, "max": 2.2}}
    early, late = summary(1, {key: 2.0}, statistics=seen, elapsed=5.0), summary(2, {key: 3.0}, elapsed=9.0)
    one = history("r", early, late)
    for drawn, x in ((one, [1, 2]), (one.over_time(), [5.0, 9.0])):
        chart = charts([drawn])["Reward"][0]
        assert (chart.lines[0].curve.x, chart.lines[0].low, chart.lines[0].high) == (x, [1.9, 3.0], [2.2, 3.0])
        assert chart.band == "one standard deviation around the mean, cut at the lowest and highest value"


def test_a_behavior_has_one_colour_in_all_charts() -> None:
    one = history("r", summary(1, {"x": 1.0}), summary(1, {"x": 1.0, "y": 1.0}, "B"), summary(1, {"y": 1.0}, "C"))
    assert [line.color for line in lines_of(one, title="x")] == [0, 1]
    assert [line.color for line in lines_of(one, title="y")] == [1, 2]
    both = {"Tau/Pair 0/x": 1.0, "Tau/Pair 1/x": 2.0}
    agents = history("r", summary(1, both), summary(1, both, "B"))
    assert [line.color for line in lines_of(agents, title="Tau/Pair */x")] == [0, 1]
    task = {"type": "event", "kind": "task", "fields": {"reward": "r", "success": "s"}}
    scores = {"Validation/Accuracy": 0.5}
    [chart] = charts([history("r", task, summary(1, scores), summary(1, scores, "B"))])["Accuracy"]
    assert [line.color for line in chart.lines] == [2, 3], "those of success come before"


def test_scalars_that_differ_in_a_number_are_one_chart() -> None:
    one = history("r", summary(1, {f"Tau/Pair {k}/Mean Reward": float(k) for k in range(3)} | {"Tau/Other": 1.0}))
    titles = {chart.title: chart for chart in charts([one])["Environment"]}
    assert set(titles) == {"Tau/Pair */Mean Reward", "Tau/Other"}
    [line] = titles["Tau/Pair */Mean Reward"].lines
    assert (line.curve.y, line.low, line.high) == ([1.0], [0.0], [2.0])


def test_behaviors_are_lines_of_one_chart_and_counted_beyond_a_dozen() -> None:
    one = history("r", *(summary(1, {"x": 0.0}, f"B{k}") for k in range(15)))
    [chart] = charts([one])["Environment"]
    assert [line.name for line in chart.lines] == [f"B{k}" for k in range(12)]
    assert chart.left_out == 3


@pytest.mark.parametrize(
    ("key", "group"),
    [
        ("Environment/Cumulative Reward", "Reward"), ("Environment/Episode Length", "Reward"),
        ("Policy/Extrinsic Reward", "Reward"), ("Policy/Entropy", "Policy"), ("Losses/Value Loss", "Losses"),
        ("Environment/Lesson Number/height", "Lessons"), ("Train/KL", "Updates"), ("Perf/Policy Age", "Speed"),
        ("Tau/Aggregated Reward", "Accuracy"), ("Environment/Coins", "Environment"), ("coins", "Environment"),
    ],
)  # fmt: skip
def test_where_a_scalar_stands(key: str, group: str) -> None:
    assert group_of(key, {"aggregated": "Tau/Aggregated Reward"}) == group


def test_reward_and_accuracy_stand_with_validation_test_and_baselines(tmp_path: Path) -> None:
    drawn = charts([History.load(write_run(tmp_path / "r"))])
    assert list(drawn) == ["Reward", "Accuracy", "Lessons", "Losses", "Policy", "Updates", "Environment", "Speed"]
    reward, accuracy = drawn["Reward"][0], drawn["Accuracy"][0]
    assert [line.name for line in reward.lines] == ["training", "test, exported policy"]
    assert [line.name for line in accuracy.lines] == [
        "success in training", "validation accuracy", "test accuracy, exported policy",
    ]  # fmt: skip
    assert reward.levels == {"zeros": -0.1, "ridge": 0.7}
    assert accuracy.levels == {"zeros": 0.03, "ridge": 0.96}
    assert accuracy.share
    test = accuracy.lines[-1]
    assert test.star
    assert test.curve == Curve([4000], [0.9])
    titles = [chart.title for group in drawn.values() for chart in group]
    assert len(titles) == len(set(titles)), "every scalar once"


def test_nothing_is_drawn_of_nothing() -> None:
    assert charts([History()]) == {}
    assert charts([history("r", summary(1, {"x": math.nan}))]) == {}
