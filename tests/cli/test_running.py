"""Finding the run that a command is about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Refused


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
def test_bad_input_is_one_sentence(training: Any, run: Path, words: str, sentence: str, refused: Refused) -> None:
    (run.parent / "bare").mkdir()
    assert refused(words).startswith(f"error: {sentence}")
    assert training.calls == []
