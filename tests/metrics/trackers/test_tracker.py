"""What all trackers have in common."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer import plugins
from tau_trainer.errors import SettingsError, TauError
from tau_trainer.metrics import Event, RunReport, Summary
from tau_trainer.metrics.summary import summarize
from tau_trainer.metrics.trackers import tracker
from tau_trainer.metrics.trackers.tracker import Tracker
from tau_trainer.settings import RunSettings
from tests.waiting import HANG_S


class Service(Tracker):
    """Notes what it is told; is away while ``away`` is set."""

    name = "service"

    def connect(self) -> None:
        self.told: list[Any] = []
        self.away = threading.Event()
        self.tried = threading.Event()

    def begin(self, known: str | None) -> str:
        self.tried.set()
        if self.away.is_set():
            raise OSError("nobody\nanswers")
        self.told.append(("begin", known))
        return known or "new"

    def write(self, values: Mapping[str, float], behavior: str, step: int, time: float) -> None:
        self.told.append((dict(values), behavior, step, time))

    def end(self, outcome: str, files: list[Path]) -> None:
        self.told.append((outcome, [file.name for file in files]))


def summary(step: int) -> Summary:
    return Summary("B?team=0", step, 1.0, 2.0, {"Losses/Policy Loss": summarize(np.array([0.5]))}, time=9.0)


def report(folder: Path, **files: Path) -> RunReport:
    return RunReport("r", folder, "learn", "completed", 10, 1.0, 10.0, files=files, models=(folder / "B.onnx",))


def test_summaries_and_the_end_arrive_in_order_with_the_files_that_are_there(tmp_path: Path) -> None:
    for name in ("configuration.yaml", "B.onnx", "log.jsonl", "evaluation.json"):
        (tmp_path / name).write_text("x")
    service = Service(RunSettings(), tmp_path)
    service.on_summary(summary(10))
    service.on_result(
        report(tmp_path, policy=tmp_path / "B.onnx", log=tmp_path / "log.jsonl", eval=tmp_path / "evaluation.json")
    )
    service.close()
    assert service.told == [
        ("begin", None),
        ({"B/Losses/Policy Loss": 0.5}, "B", 10, 9.0),
        ("completed", ["configuration.yaml", "B.onnx", "evaluation.json"]),
    ]
    assert service.parameters["env_settings.num_envs"] == 1
    assert service.parameters["checkpoint_settings.run_id"] == "ppo"


def test_a_run_that_goes_on_is_tracked_as_the_same(tmp_path: Path) -> None:
    for wanted in (None, "new"):
        service = Service(RunSettings(), tmp_path)
        service.on_summary(summary(10))
        service.close()
        assert service.told[0] == ("begin", wanted)
        assert service.told[-1] == ("failed", []), "it ended without a report"
    assert json.loads((tmp_path / "service.json").read_text()) == {"run": "new"}
    service = Service(RunSettings(), tmp_path)
    service.on_event(Event("note", 0.0))
    service.close()
    assert service.told == [], "a run without anything to tell is not begun"


def test_a_service_that_does_not_answer_is_told_of_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracker, "_RETRY_S", 0.01)
    service = Service(RunSettings(), tmp_path)
    service.away.set()
    failures: list[str] = []
    service.on_summary(summary(10))
    while not failures:
        try:
            service.on_event(Event("note", 0.0))
        except TauError as error:
            failures.append(str(error))
    service.tried.clear()
    assert service.tried.wait(HANG_S)
    service.on_event(Event("note", 0.0))
    assert failures == ["nobody answers; it is tried again until the run ends"]
    service.away.clear()
    service.on_result(report(tmp_path))
    service.close()
    assert [step for _, _, step, _ in service.told[1:-1]] == [10]
    assert service.told[-1] == ("completed", [])


def test_where_too_many_wait_the_oldest_go_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writing, go_on = threading.Event(), threading.Event()

    class Slow(Service):
        def write(self, values: Mapping[str, float], behavior: str, step: int, time: float) -> None:
            writing.set()
            assert go_on.wait(HANG_S)
            self.told.append(step)

    monkeypatch.setattr(tracker, "_MOST_WAITING", 2)
    service = Slow(RunSettings(), tmp_path)
    service.on_summary(summary(10))
    assert writing.wait(HANG_S)
    for step in (20, 30, 40):
        service.on_summary(summary(step))
    go_on.set()
    service.close()
    assert service.told == [("begin", None), 10, 30, 40, ("failed", [])]


def test_what_was_not_taken_at_the_end_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    service = Service(RunSettings(), tmp_path)
    service.away.set()
    with caplog.at_level(logging.WARNING, "tau_trainer"):
        with contextlib.suppress(TauError):  # it may be told of at once
            service.on_summary(summary(10))
        service.close()
    [said] = caplog.messages
    assert said == f"service has not taken the last 1 records of the run in '{tmp_path}': nobody answers"


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_a_package_that_is_missing_is_a_sentence(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        SettingsError, match=rf"^recorders: {name} is not installed: pip install 'tau-trainer\[{name}\]"
    ):
        plugins.load("recorders", name)(RunSettings(), tmp_path)
