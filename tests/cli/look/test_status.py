"""`tau-train status`: a run as its own terminal shows it, from its folder alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tau_trainer.cli import main
from tau_trainer.metrics.snapshot import RunReport
from tau_trainer.metrics.status import StatusFile
from tests.cli.conftest import Refused
from tests.metrics.test_status import SNAPSHOT


@pytest.fixture
def run(elsewhere: Path) -> StatusFile:
    folder = elsewhere / "results" / "first"
    folder.mkdir(parents=True)
    (folder / "configuration.yaml").touch()
    file = StatusFile(folder / "status.json", clock=lambda: 0.0)
    file.on_snapshot(SNAPSHOT)
    return file


def test_the_newest_run_is_shown(run: StatusFile, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 0
    shown = capsys.readouterr().out
    assert "first" in shown
    assert "Training" in shown
    assert "nothing heard for" in shown
    assert main(["status", "first", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["run"]["run_id"], found["outcome"], found["run"]["pairs"][0]["decisions"]) == ("first", None, 7)


def test_watching_ends_with_the_run(
    run: StatusFile, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        run._newest = replace(SNAPSHOT, decisions=len(looks))
        run.on_result(RunReport("first", Path(), "learn", "completed", 9, 1.0, 9.0)) if len(looks) == 3 else None

    monkeypatch.setattr("time.sleep", sleep)
    assert main(["status", "first", "--watch"]) == 0
    assert looks == [1.0] * 3
    assert "completed, " in capsys.readouterr().out


def test_ctrl_c_ends_looking(run: StatusFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupted)
    assert main(["status", "first", "--watch"]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["second"], "second: no run of this name in results"),
        (["silent"], "silent: this run has no status yet"),
        (["--results-dir", "empty"], "no run in empty has a status"),
    ],
)
@pytest.mark.usefixtures("run")
def test_bad_input_is_one_sentence(words: list[str], said: str, refused: Refused) -> None:
    silent = Path("results/silent")
    silent.mkdir()
    (silent / "configuration.yaml").touch()
    assert said in refused(["status", *words])
