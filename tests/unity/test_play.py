"""The Unity project's scripts play without Unity: with an engine and an ML-Agents that keep the rules of the real ones.

What they stand for, and where each rule is from, is told in the files of `play`. These tests cannot show what only an
editor shows: rendering, serialisation, the real network code of ML-Agents, and the real inference engine.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tools.csharp import UNITY_PROJECT, Asmdef, Toolchain

HERE = Path(__file__).parent
PLAY = sorted((HERE / "play").glob("*.cs"))
RUNNER = [HERE / "core" / "TestRunner.cs", HERE / "core" / "Assert.cs"]
DATA = UNITY_PROJECT / "Assets" / "StreamingAssets" / "Tau" / "tau.json"
VERDICT = re.compile(r"(\d+) passed, (\d+) failed")

RunProgram = Callable[..., "subprocess.CompletedProcess[str]"]

BROKEN = [
    pytest.param(
        "TauAgent.cs",
        "            _answered(_output);\n",
        "            _answered(_output);\n            _answered(_output);\n",
        "AgentTests.ARequestIsAnsweredOnceInItsStep",
        id="an agent answers twice",
    ),
    pytest.param(
        "TauAgent.cs",
        "action[i] = UnityEngine.Random.Range(-1f, 1f);",
        "action[i] = UnityEngine.Random.Range(-1f, 1f); SetReward(1f);",
        "AgentTests.WithoutATrainerItActsWithinTheRangeAndEarnsNothing",
        id="the heuristic sets the reward",
    ),
    pytest.param(
        "TauAgent.cs",
        "            _open = false;\n            _acted = true;\n",
        "            _acted = true;\n",
        "AgentTests.ARequestIsAnsweredOnceInItsStep",
        id="an answered decision stays open",
    ),
    pytest.param(
        "ParallelTrainerManager.cs",
        "_academy.AgentPreStep -= OnStep;",
        "",
        "TrainingTests.NothingIsLeftBehindWhenTrainingEnds",
        id="the manager goes on listening",
    ),
    pytest.param(
        "TauAgent.cs",
        "!_open || _answered == null",
        "_answered == null",
        "TrainerTests.AResetInPlaceOfActionsDropsTheDecisionsAndTheEpisodes",
        id="an action of a reset is taken",
    ),
    pytest.param(
        "TrainingPlan.cs",
        "unchecked(_seed + round)",
        "_seed",
        "TrainingTests.WhileATrainerIsConnectedARoundFollowsARound",
        id="rounds repeat their prompts",
    ),
]


@pytest.fixture(scope="module")
def runtime(asmdefs: list[Asmdef]) -> tuple[Path, ...]:
    """The scripts that play."""
    (assembly,) = (each for each in asmdefs if each.name == "Tau.Runtime")
    return assembly.sources


@pytest.fixture(scope="module")
def play_tests(
    toolchain: Toolchain, core_sources: list[Path], runtime: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Core, runtime, stand-ins and tests as one program."""
    return _compile(toolchain, [*core_sources, *runtime], tmp_path_factory.mktemp("play") / "PlayTests.dll")


def _compile(toolchain: Toolchain, scripts: Sequence[Path], out: Path) -> Path:
    compilation = toolchain.compile(
        [*scripts, *PLAY, *RUNNER], out, kind="program", profile="netcoreapp3.1", defines=["UNITY_6000_0_OR_NEWER"]
    )
    assert compilation.ok, f"the play tests do not compile:\n{compilation}"
    return out


def test_every_play_test_passes(play_tests: Path, run_program: RunProgram) -> None:
    found = sum(len(re.findall(r"^\s*\[Test\]$", path.read_text(encoding="utf-8"), re.MULTILINE)) for path in PLAY)
    done = run_program(play_tests, "--data", str(DATA))
    verdict = VERDICT.fullmatch((done.stdout.splitlines() or [""])[-1])
    assert verdict is not None, done.stdout + done.stderr
    assert int(verdict[2]) == 0, done.stdout
    assert int(verdict[1]) >= found > 80, f"{verdict[0]}, but the sources hold {found} tests"
    assert done.returncode == 0


@pytest.mark.parametrize(("script", "right", "wrong", "test"), BROKEN)
def test_a_broken_script_is_caught(
    script: str,
    right: str,
    wrong: str,
    test: str,
    toolchain: Toolchain,
    core_sources: list[Path],
    runtime: tuple[Path, ...],
    run_program: RunProgram,
    tmp_path: Path,
) -> None:
    """One behaviour of the real scripts is broken: the test that is about it fails."""
    copies = [tmp_path / path.name for path in runtime]
    for path, copy in zip(runtime, copies, strict=True):
        text = path.read_text(encoding="utf-8")
        if path.name == script:
            assert text.count(right) == 1, f"{script} holds {right!r} {text.count(right)} times"
            text = text.replace(right, wrong)
        copy.write_text(text, encoding="utf-8")
    program = _compile(toolchain, [*core_sources, *copies], tmp_path / "out" / "Broken.dll")
    done = run_program(program, "--data", str(DATA))
    assert done.returncode == 1, done.stdout
    assert f"FAILED {test} " in done.stdout, done.stdout
