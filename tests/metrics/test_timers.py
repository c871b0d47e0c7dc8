from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.metrics import Event, MetricsHub, PhaseTimer, Recorder, RunReport, Timer, TimersFile
from tau_trainer.metrics.timers import RateMeter, eta_seconds, time_shares
from tests.waiting import Clock


def written(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "run_logs" / "timers.json").read_text("utf-8"))
    return content


def test_laps_follow_one_another_and_sum_up() -> None:
    clock, timer = Clock(), Timer()
    phases = PhaseTimer(timer, clock)
    for seconds in (1.0, 2.0):
        clock.now += 50.0  # nobody's
        phases.begin()
        clock.now += seconds
        phases.end("act")
        clock.now += 0.25
        phases.end("learn")
    assert timer.tree() == {
        "total": 3.5,
        "count": 2,
        "self": 0.0,
        "children": {
            "act": {"total": 3.0, "count": 2, "self": 3.0},
            "learn": {"total": 0.5, "count": 2, "self": 0.5},
        },
    }


def test_a_part_that_several_do_at_once_is_marked_and_sums_up_theirs() -> None:
    root = Timer()
    for name, seconds in (("one", 4.0), ("two", 5.0)):
        root.part("pairs", parallel=True).part(name).total = seconds
    tree = root.tree()["children"]["pairs"]
    assert (tree["is_parallel"], tree["total"], tree["count"], tree["self"]) == (True, 9.0, 2, 0.0)
    assert "is_parallel" not in tree["children"]["one"]


def test_the_file_has_mlagents_form(tmp_path: Path) -> None:
    """Keys and nesting of ``mlagents_envs.timers.TimerStack.get_timing_tree``, gauges of ``GaugeWriter``."""
    clock, timers = Clock(), Timer()
    file = TimersFile(tmp_path / "run_logs" / "timers.json", timers, {"numpy_version": "2"}, clock)
    PhaseTimer(timers.part("pairs"), clock).begin()
    with MetricsHub([file], timers=timers) as hub:
        assert hub.timers is timers
        for reward in (3.0, 1.0, 2.0):
            hub.add("Ball", "Environment/Cumulative Reward", [reward, reward])
            hub.add("Ball", "Losses/Policy Loss", math.nan)
            hub.flush("Ball", 10)
        clock.now += 30.0
        timers.part("pairs").total = 20.0
        hub.drain(10.0)
        assert not (tmp_path / "run_logs").exists(), "it is written with checkpoints"
        hub.event("checkpoint", behavior="Ball", step=10, path="x")
        hub.drain(10.0)
    content = written(tmp_path)
    assert content["gauges"]["Ball.Environment.CumulativeReward.mean"] == {"value": 2, "min": 1, "max": 3, "count": 3}
    assert content["gauges"]["Ball.Environment.CumulativeReward.sum"] == {"value": 4, "min": 2, "max": 6, "count": 3}
    assert "Ball.Losses.PolicyLoss.mean" not in content["gauges"], "what is no number has no gauge there either"
    assert content["metadata"] == {
        "timer_format_version": "0.1.0",
        "start_time_seconds": "100",
        "end_time_seconds": "130",
        "numpy_version": "2",
    }
    assert {key: content[key] for key in ("name", "total", "count", "self")} == {
        "name": "root",
        "total": 30.0,
        "count": 1,
        "self": 10.0,
    }
    assert content["children"]["pairs"] == {"total": 20.0, "count": 1, "self": 20.0}


def test_only_checkpoints_and_the_end_write_it(tmp_path: Path) -> None:
    clock = Clock()
    file = TimersFile(tmp_path / "run_logs" / "timers.json", Timer(), clock=clock)
    file.on_event(Event("pair", 0.0))
    assert not (tmp_path / "run_logs").exists()
    file.on_event(Event("checkpoint", 0.0))
    clock.now += 7.0
    file.on_event(Event("warning", 0.0, {"message": "no reason to write"}))
    assert written(tmp_path)["total"] == 0.0
    file.on_result(RunReport("run", tmp_path, "learn", "completed", 0, 0.0, 0.0))
    assert written(tmp_path)["total"] == 7.0


def test_where_it_cannot_be_written_the_run_has_lost_something(tmp_path: Path) -> None:
    (tmp_path / "run_logs").write_text("a file in its place")
    recorders: list[Recorder] = [TimersFile(tmp_path / "run_logs" / "timers.json", Timer())]
    with MetricsHub(recorders) as hub:
        hub.event("checkpoint", behavior="Ball", step=1, path="x")
        hub.drain(10.0)
        (loss,) = hub.losses
    assert loss.startswith("TimersFile could not write everything")


@given(st.floats(1.0, 1e5), st.floats(0.5, 20.0), st.integers(20, 400))
def test_a_steady_rate_is_found_from_the_start(rate: float, half_life: float, ticks: int) -> None:
    clock = Clock()
    meter = RateMeter(half_life, clock)
    for _ in range(ticks):
        clock.now += half_life / 50
        meter.add(max(round(rate * half_life / 50), 1))
    expected = max(round(rate * half_life / 50), 1) / (half_life / 50)
    assert meter.rate() == pytest.approx(expected, rel=0.02)


def test_a_stopped_rate_halves_with_the_half_life() -> None:
    clock = Clock()
    meter = RateMeter(2.0, clock)
    for _ in range(2):
        assert meter.rate() == 0.0, "of nothing"
        clock.now += 1
    for _ in range(10_000):
        clock.now += 0.01
        meter.add(10)
    before = meter.rate()
    clock.now += 2.0
    assert meter.rate() == pytest.approx(before / 2, rel=1e-3)
    assert meter.total == 100_000


@pytest.mark.parametrize(
    ("done", "total", "rate", "expected"),
    [(50, 150, 10.0, 10.0), (150, 100, 10.0, 0.0), (50, 0, 10.0, None), (50, 100, 0.0, None)],
)
def test_eta(done: float, total: float, rate: float, expected: float | None) -> None:
    assert eta_seconds(done, total, rate) == expected


def test_shares_of_time_are_of_play_and_of_learners() -> None:
    timers = Timer()
    assert time_shares(timers, 10.0) == {}
    phases = {"wait for the learner": 1.0, "decide": 2.0, "answer and record": 1.0, "wait for the environment": 4.0}
    for number in range(2):
        pair = timers.part("pairs", parallel=True).part(f"pair {number}")
        pair.part("start the environment").total = 100.0
        for name, seconds in phases.items():
            pair.part(name).total = seconds * (number + 1)
    shares = time_shares(timers, 0.0)
    assert list(shares.items()) == [("game", 0.5), ("acting", 0.375), ("waiting", 0.125)]
    timers.part("learners", parallel=True).part("A").total = 6.0
    timers.part("learners").part("B").total = 2.0
    assert time_shares(timers, 10.0) == {**shares, "learning": 0.4}
    assert time_shares(timers, 2.0)["learning"] == 1.0
    population = Timer()
    phases = {"act and step": 5.0, "count": 1.0, "learn": 3.0, "policies and validation": 1.0}
    for name, seconds in phases.items():
        population.part("population").part(name).total = seconds
    assert time_shares(population, 10.0) == {"game and acting": 0.6, "learning": 0.3, "validation": 0.1}
