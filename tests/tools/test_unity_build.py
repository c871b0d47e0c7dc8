"""`tools/unity_build.py` with an editor that is a script: what a person reads for each way in which a build can end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import HANG_S, until, until_gone
from tools._unity.editors import VARIABLE, Machine
from tools.unity_build import PROJECT, ROOT, TARGETS, main

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="the stand-in for the editor is a script with a #! line"
)

VERSION = "6000.0.61f1"
EDITOR = """\
#!{python}
import json, os, sys, time
from pathlib import Path
plan = json.loads(Path({plan!r}).read_text())
arguments = sys.argv[1:]
Path({plan!r}).with_suffix(".argv").write_text(json.dumps(arguments))
Path({plan!r}).with_suffix(".pid").write_text(str(os.getpid()))
log = Path(arguments[arguments.index("-logFile") + 1])
player = Path(arguments[arguments.index("-tauOutput") + 1])
with log.open("w") as stream:
    for line in plan["log"]:
        print(line, file=stream, flush=True)
print(plan["printed"], flush=True)
if plan["player"]:
    player.write_text("a player")
time.sleep(plan["sleep"])
sys.exit(plan["code"])
"""
DONE = ["Start", "tau-build: scene Assets/Tau/Scenes/Tau.unity: made", "tau-build: done: Tau.x86_64 (80.0 MB, 61 s)"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    settings = tmp_path / "game" / "ProjectSettings"
    settings.mkdir(parents=True)
    (settings / "ProjectVersion.txt").write_text(
        f"m_EditorVersion: {VERSION}\nm_EditorVersionWithRevision: {VERSION} (5b0d1e55c02c)\n"
    )
    return settings.parent


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A Linux machine with one editor, where Unity Hub puts it."""
    home = tmp_path / "home"
    editor = home / "Unity" / "Hub" / "Editor" / VERSION / "Editor" / "Unity"
    editor.parent.mkdir(parents=True)
    editor.write_text(EDITOR.format(python=sys.executable, plan=str(tmp_path / "plan.json")))
    editor.chmod(0o755)
    return Machine("linux", home, {})


Editor = Callable[..., None]


@pytest.fixture
def editor(tmp_path: Path) -> Editor:
    """Says what the next editor does."""

    def plan(log: Sequence[str], *, code: int = 1, **more: Any) -> None:
        whole = {"log": list(log), "code": code, "player": False, "sleep": 0, "printed": "", **more}
        (tmp_path / "plan.json").write_text(json.dumps(whole))

    return plan


@dataclass
class Build:
    """The tool, called."""

    project: Path
    machine: Machine
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *flags: str) -> tuple[int, str, str]:
        """Its exit code, standard output and errors."""
        code = main(["--project", str(self.project), *flags], self.machine)
        return code, *self.capsys.readouterr()


@pytest.fixture
def build(project: Path, machine: Machine, capsys: pytest.CaptureFixture[str]) -> Build:
    return Build(project, machine, capsys)


def test_success_prints_the_path_and_nothing_else_on_standard_output(
    build: Build, project: Path, editor: Editor, tmp_path: Path
) -> None:
    editor(DONE, code=0, player=True)
    code, out, err = build("--server")
    player = project / "Builds" / "linux" / "Tau.x86_64"
    assert (code, out) == (0, f"{player}\n")
    assert player.read_text() == "a player"
    assert "s] scene Assets/Tau/Scenes/Tau.unity: made\n" in err
    log = project / "Logs" / "tau-build-linux.log"
    assert json.loads((tmp_path / "plan.argv").read_text()) == [
        *("-batchmode", "-nographics", "-quit"),
        *("-projectPath", str(project), "-buildTarget", "Linux64", "-executeMethod", "Tau.Editor.Build.Linux"),
        *("-logFile", str(log), "-tauOutput", str(player), "-tauServer"),
    ]
    assert sorted(path.name for path in log.parent.iterdir()) == [log.name]
    editor(["No valid Unity Editor license found."])  # an old log does not count
    code, _, err = build()
    assert code == 1
    assert "Unity has no license" in err


