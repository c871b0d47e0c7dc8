"""`tau-train evaluate` shows the result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.cli import main


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
