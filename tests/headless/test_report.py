from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.report import Report
from tau_trainer.headless.scenes.basic import BasicScene
from tau_trainer.headless.scenes.walljump import WallJumpScene
from tau_trainer.specs import Actions
from tests.headless.scenes.playing import begin, step


def test_counts_and_returns_are_those_of_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    scene = BasicScene(agents=2)
    batch = begin(scene)
    path = tmp_path / "counts.jsonl"
    with closing(Report(path, 2)) as report:
        for _ in range(10):
            now += 0.3
            actions = Actions(np.zeros((2, 0), np.float32), np.array([[2], [1]], np.int32))  # 7 steps; 3 steps
            batch = step(scene, actions)
            report.add([2], [batch])
        report.reset()
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [line["exchanges"] for line in lines] == [4, 8, 11]
    assert [line["decisions"] for line in lines] == [8, 16, 20]
    assert [line["episodes"] for line in lines] == [1, 3, 4]
    assert lines[0]["mean_return"] == pytest.approx(0.07)
    assert lines[1]["mean_return"] == pytest.approx((0.07 + 0.93) / 2)
    assert lines[2]["mean_return"] == pytest.approx(0.07)
    assert all(abs(line["time"] - time.time()) < 60.0 for line in lines)


def test_a_reset_drops_running_episodes_and_files_are_continued(tmp_path: Path) -> None:
    path = tmp_path / "counts.jsonl"
    right = Actions(np.zeros((1, 0), np.float32), np.array([[2]], np.int32))
    for _ in range(2):
        scene = BasicScene()
        begin(scene)
        with closing(Report(path, 1)) as report:
            for _ in range(3):
                report.add([1], [step(scene, right)])
            report.reset()
            begin(scene)
            for _ in range(7):
                report.add([1], [step(scene, right)])
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert len(lines) == 2
    assert [line["mean_return"] for line in lines] == [pytest.approx(0.93)] * 2


def test_lines_come_as_often_as_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    scene = BasicScene()
    batch = begin(scene)
    with closing(Report(tmp_path / "counts.jsonl", 1, interval=0.25)) as report:
        for _ in range(8):
            now += 0.125
            report.add([1], [batch])
    lines = [json.loads(line) for line in (tmp_path / "counts.jsonl").read_text("utf-8").splitlines()]
    assert [line["decisions"] for line in lines] == [2, 4, 6, 8, 8]


def test_no_episode_no_mean(tmp_path: Path) -> None:
    path = tmp_path / "counts.jsonl"
    Report(path, 1).close()
    assert json.loads(path.read_text("utf-8"))["mean_return"] is None


def test_every_episode_is_told_with_the_decisions_at_its_begin_and_end(tmp_path: Path) -> None:
    scene = BasicScene(agents=2)
    begin(scene)
    path = tmp_path / "counts.jsonl"
    with closing(Report(path, 2, episodes=True)) as report:
        for number in range(10):
            if number == 2:
                report.reset()
                begin(scene)
            actions = Actions(np.zeros((2, 0), np.float32), np.array([[2], [1]], np.int32))  # 7 steps; 3 steps
            report.add([2], [step(scene, actions)])
    lines = [json.loads(line) for line in Path(f"{path}.episodes").read_text("utf-8").splitlines()]
    assert [(line["begun"], line["ended"], round(line["return"], 3)) for line in lines] == [
        (4, 10, 0.07),
        (10, 16, 0.07),
        (4, 18, 0.93),
    ]
    assert {line["behavior"] for line in lines} == {"Basic?team=0"}
    assert all(abs(line["time"] - time.time()) < 60.0 for line in lines)


def test_decisions_are_those_of_the_episodes_behavior(tmp_path: Path) -> None:
    scene = WallJumpScene(agents=3, seed=1, max_decisions=2)
    batches = scene.reset(EnvironmentParameters())
    path = tmp_path / "counts.jsonl"
    with closing(Report(path, 3, behaviors=2, episodes=True)) as report:
        for _ in range(40):
            asked = [len(batch) for batch in batches]
            actions = {batch.behavior: Actions.zeros(scene.specs[0].actions, len(batch)) for batch in batches}
            batches = scene.step(actions)
            report.add(asked, batches)
    lines = [json.loads(line) for line in Path(f"{path}.episodes").read_text("utf-8").splitlines()]
    assert len(lines) == 60
    for spec in scene.specs:
        found = [line for line in lines if line["behavior"] == spec.name]
        together = {line["begun"]: line["ended"] for line in found}
        assert list(together) == [0, *list(together.values())[:-1]], "all end together, and begin where others ended"
        assert together.popitem()[1] == 2 * len(found)
