"""The benchmark of accelerators: whatever happens in a section stands in its rows, and its time is kept."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.waiting import HANG_S, until_gone
from tools.bench import accelerator, batched, learner
from tools.bench import accelerator_sections as sections
from tools.bench.accelerator import Plan, Row
from tools.bench.accelerator_sections import Task

CPU = Plan("cpu", 0.01)
CHILD = """
import json, subprocess, sys, time
print("a library says something")
print(json.dumps({"what": "first", "values": [2.5], "units": ["MB"], "note": ""}), flush=True)
if sys.argv[1] == "hang":
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    print(json.dumps({"what": str(process.pid), "values": [], "units": [], "note": ""}), flush=True)
    time.sleep(1000)
print("oh no", file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""


def child(how: str) -> list[str]:
    return [sys.executable, "-c", CHILD, how]


def test_a_section_that_ends_badly_keeps_the_rows_that_it_has_told() -> None:
    assert list(accelerator.section("tag", child("0"), HANG_S)) == [Row("tag", "first", (2.5,), ("MB",))]
    first, failed = accelerator.section("tag", child("3"), HANG_S)
    assert first.what == "first"
    assert failed == Row("tag", "both games of tag", note="failed: exit code 3: oh no")


@pytest.mark.skipif(os.name == "nt", reason="groups of processes are POSIX's")
def test_a_section_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is over once it hangs."""
    timers: list[tuple[float, Any]] = []
    timer = SimpleNamespace(start=lambda: None, cancel=lambda: None)

    def timed(*how: Any) -> SimpleNamespace:
        timers.append(how)
        return timer

    monkeypatch.setattr("threading.Timer", timed)
    rows = list[Row]()
    for row in accelerator.section("tag", child("hang"), 10.0):
        rows.append(row)
        if row.what.isdigit():
            [(seconds, end)] = timers
            end()
    assert seconds == 10.0
    assert rows[-1].note == "failed: not done after 10 s, and ended"
    until_gone(int(rows[-2].what))


def test_every_section_has_its_share_of_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    def section(name: str, words: list[str], limit_s: float) -> Iterator[Row]:
        given.append(limit_s)
        told = json.loads(words[-1])
        assert told["limit_s"] < limit_s, "it ends by itself before it is ended"
        assert (told["device"], words[-2]) == ("cpu", name)
        yield Row(name, "done")

    monkeypatch.setattr(accelerator, "section", section)
    found = list(accelerator.measured(["tag", "profile", "memory"], Plan("cpu", 1.0, 600.0)))
    assert [row.section for row in found] == ["tag", "profile", "memory"]
    assert given == pytest.approx([300.0, 300.0, 600.0], abs=5.0), "who is early leaves time to the others"
    (late,) = accelerator.measured(["tag"], Plan("cpu", 1.0, 0.0))
    assert late.note == "left out: the time was over"


def test_a_figure_that_fails_is_told_and_the_others_go_on() -> None:
    def fails() -> tuple[float, ...]:
        raise ValueError("no such thing\nand more\nand why\n")

    tasks: list[Task | Row] = [
        Task("a", ("MB",), fails),
        Row("tag", "b", note="left out"),
        Task("c", ("MB",), lambda: (1.0,), "why"),
    ]
    failed, left, done = sections.rows("tag", tasks, CPU)
    assert failed.note == "failed: ValueError: no such thing ... and why"
    assert left.note == "left out"
    assert done == Row("tag", "c", (1.0,), ("MB",), "why")
    over = Plan("cpu", 0.01, limit_s=-1.0)
    assert [row.note for row in sections.rows("tag", tasks[2:], over)] == ["left out: the time was over"]


def test_tables_and_json_have_all_rows_and_a_failure_is_an_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [Row("tag", "a", (1234.0, 0.5), ("steps/s", "MB"), "why"), Row("memory", "b", note="failed: ValueError: c")]
    monkeypatch.setattr(accelerator, "measured", lambda names, plan: found)
    monkeypatch.setattr(sys, "argv", ["accelerator", "--device", "cpu", "--output", str(tmp_path)])
    assert accelerator.main() == 1
    shown = capsys.readouterr().out
    assert "| a | 1,234 steps/s, 0.50 MB | why |" in shown
    assert "| b | - | failed: ValueError: c |" in shown
    assert "no figures of a GPU, and small sizes" in shown
    written = json.loads((tmp_path / "accelerator.json").read_text())
    assert [row["what"] for row in written["rows"]] == ["a", "b"]
    del found[1]
    assert accelerator.main() == 0


def test_every_section_is_there_and_tells_what_a_cpu_leaves_out() -> None:
    assert list(sections.SECTIONS) == list(accelerator.SECTIONS)
    left = {
        name: [task.note for task in make(CPU) if isinstance(task, Row)] for name, make in sections.SECTIONS.items()
    }
    assert left["algorithms"].count("left out: CUDA graphs need a GPU") == 3
    assert left["devices"] == ["left out: needs two GPUs, and there is no GPU"] or torch.cuda.is_available()
    assert left["tag"]
    assert left["learner"]


def test_algorithms_learn_from_the_same_rollouts() -> None:
    cell = batched.Cell("cartpole", 4)
    for kind in ("ppo", "a2c", "dqn"):
        settings = sections.settings_of(kind, cell)
        play = batched.Play(lambda cell, settings=settings: settings)  # type: ignore[misc]
        assert settings.trainer_type == kind
        assert settings.network_settings.hidden_units == 64
        assert batched.measured(cell, "learning", 0.01, "cpu", play=play) > 0.0


@pytest.mark.parametrize("measure", [sections.populations, sections.images])
def test_a_figure_of_every_kind_is_finite(measure: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner, "MINIBATCHES", 1)
    assert callable(measure)
    task = next(iter(measure(CPU)))
    values = task.measure()
    assert len(values) == len(task.units)
    assert all(math.isfinite(value) and value > 0.0 for value in values)


def test_a_log_tells_decisions_a_second_between_its_summaries() -> None:
    lines = [{"type": "event"}] + [{"type": "summary", "step": 100 * n, "elapsed": 10.0 + n} for n in range(4)]
    assert sections.summaries_rate("\n".join(map(json.dumps, lines))) == 100.0
    with pytest.raises(RuntimeError, match="before its second summary"):
        sections.summaries_rate(json.dumps(lines[1]))


def test_what_waits_is_found_in_a_rollout() -> None:
    """On a CPU copies that end are looked for, which another device would have to be waited for."""
    found = sections.waits(batched.Cell("cartpole", 2), "cpu", 3)
    assert found == {"aten::nonzero": 3}


@pytest.mark.gpu
@pytest.mark.parametrize(
    "cell",
    [batched.Cell("cartpole", 8), batched.Cell("tag_gridworld", 8, 4, 1), batched.Cell("tag_continuous", 8, 2, 8)],
)
def test_nothing_waits_for_a_gpu_within_a_rollout(cell: batched.Cell) -> None:
    assert sum(sections.waits(cell, "cuda").values()) == 0


@pytest.mark.gpu
def test_a_cuda_graph_does_what_its_function_does() -> None:
    def step(state: dict[str, torch.Tensor], by: torch.Tensor | None) -> tuple[dict[str, torch.Tensor], None]:
        return {"x": state["x"] * 2.0 + (0.0 if by is None else by)}, None

    graph = sections.Graphed(step)
    first, _ = graph({"x": torch.tensor([1.0], device="cuda")}, torch.tensor([3.0], device="cuda"))
    second, nothing = graph(first, torch.tensor([4.0], device="cuda"))
    assert nothing is None
    assert [first["x"].item(), second["x"].item()] == [5.0, 14.0], "what came out before stays"
    played = batched.Play(change=sections.graphed)
    assert batched.measured(batched.Cell("cartpole", 8), "learning", 0.1, "cuda", play=played) > 0.0
