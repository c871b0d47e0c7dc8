"""`tau-train export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tau_trainer.cli import main


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
