"""The engine-free core runs its own C# tests, on the cases that the Python side is held to as well."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.unity.conftest import RunProgram
from tools.csharp import UNITY_PROJECT, Toolchain

HERE = Path(__file__).parent
TESTS = sorted((HERE / "core").glob("*.cs"))
VECTORS = HERE / "vectors.json"
DATA = UNITY_PROJECT / "Assets" / "StreamingAssets" / "Tau" / "tau.tau"
VERDICT = re.compile(r"(\d+) passed, (\d+) failed")


@pytest.fixture(scope="module")
def core_tests(toolchain: Toolchain, core_sources: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The core and its tests as one program."""
    out = tmp_path_factory.mktemp("core-tests") / "CoreTests.dll"
    compilation = toolchain.compile([*core_sources, *TESTS], out, kind="program", profile="netcoreapp3.1")
    assert compilation.ok, f"the tests of the core do not compile:\n{compilation}"
    return out


def verdict(done: subprocess.CompletedProcess[str]) -> tuple[int, int]:
    """How many tests passed and failed."""
    found = VERDICT.fullmatch((done.stdout.splitlines() or [""])[-1])
    assert found is not None, done.stdout + done.stderr
    return int(found[1]), int(found[2])


def test_every_test_of_the_core_passes(core_tests: Path, run_program: RunProgram) -> None:
    found = sum(path.read_text(encoding="utf-8").count("\n        [Test]\n") for path in TESTS)
    done = run_program(core_tests, str(VECTORS), str(DATA))
    assert verdict(done) == (found, 0), done.stdout
    assert found > 40
    assert done.returncode == 0


def test_a_wrong_case_makes_the_core_fail(core_tests: Path, run_program: RunProgram, tmp_path: Path) -> None:
    """The tests really read the file: one reward that is off by little is found, and told."""
    text = VECTORS.read_text(encoding="ascii")
    wrong = tmp_path / "vectors.json"
    wrong.write_text(text.replace('"incremental":0.6', '"incremental":0.6001', 1), encoding="ascii")
    assert wrong.read_text(encoding="ascii") != text
    done = run_program(core_tests, str(wrong), str(DATA), "FormulasEarn")
    assert verdict(done) == (0, 1)
    assert "errors 0.05, 0.05, 0.5, incremental: expected `0.6001" in done.stdout
    assert done.returncode == 1
