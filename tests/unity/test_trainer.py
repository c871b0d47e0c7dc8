"""The core of the editor package: its own C# tests, and a program that drives the real ``tau-train`` with it."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest

from tau_trainer import __version__
from tests.bridge.conftest import free_port
from tests.export.unity_check import unity_check
from tests.unity.conftest import RunProgram
from tests.unity.test_core import DATA, VECTORS, verdict
from tests.unity.test_model import SPEC
from tests.waiting import HANG_S
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


# --- the real trainer -------------------------------------------------------------------------------------------------

SHIM = """#!{python}
import sys
from tau_trainer.envs import engines
engines.EDITOR_PORT = {port}
from tau_trainer.cli import main
if __name__ == "__main__":
    sys.exit(main())
"""
"""`tau-train` with another port for the editor, so that other trainers on this machine do not matter."""
SETTINGS = """
behaviors:
  TauAgent:
    trainer_type: ppo
    max_steps: 1000000
    summary_freq: 200
    checkpoint_interval: 600
    keep_checkpoints: 3
    hyperparameters: {batch_size: 32, buffer_size: 128, num_epoch: 1}
    network_settings: {hidden_units: 16, num_layers: 1}
"""


@dataclass
class Desk:
    """A Unity project in a folder with an awkward name, and the program that drives the core in it."""

    project: Path
    program: Path
    toolchain: Toolchain
    port: int

    def tau_train(self, python: str = sys.executable) -> str:
        """The file of `tau-train` in a virtual environment."""
        file = self.project / "virtual environment" / "bin" / "tau-train"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(SHIM.format(python=python, port=self.port), encoding="utf-8")
        file.chmod(0o755)
        return str(file)

    def drive(self, command: str, *words: str, code: int = 0) -> dict[str, list[str]]:
        """What it printed, by its keys."""
        # Not to a pipe: the trainer that it leaves running has the other end too.
        output = self.program.with_suffix(".txt")
        with output.open("wb") as file:
            arguments = self.toolchain.command(self.program, command, str(self.project), str(HANG_S), *words)
            done = subprocess.run(
                arguments, env=self.toolchain.environment, stdout=file, stderr=file, timeout=2 * HANG_S, check=False
            )
        said = output.read_text("utf-8")
        assert done.returncode == code, said
        found: dict[str, list[str]] = {}
        for line in said.splitlines():
            key, _, value = line.partition(": ")
            found.setdefault(key, []).append(value)
        return found


@pytest.fixture
def desk(toolchain: Toolchain, core: Path, tmp_path: Path) -> Desk:
    project = tmp_path / "Mein Spiel ü 'ß' $HOME"
    project.mkdir()
    (project / "my settings.yaml").write_text(SETTINGS, encoding="utf-8")
    drive = program(toolchain, core, tmp_path / "drive", [HERE / "trainer_drive" / "Drive.cs"])
    return Desk(project, drive, toolchain, free_port())


def end(number: str) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(number), signal.SIGKILL)


def test_a_run_from_waiting_to_a_model_in_use(desk: Desk, player: Path) -> None:
    """Begun by one process, taken over by another, resumed by a third, in which its trainer is killed."""
    words = desk.tau_train(), str(desk.project / "my settings.yaml"), str(player), str(desk.port)
    numbers: list[str] = []
    try:
        begun = desk.drive("begin", *words)
        numbers += begun["engine"]
        assert f"waiting for the editor on port {desk.port}: press Play in the editor" in begun["said"]
        assert begun["phase"] == ["Waiting, ", "Training, ", "Training, "]
        assert begun["played"] == ["True"]
        done = desk.drive("finish")
        assert done["taken over"] == ["Training, wants play False"]
        assert done["phase"] == ["Training, ", "Ended, cancelled"]
        assert "saving, evaluating; press again to skip" in done["said"]
        assert done["said"][-1].startswith("The run is cancelled. Exported: ")
        assert done["run"] == ["my settings-01, resumable True, cancelled"]
        assert done["leaves Play"] == ["True, later False, ended True"]
        model = desk.project / "Assets" / "Models" / "TauAgent.onnx"
        assert (done["model"], done["final"], done["offered again"]) == ([str(model)], ["True, early False"], ["False"])
        assert unity_check(model, SPEC) == []
        killed = desk.drive("killed", *words)
        numbers += killed["engine"]
        assert killed["phase"][-1] == "Failed, failed"
        assert killed["said"][-1] == (
            "The trainer ended without a result, so it was killed or it crashed: click Resume to continue from its "
            "last checkpoint."
        )
    finally:
        for number in numbers:
            end(number)
        with contextlib.suppress(OSError, KeyError):
            end(json.loads((desk.project / "results" / "my settings-01" / "status.json").read_text("utf-8"))["pid"])


def test_problems_are_one_sentence_each(desk: Desk) -> None:
    """The port of the editor taken, settings with a mistake, and a virtual environment whose Python is gone."""
    words = desk.tau_train(), str(desk.project / "my settings.yaml")
    with socket.create_server(("127.0.0.1", desk.port)):
        taken = desk.drive("taken", *words)
    assert taken["said"] == [
        f"port {desk.port}, where the editor connects, is taken by another program; end it: it may be another "
        "trainer that waits for the editor"
    ]
    assert taken["phase"] == ["Failed, failed"]
    assert not (desk.project / "results").exists()
    Path(words[1]).write_text("behaviors: {TauAgent: {trainer_type: pppo}}", encoding="utf-8")
    assert "pppo" in " ".join(desk.drive("taken", *words)["said"])
    found = desk.drive("doctor", words[0])
    assert found["versions"] == [
        f"Tau Trainer {__version__}, Python {platform.python_version()}, torch {metadata.version('torch')}"
    ]
    gone = desk.tau_train(python=str(desk.project / "gone"))
    for command in ("doctor", "taken"):
        (sentence,) = desk.drive(command, gone, words[1], code=3)["problem"]
        assert sentence.startswith(f"{gone} does not start (")
