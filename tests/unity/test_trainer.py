"""The core of the editor package: its own C# tests, and a program that drives the real ``tau-train`` with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unity.conftest import RunProgram
from tests.unity.test_core import DATA, VECTORS, verdict
from tools.csharp import CORE_SOURCES, UNITY_PROJECT, Toolchain

HERE = Path(__file__).parent
CORE = UNITY_PROJECT / "Packages" / "com.tau.trainer" / "Editor" / "Core"
TESTS = sorted((HERE / "trainer").glob("*.cs"))
KIT = [HERE / "core" / "Testing.cs", CORE_SOURCES / "TauException.cs"]
"""The runner of C# tests, and what it needs."""


@pytest.fixture(scope="module")
def core(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled core, alone."""
    out = tmp_path_factory.mktemp("trainer") / "Tau.Trainer.Core.dll"
    compilation = toolchain.compile(sorted(CORE.glob("*.cs")), out, kind="library", profile="netstandard2.1")
    assert compilation.ok, compilation
    return out


def program(toolchain: Toolchain, core: Path, folder: Path, sources: list[Path]) -> Path:
    out = folder / "Program.dll"
    known = [core]
    compilation = toolchain.compile(sources, out, kind="program", references=known, profile="netcoreapp3.1")
    assert compilation.ok, compilation
    return out


def test_every_test_of_the_core_passes(
    toolchain: Toolchain, core: Path, run_program: RunProgram, tmp_path: Path
) -> None:
    found = sum(path.read_text(encoding="utf-8").count("\n        [Test]\n") for path in TESTS)
    done = run_program(program(toolchain, core, tmp_path, [*TESTS, *KIT]), str(VECTORS), str(DATA))
    assert verdict(done) == (found, 0), done.stdout
    assert found > 25
