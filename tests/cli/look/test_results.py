"""`tau-train evaluate` and `tau-train export`: finding the run, showing the result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.cli import main


@pytest.fixture
def run() -> Path:
    folder = Path("results", "tau3")
    folder.mkdir(parents=True)
    (folder / "configuration.yaml").write_text("behaviors: {}")
    return folder


@pytest.mark.parametrize("name", ["tau3", "results/tau3"])
def test_evaluate_shows_the_policy_between_its_baselines(
    training: Any, run: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", name]) == 0
    assert training.calls == [("evaluate", run, {"export": None})]
    assert capsys.readouterr().out.splitlines() == [
        "test rows      reward  accuracy",
        "zeros          +0.100     20.0%",
        "the policy     +0.500     90.0%",
        "",
        "The policy beats the baselines.",
        "Exported: the last policy.",
    ]


def test_evaluate_for_machines(training: Any, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "tau3", "--json", "--export", "last"]) == 0
    assert json.loads(capsys.readouterr().out) == {"reward": 0.5, "accuracy": 0.9}
    assert training.calls == [("evaluate", run, {"export": "last"})]


def test_export_names_the_file(training: Any, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "tau3"]) == 0
    assert main(["export", "tau3", "--output", "policy.onnx", "--export", "last", "--format", "godot"]) == 0
    assert [call[1:] for call in training.calls] == [
        (run, {"output": None, "export": None, "form": None}),
        (run, {"output": Path("policy.onnx"), "export": "last", "form": "godot"}),
    ]
    assert capsys.readouterr().out.splitlines() == [
        f"written and checked: {run / 'TauAgent.onnx'} (the best policy)",
        "written and checked: policy.onnx (the last policy)",
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("evaluate tau4", "tau4: no run of this name in results; did you mean tau3?"),
        ("export tau4", "tau4: no run of this name in results; did you mean tau3?"),
        ("export tau3 --output no/such/p.onnx", "--output no/such/p.onnx: the folder no/such does not exist"),
        ("evaluate results", "results: this folder holds no run (it has no configuration.yaml); known here: tau3"),
        ("export results/bare", "results/bare: this folder holds no run (it has no configuration.yaml); "),
        ("evaluate bare", "results/bare: this folder holds no run (it has no configuration.yaml); "),
        ("report bare", "results/bare: this folder holds no run (it has no configuration.yaml or log.jsonl); "),
        ("evaluate x --results-dir empty", "x: no run of this name in empty; train one with `tau-train parallel`"),
    ],
)
def test_bad_input_is_one_sentence(
    training: Any, run: Path, words: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (run.parent / "bare").mkdir()
    assert main(words.split()) == 2
    assert capsys.readouterr().err.replace("\\", "/").startswith(f"error: {sentence}")
    assert training.calls == []