@pytest.mark.parametrize(("target", "name"), [("linux", "Tau.x86_64"), ("windows", "Tau.exe"), ("macos", "Tau.app")])
def test_each_target_has_its_player_in_the_folder_that_is_named(
    target: str, name: str, build: Build, editor: Editor, tmp_path: Path
) -> None:
    editor(DONE, code=0, player=True)
    folder = tmp_path / "players" / "here"
    log = tmp_path / "logs" / "build.txt"
    code, out, _ = build("--target", target, "--output", str(folder), "--log", str(log))
    assert (code, out) == (0, f"{folder / name}\n")
    assert log.read_text().splitlines() == DONE


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        (
            ["Licensing", "No valid Unity Editor license found. Please activate your license."],
            "Unity has no license on this machine (`No valid Unity Editor license found. Please activate your "
            "license.`): activate one in Unity Hub",
        ),
        (
            [
                "[Licensing] com.unity.editor.headless was not found",
                "Assets/Tau/Core/Json.cs(12,7): error CS0246: The type or namespace name 'X' could not be found",
                "Assets/Tau/Core/Pair.cs(1,2): error CS1002: ; expected",
                "Assets/Tau/Core/Pair.cs(1,2): error CS1002: ; expected",
            ],
            "The project's scripts do not compile (the first of 2 errors): Assets/Tau/Core/Json.cs(12,7): error "
            "CS0246: The type or namespace name 'X' could not be found: check that com.unity.ml-agents",
        ),
        (
            [
                "An error occurred while resolving packages:",
                "  Project has invalid dependencies:",
                "    com.unity.ml-agents: Package [com.unity.ml-agents@4.0.3] cannot be found",
                "Assets/A.cs(1,1): error CS0246: 'Unity.MLAgents'",
            ],
            "Unity cannot get the project's packages (`com.unity.ml-agents: Package [com.unity.ml-agents@4.0.3] cannot "
            "be found`): check the network and proxy",
        ),
        (
            ["tau-build: error: Linux Build Support (Mono) is not installed in this editor, Unity 6000.0.61f1: add"],
            "The editor lacks a module for this target (`Linux Build Support (Mono) is not installed in this editor",
        ),
        (
            ["Error building player because build target was unsupported"],
            "The editor lacks a module for this target (`Error building player because build target was unsupported`)",
        ),
        (
            ["Aborting batchmode", "It looks like another Unity instance is running with this project open."],
            "The project is open in another Unity editor: close that editor and build again.",
        ),
        (
            ["The project was created with a newer version of Unity (6000.3.1f1)"],
            "The project needs a newer Unity than this editor, 6000.0.61f1: install Unity 6000.0.61f1 with Unity "
            "Hub (unityhub://6000.0.61f1/5b0d1e55c02c;",
        ),
        (
            ["executeMethod class 'Build' could not be found."],
            "Unity cannot find the project's build script",
        ),
        (["write failed: No space left on device"], "The disk is full: make room"),
        (
            ["tau-build: error: the build failed: Shader error in 'X'", "tau-build: error: second"],
            "The build failed: Shader error in 'X'.",
        ),
    ],
)
def test_each_failure_is_a_sentence_with_a_remedy_and_the_log(
    log: list[str], sentence: str, build: Build, editor: Editor
) -> None:
    editor(log)
    code, out, err = build()
    assert (code, out) == (1, "")
    last = err.splitlines()[-1]
    assert last.startswith(f"unity-build: {sentence}")
    assert last.endswith(f" The log: {build.project / 'Logs' / 'tau-build-linux.log'}")


LIBRARY = "Unity: error while loading shared libraries: libgtk-3.so.0: cannot open shared object file"


@pytest.mark.parametrize(
    ("log", "plan", "sentence"),
    [
        ([], {"code": 127, "printed": LIBRARY}, f"The editor does not start (`{LIBRARY}`): install the library"),
        (["nothing of note"], {"code": 198}, "Unity has no license on this machine (exit code 198)"),
        (DONE, {"code": 0}, "exit code 0 and no player"),
        (DONE[:2], {"code": 0, "player": True}, "exit code 0 and no player"),
        ([f"line {number}" for number in range(40)], {"code": 3}, "Unity ended with exit code 3 and no player"),
    ],
    ids=["library", "license", "no player", "no word", "unknown"],
)
def test_how_the_editor_ends_says_something_too(
    log: list[str], plan: dict[str, Any], sentence: str, build: Build, editor: Editor
) -> None:
    editor(log, **plan)
    code, _, err = build()
    assert code == 1
    assert sentence in err
    if plan["code"] == 3:
        assert err.endswith("    line 38\n    line 39\n"), "the end of the log"
        assert "line 20" not in err


