"""The Python API as the README shows it: the example is run as it stands, and everything public can be reached."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import tau_trainer
from tests.waiting import HANG_S

ROOT = Path(__file__).parents[1]


def readme_example() -> str:
    """The README's first Python block that starts a run."""
    text = (ROOT / "README.md").read_text("utf-8")
    blocks: list[str] = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return next(block for block in blocks if "ParallelTrainerManager" in block)


def test_the_names() -> None:
    assert {name for name in tau_trainer.__all__ if getattr(tau_trainer, name) is not None} == {
        "Agent", "Callback", "LambdaCallback", "ParallelTrainerManager", "RunReport", "RunSettings", "__version__",
        "load_batched", "load_settings", "train", "train_batched",
    }  # fmt: skip
    with pytest.raises(AttributeError, match="no attribute 'Trainer'"):
        _ = tau_trainer.Trainer


def test_the_example_takes_about_ten_lines() -> None:
    lines = [line for line in readme_example().splitlines() if line.strip()]
    assert len(lines) <= 18
    compile("\n".join(lines), "README.md", "exec")


@pytest.mark.slow
def test_the_readmes_example(tmp_path: Path) -> None:
    """With fewer decisions: what it prints and leaves is the same."""
    assert "60_000" in readme_example()
    (tmp_path / "example.py").write_text(readme_example().replace("60_000", "4_000"), "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "example.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert done.returncode == 0, done.stderr
    runs = [path for path in (tmp_path / "results").iterdir() if path.is_dir()]
    assert len(runs) == 1
    evaluation = json.loads((runs[0] / "evaluation.json").read_text())
    assert f"{evaluation['accuracy']:.1%}" in done.stdout
    assert (runs[0] / "TauAgent.onnx").is_file()


@pytest.mark.slow
def test_the_readmes_example_is_well_typed_for_whoever_installs_the_package(tmp_path: Path) -> None:
    """`mypy --strict` sees the types of the package, and a wheel has all modules and says that they are typed."""
    source, example = tmp_path / "source", tmp_path / "example"
    example.mkdir()
    (example / "example.py").write_text(readme_example(), "utf-8")
    skipped = "".join(f"[mypy-{name}.*]\nfollow_imports = skip\n" for name in ("torch", "numpy"))
    (tmp_path / "mypy.ini").write_text(f"[mypy]\n{skipped}")  # they take most of the time
    folders = ["--config-file", str(tmp_path / "mypy.ini"), "--cache-dir", str(tmp_path / "cache")]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *folders, "example.py"],
        cwd=example,
        env={name: value for name, value in os.environ.items() if name not in ("MYPYPATH", "PYTHONPATH")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
    for name in ("tau_trainer", "configs"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), "."]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("tau_trainer-*.whl")
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tau_trainer").rglob("*.py")}
    with zipfile.ZipFile(wheel) as archive:
        assert modules | {"tau_trainer/py.typed"} <= {*archive.namelist()}
