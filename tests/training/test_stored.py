from __future__ import annotations

import json
import shutil
from pathlib import Path

import onnx
import pytest

from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.metrics import RunReport
from tau_trainer.training.stored import evaluate_run, export_run
from tests.training.fakes import Stage, tau_settings, train


@pytest.fixture
def report(stage: Stage, tmp_path: Path) -> RunReport:
    return train(tau_settings(tmp_path))


def test_evaluating_again_gives_the_same(report: RunReport) -> None:
    file = report.folder / "evaluation.json"
    before = json.loads(file.read_text())
    evaluation = evaluate_run(report.folder)
    assert evaluation.accuracy == before["accuracy"]
    assert evaluation.reward == pytest.approx(before["reward"])
    assert json.loads(file.read_text()) == before, "what only the run knew stays"


def test_evaluating_where_there_was_no_evaluation(report: RunReport) -> None:
    (report.folder / "evaluation.json").unlink()
    evaluate_run(report.folder)
    again = json.loads((report.folder / "evaluation.json").read_text())
    assert again["policy"] == "TauAgent"
    assert again["baselines"].keys() == {"zeros", "constant", "majority", "ridge"}


def test_exporting_again_gives_the_same(report: RunReport, tmp_path: Path) -> None:
    before = onnx.load(report.models[0]).SerializeToString()
    report.models[0].unlink()
    assert export_run(report.folder) == [report.folder / "TauAgent.onnx"]
    assert onnx.load(report.folder / "TauAgent.onnx").SerializeToString() == before
    assert export_run(report.folder, tmp_path / "mine.onnx") == [tmp_path / "mine.onnx"]
    assert export_run(report.folder, tmp_path / "models") == [tmp_path / "models" / "TauAgent.onnx"]


def test_a_run_of_independent_policies(stage: Stage, tmp_path: Path) -> None:
    report = train(tau_settings(tmp_path, tau__policy="independent"))
    names = {"TauAgent-pair0.onnx", "TauAgent-pair1.onnx", "TauAgent.onnx"}
    written = {path.name: path for path in export_run(report.folder, tmp_path / "models")}
    assert set(written) == names
    assert report.evaluation is not None
    best = written[f"{report.evaluation['policy']}.onnx"]
    assert written["TauAgent.onnx"].read_bytes() == best.read_bytes(), "the best one has the behavior's own name"
    with pytest.raises(SettingsError, match=r"has 2 policies; give --output a folder"):
        export_run(report.folder, tmp_path / "one.onnx")
    evaluation = evaluate_run(report.folder)
    assert evaluation.accuracy == report.evaluation["accuracy"]


def test_no_run(tmp_path: Path) -> None:
    for work in (evaluate_run, export_run):
        with pytest.raises(SettingsError, match="there is no run in"):
            work(tmp_path)


def test_a_run_without_a_checkpoint(report: RunReport) -> None:
    shutil.rmtree(report.folder / "checkpoints")
    with pytest.raises(CheckpointError, match="holds no whole checkpoint"):
        export_run(report.folder)


def test_settings_that_do_not_fit(report: RunReport) -> None:
    file = report.folder / "configuration.yaml"
    text = file.read_text()
    assert "hidden_units: 16" in text
    file.write_text(text.replace("hidden_units: 16", "hidden_units: 32"))
    with pytest.raises(CheckpointError, match="hidden units"):
        evaluate_run(report.folder)


def test_no_tau_run(stage: Stage, tmp_path: Path) -> None:
    settings = tau_settings(tmp_path, tau=None, env_settings__env_path="headless:basic")
    settings = settings.model_copy(update={"behaviors": {"Basic": settings.behaviors["TauAgent"]}})
    report = train(settings, command="learn")
    with pytest.raises(SettingsError, match="has no task"):
        evaluate_run(report.folder)