def test_a_slow_build_shows_life_and_ends_at_its_time(build: Build, editor: Editor, tmp_path: Path) -> None:
    editor(DONE[:2], sleep=1000)
    code, _, err = build("--timeout", "2", "--heartbeat", "0.2")
    assert code == 1
    assert "still running (scene Assets/Tau/Scenes/Tau.unity: made)" in err
    assert "Unity took longer than 2 s and was stopped" in err
    until_gone(int((tmp_path / "plan.pid").read_text()))


def test_ctrl_c_ends_the_editor_too(project: Path, machine: Machine, editor: Editor, tmp_path: Path) -> None:
    editor(DONE[:2], sleep=1000)
    script = ROOT / "tools" / "unity_build.py"
    unity = machine.program(machine.hub_folders()[0] / VERSION)
    command = [sys.executable, str(script), "--project", str(project), "--editor", str(unity)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        until(lambda: (tmp_path / "plan.pid").exists() and (tmp_path / "plan.pid").read_text())
        os.kill(child.pid, signal.SIGINT)
        _, err = child.communicate(timeout=HANG_S)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 130
    assert err.endswith("unity-build: stopped, and the editor too.\n")
    assert "Traceback" not in err
    until_gone(int((tmp_path / "plan.pid").read_text()))


def test_mistakes_are_sentences_with_exit_code_2(build: Build, editor: Editor, tmp_path: Path) -> None:
    def said(*flags: str) -> str:
        code, _, err = build(*flags)
        assert code == 2
        return err

    editor(DONE, code=0)
    (silent := tmp_path / "notes.txt").write_text("not a program")
    assert f"{silent} does not start (Permission denied): name another editor" in said("--editor", str(silent))
    assert "check that the folder can be written to" in said("--output", str(silent / "below"))
    assert "is not a Unity project" in said("--project", str(tmp_path))
    lock = build.project / "Temp" / "UnityLockfile"
    lock.parent.mkdir()
    lock.touch()
    assert f"The project is open in a Unity editor ({lock} is there): close that editor" in said()
    assert not (tmp_path / "plan.pid").exists(), "no editor was started"
    lock.unlink()
    build.machine = Machine("linux", tmp_path / "empty", {})
    assert "unity-build: Unity 6000.0.61f1 was not found in" in said()
    for wrong in (["--timeout", "0"], ["--timeout", "soon"], ["--target", "amiga"], ["--wrong"]):
        with pytest.raises(SystemExit) as end:
            build(*wrong)
        assert end.value.code == 2
        assert "Traceback" not in build.capsys.readouterr().err


def test_another_version_of_the_stream_is_used_with_a_warning(build: Build, editor: Editor) -> None:
    installed = build.machine.hub_folders()[0] / VERSION
    installed.rename(installed.with_name("6000.0.70f1"))
    editor(DONE, code=0, player=True)
    code, _, err = build()
    assert code == 0
    assert "warning: the project has Unity 6000.0.61f1, but 6000.0.70f1 is used" in err


def test_every_method_is_in_the_projects_build_script() -> None:
    script = (PROJECT / "Assets" / "Tau" / "Editor" / "Build.cs").read_text()
    for target in TARGETS.values():
        namespace, name, method = target.method.rsplit(".", 2)
        assert f"namespace {namespace}" in script
        assert f"public static class {name}" in script
        assert f"public static void {method}()" in script
    arguments = (PROJECT / "Assets" / "Tau" / "Editor" / "BuildArguments.cs").read_text()
    assert '"-tauOutput"' in arguments
    assert '"-tauServer"' in arguments
    assert VARIABLE == "UNITY_EDITOR"
