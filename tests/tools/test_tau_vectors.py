"""The tool that writes the cases that Python and C# share."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from tools import tau_vectors


def test_the_file_in_the_repository_is_what_the_tool_writes(capsys: pytest.CaptureFixture[str]) -> None:
    assert tau_vectors.main(["--check"]) == 0
    assert "up to date" in capsys.readouterr().out
    assert len(tau_vectors.VECTORS.read_bytes()) < 60_000


def test_writing_and_checking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "vectors.json"
    assert tau_vectors.main(["--check"], path) == 2
    assert "run `python -m tools.tau_vectors`" in capsys.readouterr().err
    assert tau_vectors.main([], path) == 0
    assert tau_vectors.main(["--check"], path) == 0
    path.write_text(path.read_text(encoding="ascii").replace('"index":0', '"index":1', 1), encoding="ascii")
    assert tau_vectors.main(["--check"], path) == 2
    assert all(json.loads(path.read_text(encoding="ascii")).values())


def test_shares_no_code_with_what_it_tests() -> None:
    imported: set[str] = set()
    tree = ast.parse(Path(tau_vectors.__file__).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])
    assert not imported & {"tau_trainer", "numpy", "torch", "tools"}
    assert [case["rewards"]["incremental"] for case in tau_vectors.HAND_MADE] == [1.0, 0.9, -3.0, 0.6]


def test_splitmix_gives_the_published_numbers() -> None:
    """First outputs for the state 1234567, as listed with the generator's reference code."""
    state, outputs = 1234567, []
    for _ in range(3):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        outputs.append(tau_vectors.mix(state))
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]
