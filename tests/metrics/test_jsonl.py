from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.metrics import JsonLines, JsonStream, MetricsHub, RunReport, RunSnapshot, read_log
from tau_trainer.metrics.jsonl import to_line
from tau_trainer.specs import Aggregation


def test_a_run_is_written_line_by_line(tmp_path: Path, result: RunReport) -> None:
    path = tmp_path / "deep" / "log.jsonl"
    with MetricsHub([JsonLines(path)]) as hub:
        hub.begin("A?team=0", max_steps=100, hyperparameters={"path": Path("a") / "b", "sizes": np.arange(2)})
        hub.add("A?team=0", "x", [1.0, 2.0], Aggregation.HISTOGRAM, pair=7)
        hub.add("A?team=0", "bad", math.nan)
        hub.flush("A?team=0", 50)
        hub.result(result)
    settings, summary, last = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert settings["fields"]["values"] == {"path": "a/b", "sizes": [0, 1]}
    assert (summary["type"], summary["behavior"], summary["step"]) == ("summary", "A?team=0", 50)
    assert summary["values"]["x"] == 1.5
    assert summary["values"]["bad"] is None
    assert summary["statistics"]["bad"]["non_finite"] == 1
    assert summary["statistics"]["x"]["count"] == 2
    assert sum(summary["statistics"]["x"]["histogram"]["counts"]) == 2
    assert summary["pairs"] == {"7": {"x": 1.5}}
    assert last["type"] == "result"
    assert last["baselines"]["ridge"] == {"reward": 0.72, "accuracy": 0.96}
    assert last["files"] == {"policy": "results/tau-01/TauAgent.onnx"}


def test_a_second_run_appends_after_a_torn_line_and_every_line_is_whole_at_once(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert list(read_log(path)) == []
    path.write_text('{"type":"event","kind":"first"}\n{"type":"summ', encoding="utf-8")
    with MetricsHub([JsonLines(path)]) as hub:
        hub.event("second", text="ünï")
        hub.drain()
        assert path.read_bytes().endswith('"text":"ünï"}}\n'.encode()), "a kill would leave it"
    assert [record["kind"] for record in read_log(path)] == ["first", "second"]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), values, max_size=4))
def test_a_line_is_strict_json_of_one_line(record: dict[str, object]) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    line = to_line(record)
    assert line.endswith("\n")
    assert "\n" not in line[:-1]
    assert json.loads(line, parse_constant=refuse).keys() == record.keys()


def test_the_stream_thins_snapshots_only(snapshot: Callable[..., RunSnapshot], result: RunReport) -> None:
    stream = io.StringIO()
    recorder = JsonStream(stream)
    for elapsed in (0.0, 0.4, 0.9, 1.1, 1.9, 2.2):
        recorder.on_snapshot(RunSnapshot("r", "learn", elapsed_s=elapsed))
    recorder.on_snapshot(snapshot(2))
    recorder.on_result(result)
    records = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [record.get("elapsed_s") for record in records[:-1]] == [0.0, 1.1, 2.2, 12.3]
    assert records[-2]["pairs"][1]["state"] == "Training"
    assert records[-1]["type"] == "result"
