"""The Python API as the README shows it: the example is run as it stands, and everything public can be reached."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tau_trainer

ROOT = Path(__file__).parents[1]


def readme_example() -> str:
    """The README's first Python block that starts a run."""
    text = (ROOT / "README.md").read_text("utf-8")
    blocks: list[str] = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return next(block for block in blocks if "ParallelTrainerManager" in block)


def test_the_names() -> None:
    assert {name for name in tau_trainer.__all__ if getattr(tau_trainer, name) is not None} == {
        "ParallelTrainerManager", "RunReport", "RunSettings", "__version__", "load_settings",
    }  # fmt: skip
    with pytest.raises(AttributeError, match="no attribute 'Trainer'"):
        _ = tau_trainer.Trainer


def test_the_example_takes_about_ten_lines() -> None:
    lines = [line for line in readme_example().splitlines() if line.strip()]
    assert len(lines) <= 18
    compile("\n".join(lines), "README.md", "exec")


@pytest.mark.slow
def test_the_readmes_example(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(readme_example(), "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "example.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=55,
    )
    assert done.returncode == 0, done.stderr
    runs = [path for path in (tmp_path / "results").iterdir() if path.is_dir()]
    assert len(runs) == 1
    evaluation = json.loads((runs[0] / "evaluation.json").read_text())
    assert f"{evaluation['accuracy']:.1%}" in done.stdout
    assert (runs[0] / "TauAgent.onnx").is_file()
