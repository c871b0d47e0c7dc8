"""The engine-free core runs its own C# tests: compiled together with them, on the same vectors as the Python side."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tau_trainer.tau.dataset import PACKAGED_DATA
from tools.csharp import Toolchain

HERE = Path(__file__).parent
TESTS = sorted((HERE / "core").glob("*.cs"))
RUNNER = [HERE / "core" / name for name in ("Assert.cs", "TestRunner.cs")]
VECTORS = HERE / "vectors.json"
VERDICT = re.compile(r"(\d+) passed, (\d+) failed")

RunProgram = Callable[..., "subprocess.CompletedProcess[str]"]

FAILING = """
using System;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Core.Tests
{
    public sealed class DeliberateTests
    {
        [Test]
        public void Holds() { Assert.Equal(4, 2 + 2); }

        [Test]
        public static async Task HoldsLater() { await Task.Delay(1); Assert.True(true); }

        [Test]
        public void DoesNotHold() { Assert.Equal(5, 2 + 2, "sum"); }

        [Test]
        public async Task FailsLater() { await Task.Delay(1); throw new InvalidOperationException("too late"); }

        [Test]
        public void ThrowsSomethingElse() { Assert.Throws<ArgumentException>(() => throw new TauException("no")); }

        public void IsNoTest() { throw new InvalidOperationException("must not run"); }
    }
}
"""
NEVER_ENDS = """
namespace Tau.Core.Tests
{
    public sealed class HangingTests
    {
        [Test]
        public void NeverEnds() { System.Threading.Thread.Sleep(System.Threading.Timeout.Infinite); }

        [Test]
        public void Holds() { Assert.True(true); }
    }
}
"""


def _compile(toolchain: Toolchain, sources: Sequence[Path], out: Path) -> Path:
    compilation = toolchain.compile(sources, out, kind="program", profile="netcoreapp3.1")
    assert compilation.ok, f"the tests of the core do not compile:\n{compilation}"
    return out


@pytest.fixture(scope="module")
def core_tests(toolchain: Toolchain, core_sources: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The core and its tests as one program."""
    return _compile(toolchain, [*core_sources, *TESTS], tmp_path_factory.mktemp("core-tests") / "CoreTests.dll")


def test_every_test_of_the_core_passes(core_tests: Path, run_program: RunProgram) -> None:
    found = sum(len(re.findall(r"^\s*\[Test\]$", path.read_text(encoding="utf-8"), re.MULTILINE)) for path in TESTS)
    done = run_program(core_tests, "--vectors", str(VECTORS), "--data", str(PACKAGED_DATA))
    verdict = VERDICT.fullmatch((done.stdout.splitlines() or [""])[-1])
    assert verdict is not None, done.stdout + done.stderr
    assert int(verdict[2]) == 0, done.stdout
    assert int(verdict[1]) >= found > 70, f"{verdict[0]}, but the sources hold {found} tests"
    assert done.returncode == 0


def test_tests_can_be_listed_and_chosen(core_tests: Path, run_program: RunProgram) -> None:
    arguments = ("--vectors", str(VECTORS), "--filter", "windowtests.")
    listed = run_program(core_tests, "--list", *arguments).stdout.splitlines()
    assert "WindowTests.WindowsJudgeAsTheSharedVectorsSay" in listed
    assert all(line.startswith("WindowTests.") for line in listed)
    assert run_program(core_tests, *arguments).stdout.splitlines()[-1] == f"{len(listed)} passed, 0 failed"


def test_no_test_found_and_wrong_arguments_are_failures(core_tests: Path, run_program: RunProgram) -> None:
    nothing = run_program(core_tests, "--filter", "no such test")
    assert (nothing.stdout.strip(), nothing.returncode) == ("0 passed, 0 failed", 1)
    wrong = run_program(core_tests, "--vector", "x")
    assert wrong.returncode == 2
    assert "--vectors FILE" in wrong.stderr


def test_a_wrong_vector_makes_the_core_fail(core_tests: Path, run_program: RunProgram, tmp_path: Path) -> None:
    """The tests really read the file: one reward that is off by little is found."""
    text = VECTORS.read_text(encoding="ascii")
    wrong = tmp_path / "vectors.json"
    wrong.write_text(text.replace('"incremental":0.6', '"incremental":0.6001', 1), encoding="ascii")
    assert wrong.read_text(encoding="ascii") != text
    done = run_program(core_tests, "--vectors", str(wrong), "--filter", "FormulasEarn")
    assert done.stdout.splitlines()[-1] == "0 passed, 1 failed"
    assert "errors 0.05, 0.05, 0.5, incremental: expected `0.6001" in done.stdout
    assert done.returncode == 1


def test_a_failing_test_is_reported(
    toolchain: Toolchain, core_sources: list[Path], run_program: RunProgram, tmp_path: Path
) -> None:
    (tmp_path / "Deliberate.cs").write_text(FAILING, encoding="utf-8")
    sources = [*core_sources, *RUNNER, tmp_path / "Deliberate.cs"]
    program = _compile(toolchain, sources, tmp_path / "out" / "Deliberate.dll")
    alone = run_program(program, "--filter", "DoesNotHold")
    assert alone.stdout.splitlines()[-1] == "0 passed, 1 failed"
    assert alone.returncode == 1
    every = run_program(program)
    lines = every.stdout.splitlines()
    assert len(lines) == 4
    assert re.match(r"FAILED DeliberateTests\.DoesNotHold \(\d+ ms\): sum: expected `5` but came `4` \[", lines[0])
    assert "FailsLater" in lines[1]
    assert "InvalidOperationException: too late" in lines[1]
    assert "expected ArgumentException but came TauException: no" in lines[2]
    assert lines[3] == "2 passed, 3 failed"
    assert every.returncode == 1


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_test_that_never_ends_is_given_up(
    toolchain: Toolchain, core_sources: list[Path], run_program: RunProgram, tmp_path: Path
) -> None:
    (tmp_path / "Hanging.cs").write_text(NEVER_ENDS, encoding="utf-8")
    program = _compile(toolchain, [*core_sources, *RUNNER, tmp_path / "Hanging.cs"], tmp_path / "out" / "Hanging.dll")
    done = run_program(program)
    assert "HangingTests.NeverEnds" in done.stdout
    assert "still running after 30 s" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 passed, 1 failed"
    assert done.returncode == 1
