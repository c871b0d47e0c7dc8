"""The course of a run on its page."""

from __future__ import annotations

import re
from pathlib import Path

from tau_trainer.files import atomic_write_json
from tau_trainer.metrics import JsonLines, MetricsHub, Timer
from tests.report.conftest import append, summaries, write_run
from tests.report.pages import page, section


def test_the_time_of_pairs_and_learners_is_split_by_their_timers_and_faults_are_counted(run: Path) -> None:
    warning = {"type": "event", "kind": "warning", "elapsed": 2.0, "fields": {"message": "odd"}}
    append(run, *[warning] * 3)
    timers = Timer()
    for name, decide, wait in (("pair 0", 3.0, 1.0), ("pair 1", 2.0, 2.0)):
        pair = timers.part("pairs", parallel=True).part(name)
        pair.part("decide").total, pair.part("wait for the environment").total = decide, wait
    timers.part("learners", parallel=True).part("TauAgent").part("update").total = 7.0
    (run / "run_logs").mkdir()
    atomic_write_json(run / "run_logs" / "timers.json", timers.tree())
    text = page(run)
    assert section(text, "faults").startswith("Faults 3 warnings. after what message times 2.0 s warning odd 3")
    told = section(text, "time")
    assert "time of the pairs decide wait for the environment first 62.5 % 37.5 %" in told
    assert "time of the learners update first 100.0 %" in told
    (run / "run_logs" / "timers.json").write_text('{"children": {"pairs": {"children": [1]}}}', "utf-8")
    assert "time of the" not in section(page(run), "time")
    (run / "run_logs" / "timers.json").write_text("{", "utf-8")
    assert "timers.json cannot be read" in section(page(run), "faults")


def test_a_run_without_pairs_of_a_task_has_engines(tmp_path: Path) -> None:
    with MetricsHub([JsonLines(tmp_path / "log.jsonl")]) as hub:
        for pair in range(2):
            hub.event("pair", pair=pair, state="Completed")
            hub.episode("Walker", pair, [1.0], [5])
        hub.flush("Walker", 1000)
    assert section(page(tmp_path), "engines").startswith(
        "Engines engine state last reward engine restarts engine 0 Comp"
    )


def test_independent_pairs_are_pairs_of_one_behavior(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", pairs=2)
    (folder / "log.jsonl").unlink()
    with MetricsHub([JsonLines(folder / "log.jsonl")]) as hub:
        for pair in range(2):
            hub.event("pair", pair=pair, state="Completed")
            summaries(hub, f"TauAgent-pair{pair}", pairs=1, seed=pair)
    text = page(folder)
    assert "Band: lowest to highest of 2 pairs." in section(text, "reward")
    assert re.search(r"pair 1 Completed - \+4\.370", section(text, "pairs"))
