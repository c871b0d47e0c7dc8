from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from tau_trainer.metrics import BaselineScore, JsonLines, MetricsHub, RunReport
from tau_trainer.metrics import keys as names
from tau_trainer.metrics.history import TEST_ACCURACY, TEST_REWARD, Curve, History


def summary(step: int, value: float | None, behavior: str = "A") -> dict[str, Any]:
    return {
        "type": "summary",
        "behavior": behavior,
        "step": step,
        "values": {"x": value},
        "pairs": {"0": {"x": value}, "1": {"x": 1.0}},
    }


def test_curves_by_behavior_and_pair() -> None:
    history = History.from_records([summary(10, 1.0), summary(20, 2.0), summary(20, 5.0, "B")])
    assert history.overall("x") == {"A": Curve([10, 20], [1.0, 2.0]), "B": Curve([20], [5.0])}
    assert set(history.pairs("x")) == {("A", "0"), ("A", "1"), ("B", "0"), ("B", "1")}
    assert history.steps == {"A": 20, "B": 20}
    assert history.overall("y") == {}


def test_the_deviation_behind_each_point() -> None:
    spread = {"statistics": {"x": {"count": 4, "std": 0.5, "min": 0.1, "max": 2.5}, "y": 5}}
    resumed = {"type": "event", "kind": "resumed", "fields": {"behavior": "A", "step": 10}}
    records = [summary(10, 1.0) | spread, summary(20, 2.0) | spread]
    for log, x in ((records, [10, 20]), ([*records, resumed], [10])):
        history = History.from_records(log)
        found = [spread["x"]["A", None] for spread in history.spreads.values()]
        assert found == [Curve([*x], [value] * len(x)) for value in (0.5, 0.1, 2.5)]


def test_damaged_files_cost_what_is_damaged(tmp_path: Path) -> None:
    records = [summary(10, 10**400), summary(20, 3.0) | {"pairs": "?", "statistics": [1]}]
    records += [{"type": "?"}, {}, summary(21, None), summary(22, math.nan)]
    damaged = {"type": "summary", "behavior": "A", "step": 30, "values": "?", "pairs": {"0": "?"}}
    history = History.from_records([*records, damaged, summary(2**60, 1.0)])
    assert history.overall("x") == {"A": Curve([20], [3.0])}
    policies = {"best": {"decisions": "?", "accuracy": 1.0}}
    evaluations: list[Any] = [{"exported": "best", "policies": policies, "baselines": 5}, []]
    for evaluation in evaluations:
        history.add_evaluation(evaluation)
    assert history.baselines == {}
    assert history.overall(TEST_ACCURACY) == {}
    (tmp_path / "evaluation.json").write_text("{", encoding="utf-8")
    assert History.load(tmp_path).baselines == {}


def test_a_resumed_run_forgets_what_it_repeats() -> None:
    resumed = {"type": "event", "kind": "resumed", "fields": {"behavior": "A", "step": 25}}
    records = [summary(10, 1.0), summary(20, 2.0), summary(30, 9.0), summary(40, 9.0)]
    assert History.from_records([*records, resumed, summary(35, 3.0)]).overall("x")["A"].y == [1.0, 2.0, 3.0]
    without_event = History.from_records([*records, summary(30, 3.0)]).overall("x")["A"]
    assert without_event == Curve([10, 20, 30], [1.0, 2.0, 3.0])


def test_a_second_summary_of_a_step_adds_to_it() -> None:
    """A run's last one may be followed by what an evaluation came to."""
    other = {"type": "summary", "behavior": "A", "step": 20, "values": {"Loss": 0.5}, "statistics": {}, "pairs": {}}
    history = History.from_records([summary(10, 1.0), summary(20, 2.0), other, summary(20, 3.0)])
    assert history.overall("x")["A"] == Curve([10, 20], [1.0, 3.0])
    assert history.overall("Loss")["A"] == Curve([20], [0.5])


def test_a_whole_run_comes_back(tmp_path: Path, result: RunReport) -> None:
    with MetricsHub([JsonLines(tmp_path / "log.jsonl")]) as hub:
        hub.baselines({"ridge": BaselineScore(0.5, 0.9)})
        hub.add("A", names.VALIDATION_ACCURACY, 0.4)
        hub.flush("A", 100)
        hub.result(result)
    history = History.load(tmp_path)
    assert history.run_id == "tau-01"
    assert history.baselines == {"ridge": {"reward": 0.5, "accuracy": 0.9}}, "on the rows of the curve"
    assert history.overall(names.VALIDATION_ACCURACY) == {"A": Curve([100], [0.4])}, "no other score among these"


def test_the_evaluation_file_says_what_the_exported_policy_gets(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(json.dumps(summary(30, 1.0)) + "\n", encoding="utf-8")
    policies = {"best": {"decisions": 20, "accuracy": 0.5, "reward": 0.1}, "last": {"decisions": 30, "accuracy": 0.4}}
    evaluation = {"exported": "best", "policies": policies, "baselines": {"zeros": {"reward": 0.9, "accuracy": 0.03}}}
    (tmp_path / "evaluation.json").write_text(json.dumps(evaluation), encoding="utf-8")
    history = History.load(tmp_path)
    assert history.baselines == {"zeros": {"reward": 0.9, "accuracy": 0.03}}, "where the log has none"
    assert history.overall(TEST_ACCURACY) == {"A": Curve([20], [0.5])}
    assert history.overall(TEST_REWARD) == {"A": Curve([20], [0.1])}
    assert history.run_id == tmp_path.name
