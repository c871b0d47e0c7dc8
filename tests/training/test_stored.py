from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.metrics import RunReport, keys
from tau_trainer.models import Policy
from tau_trainer.tau.task import TauTask
from tau_trainer.training.stored import evaluate_run, export_run
from tests.training.fakes import Stage, tau_settings, train


def written(files: list[tuple[Path, str]]) -> list[Path]:
    return [path for path, _ in files]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> RunReport:
    with pytest.MonkeyPatch.context() as patch:
        Stage.opened(patch)
        return train(tau_settings(tmp_path_factory.mktemp("original")))


@pytest.fixture
def report(original: RunReport, tmp_path: Path) -> RunReport:
    """A run to do with as one likes."""
    folder = Path(shutil.copytree(original.folder, tmp_path / "run"))
    return replace(original, folder=folder, models=tuple(folder / path.name for path in original.models))


def test_evaluating_again_gives_the_same(report: RunReport) -> None:
    file = report.folder / "evaluation.json"
    before = json.loads(file.read_text())
    evaluation = evaluate_run(report.folder).evaluation
    assert evaluation is not None
    assert evaluation.accuracy == before["accuracy"]
    assert evaluation.reward == pytest.approx(before["reward"])
    assert json.loads(file.read_text()) == before, "what only the run knew stays"
    file.unlink()
    evaluate_run(report.folder)
    again = json.loads(file.read_text())
    assert again["policy"] == "TauAgent"
    assert {"zeros", "ridge", "nearest", "logistic"} <= again["baselines"].keys()


def test_exporting_again_gives_the_same(report: RunReport, tmp_path: Path) -> None:
    before = onnx.load(report.models[0]).SerializeToString()
    report.models[0].unlink()
    assert written(export_run(report.folder)) == [report.folder / "TauAgent.onnx"]
    assert onnx.load(report.folder / "TauAgent.onnx").SerializeToString() == before
    assert written(export_run(report.folder, tmp_path / "mine.onnx")) == [tmp_path / "mine.onnx"]
    assert written(export_run(report.folder, tmp_path / "models")) == [tmp_path / "models" / "TauAgent.onnx"]


def test_a_run_of_independent_policies(stage: Stage, tmp_path: Path) -> None:
    report = train(tau_settings(tmp_path, tau__policy="independent"))
    names = {"TauAgent-pair0.onnx", "TauAgent-pair1.onnx", "TauAgent.onnx"}
    files = {path.name: path for path in written(export_run(report.folder, tmp_path / "models"))}
    assert set(files) == names
    assert report.evaluation is not None
    best = files[f"{report.evaluation['policy']}.onnx"]
    assert files["TauAgent.onnx"].read_bytes() == best.read_bytes(), "the best one has the behavior's own name"
    with pytest.raises(SettingsError, match=r"has 2 policies; give --output a folder"):
        export_run(report.folder, tmp_path / "one.onnx")
    assert evaluate_run(report.folder).to_dict()["accuracy"] == report.evaluation["accuracy"]


@pytest.fixture
def declining(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunReport:
    """A run whose second policy that was looked at was its best by validation; it looks at few in a hurry."""
    looked: list[int] = []

    def scores(task: TauTask, policy: Policy) -> dict[str, float]:
        if policy.version not in looked:
            looked.append(policy.version)
        accuracy = {0: 0.2, 1: 0.9}.get(looked.index(policy.version), 0.1)
        return {keys.VALIDATION_ACCURACY: accuracy, keys.VALIDATION_REWARD: 0.0}

    monkeypatch.setattr(TauTask, "quick_scores", scores)
    return train(tau_settings(tmp_path, tau__pairs=1))


def test_the_best_or_the_last_policy_is_exported_and_evaluated(declining: RunReport, tmp_path: Path) -> None:
    file = declining.folder / "evaluation.json"
    before, model = json.loads(file.read_text()), declining.models[0].read_bytes()
    policies = before["policies"]
    assert before["exported"] == "best"
    assert policies["best"]["decisions"] < policies["last"]["decisions"] == 400
    assert (policies["best"]["validation_accuracy"], policies["last"]["validation_accuracy"]) == (0.9, 0.1)
    assert before["reward"] == policies["best"]["reward"] != policies["last"]["reward"]
    assert declining.verdict is not None
    assert f"Exported: the best by validation, after {policies['best']['decisions']} decisions" in declining.verdict
    assert f"the last policy, after 400 decisions, gets {100 * policies['last']['accuracy']:.1f} %" in declining.verdict

    [(best, which)] = export_run(declining.folder, tmp_path / "best.onnx")
    assert which.startswith("the best by validation")
    assert best.read_bytes() == model
    [(last, which)] = export_run(declining.folder, tmp_path / "last.onnx", "last")
    assert which == "the last policy, after 400 decisions"
    assert last.read_bytes() != model
    assert evaluate_run(declining.folder, "last").to_dict()["reward"] == policies["last"]["reward"]
    now = json.loads(file.read_text())
    assert (now["exported"], now["reward"], now["policies"]) == ("last", policies["last"]["reward"], policies)
    assert evaluate_run(declining.folder).to_dict()["reward"] == before["reward"]


def test_a_run_that_shall_export_its_last_policy(stage: Stage, declining: RunReport, tmp_path: Path) -> None:
    report = train(tau_settings(tmp_path, "other", tau__pairs=1, checkpoint_settings__export="last"))
    assert report.evaluation is not None
    assert report.evaluation["exported"] == "last"
    assert report.models[0].read_bytes() != declining.models[0].read_bytes()
    assert report.verdict is not None
    assert "Exported: the last policy, after 400 decisions; the best by validation, after" in report.verdict
    [(_, which)] = export_run(report.folder)
    assert which == "the last policy, after 400 decisions", "as the run's settings say"


def test_a_resumed_run_knows_its_best_policy(stage: Stage, declining: RunReport) -> None:
    assert declining.evaluation is not None
    more: dict[str, Any] = {"behaviors__TauAgent__max_steps": 800, "checkpoint_settings__resume": True}
    report = train(tau_settings(declining.folder.parent, tau__pairs=1, **more))
    assert report.decisions == 800
    assert report.evaluation is not None
    assert report.evaluation["policies"]["best"] == declining.evaluation["policies"]["best"]
    assert report.evaluation["policies"]["last"]["decisions"] == 800


def test_without_validation_rows_the_last_policy_is_taken(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TauTask, "quick_scores", lambda *_: {})
    report = train(tau_settings(tmp_path))
    assert report.evaluation is not None
    assert list(report.evaluation["policies"]) == ["last"]
    assert report.verdict is not None
    assert report.verdict.endswith("Exported: the last policy, after 400 decisions.")
    assert export_run(report.folder, tmp_path / "x.onnx")[0][1] == "the last policy, after 400 decisions"


def test_no_run(tmp_path: Path) -> None:
    for work in (evaluate_run, export_run):
        with pytest.raises(SettingsError, match="there is no run in"):
            work(tmp_path)


def test_a_run_without_a_checkpoint(report: RunReport) -> None:
    shutil.rmtree(report.folder / "checkpoints")
    with pytest.raises(CheckpointError, match="has no complete checkpoint"):
        export_run(report.folder)


def test_settings_that_do_not_fit(report: RunReport) -> None:
    file = report.folder / "configuration.yaml"
    text = file.read_text()
    assert "hidden_units: 16" in text
    file.write_text(text.replace("hidden_units: 16", "hidden_units: 32"))
    with pytest.raises(CheckpointError, match="hidden units"):
        evaluate_run(report.folder)
