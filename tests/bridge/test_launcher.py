"""Starting and ending an engine's process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tau_trainer.bridge.dialect import UNITY, UNREAL
from tau_trainer.bridge.launcher import EngineProcess, LaunchSpec, resolve_executable
from tau_trainer.errors import LaunchError
from tests.waiting import HANG_S, NEVER_S, until

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions and process groups")


def program(path: Path) -> Path:
    """An executable file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@posix
@pytest.mark.parametrize("given", ["game", "game.x86_64", "game.x86", "game.exe", "game.app"])
def test_linux_with_any_suffix(tmp_path: Path, given: str) -> None:
    wanted = program(tmp_path / "game.x86_64")
    assert resolve_executable(tmp_path / given, "linux") == wanted


def test_linux_prefers_x86_64_then_x86_then_the_file_itself(tmp_path: Path) -> None:
    for name in ("game", "game.x86", "game.x86_64"):
        wanted = program(tmp_path / name)
        assert resolve_executable(tmp_path / "game", "linux") == wanted


def test_linux_script_of_an_unreal_build(tmp_path: Path) -> None:
    (tmp_path / "Game").mkdir()  # the project's folder, beside the script
    wanted = program(tmp_path / "Game.sh")
    assert resolve_executable(tmp_path / "Game", "linux") == wanted
    assert resolve_executable(tmp_path / "Game.sh", "linux") == wanted


def test_macos_bundle(tmp_path: Path) -> None:
    other = program(tmp_path / "game.app/Contents/MacOS/My Game")
    (other.parent / ".DS_Store").write_bytes(b"")
    for given in ("game", "game.app", "game.x86_64"):
        assert resolve_executable(tmp_path / given, "darwin") == other
    named = program(tmp_path / "game.app/Contents/MacOS/game")
    assert resolve_executable(tmp_path / "game", "darwin") == named


def test_windows_program_folder_and_batch_file(tmp_path: Path) -> None:
    folder = tmp_path / "build"
    program(folder / "UnityCrashHandler64.exe")
    game = program(folder / "Game.exe")
    assert resolve_executable(folder, "win32") == game
    assert resolve_executable(folder / "Game", "win32") == game
    assert resolve_executable(folder / "Game.exe", "win32") == game
    batch = program(tmp_path / "tau.bat")
    assert resolve_executable(tmp_path / "tau", "win32") == batch


def test_relative_paths_and_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = program(tmp_path / "builds/game.x86_64")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve_executable("builds/game", "linux") == wanted
    assert resolve_executable("~/builds/game", "linux") == wanted


def test_names_with_dots_keep_them(tmp_path: Path) -> None:
    wanted = program(tmp_path / "game.v1.2.x86_64")
    assert resolve_executable(tmp_path / "game.v1.2", "linux") == wanted


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_nothing_there(tmp_path: Path, platform: str) -> None:
    (tmp_path / "folder").mkdir()
    for given in ("missing", "folder"):
        with pytest.raises(LaunchError, match=rf"no program found at '.*{given}'; give --env the path of a build"):
            resolve_executable(tmp_path / given, platform)


def test_not_executable(tmp_path: Path) -> None:
    file = tmp_path / "game.x86_64"
    file.write_bytes(b"")
    file.chmod(0o644)
    with pytest.raises(LaunchError, match=rf"{file} is not executable; allow it with: chmod \+x '{file}'"):
        resolve_executable(tmp_path / "game", "linux")


def test_flags_are_in_ml_agents_order_and_only_the_port_is_always_there(logs: Path) -> None:
    spec = LaunchSpec(("game",), no_graphics=True, env_args=("--level", "3", "-x"), log_folder=logs)
    assert spec.argv(5008, 3) == [
        *("game", "-nographics", "-batchmode", "--mlagents-port", "5008"),
        *("-logFile", str(logs.resolve() / "Player-3.log"), "--level", "3", "-x"),
    ]
    assert LaunchSpec(("game", "lead")).argv(5005, 0) == ["game", "lead", "--mlagents-port", "5005"]


@pytest.mark.parametrize("flag", ["-logfile", "-logFile", "-LOGFILE"])
def test_the_users_log_file_is_respected(logs: Path, flag: str) -> None:
    spec = LaunchSpec(("game",), env_args=(flag, "mine.txt"), log_folder=logs)
    assert spec.argv(1, 0) == ["game", "--mlagents-port", "1", flag, "mine.txt"]
    assert spec.log_file(0) is None


def test_the_headless_engine() -> None:
    spec = LaunchSpec.of("headless:balance", no_graphics=True)
    assert spec.program == (sys.executable, "-P", "-m", "tau_trainer.headless", "--scene", "balance")
    assert spec.no_graphics
    first = spec.environment["PYTHONPATH"].split(os.pathsep)[0]
    assert (Path(first) / "tau_trainer" / "headless").is_dir()


@posix
def test_a_build(tmp_path: Path) -> None:
    wanted = program(tmp_path / "game.x86_64")
    assert LaunchSpec.of(str(wanted)).program == (str(wanted),)
    assert LaunchSpec.of(str(wanted)).dialect is UNITY


@posix
def test_an_unreal_build(tmp_path: Path) -> None:
    """Named so, or recognised: by what is given, or by the program that is found there."""
    wanted = program(tmp_path / "game.x86_64")
    named = LaunchSpec.of(f"unreal:{tmp_path / 'game'}")
    assert (named.program, named.dialect) == ((str(wanted),), UNREAL)
    for folder in ("Engine", "Ball/Content"):
        (tmp_path / folder).mkdir(parents=True)
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(wanted)
    for given in (wanted, link):
        found = LaunchSpec.of(str(given))
        assert (found.program, found.dialect) == ((str(wanted),), UNREAL)


def python(code: str, *arguments: str, logs: Path | None = None) -> LaunchSpec:
    """An engine that is a line of Python."""
    return LaunchSpec((sys.executable, "-c", code, *arguments), log_folder=logs)


async def test_the_program_gets_its_arguments_as_they_are_and_no_shell_and_more_variables(logs: Path) -> None:
    odd = ("$(touch pwned)", "; exit 3", "a b", "*", '"')
    code = "import json, os, sys; print(json.dumps([sys.argv[1:6], os.environ['TAU_TEST'], 'PATH' in os.environ]))"
    spec = replace(python(code, *odd, logs=logs), environment={"TAU_TEST": "yes"})
    process = await EngineProcess.start(spec, 5005, 0)
    assert await process.wait(HANG_S)
    assert process.returncode == 0
    assert json.loads((logs / "Player-0.log").read_text()) == [[*odd], "yes", True]


async def test_an_exit_is_told_with_the_logs_tail(logs: Path) -> None:
    code = "import sys; print('\\n'.join(f'line {i}' for i in range(9)), file=sys.stderr); sys.exit(7)"
    spec = python(code, logs=logs)
    process = await EngineProcess.start(spec, 5005, 2)
    assert await process.wait(HANG_S)
    assert process.log == spec.log_file(2)
    assert process.describe_exit() == "exit code 7; its log ends with: line 4 | line 5 | line 6 | line 7 | line 8"


async def test_an_exit_is_noticed_without_waiting(logs: Path) -> None:
    process = await EngineProcess.start(python("import sys; sys.stdin.read()", logs=logs), 5005, 0)
    while process.returncode is None:  # noqa: ASYNC110 (its input is closed, so it ends; a watcher only looks)
        await asyncio.sleep(0.01)
    assert process.describe_exit() == "exit code 0; its log is empty"


async def test_only_the_end_of_a_long_log_is_read_without_what_says_nothing(logs: Path) -> None:
    """As Unity writes it: each message is followed by where in Unity's own sources it was written."""
    unity = """the true cause
(Filename: ./Runtime/Export/Debug/Debug.bindings.h Line: 39)

-----------------------------
##utp:{"type":"MemoryLeaks"}
==============================
(Filename: Assets/Tau/Runtime/TauBootstrap.cs Line: 121)
  what came of it
"""
    process = await EngineProcess.start(python("", logs=logs), 5005, 0)
    await process.wait(HANG_S)
    assert process.log is not None
    process.log.write_text(unity, "utf-8")
    said = 'the true cause | ##utp:{"type":"MemoryLeaks"} | what came of it'
    assert process.log_tail() == f"; its log ends with: {said}"
    process.log.write_bytes(b"a" * 100_000 + b"\n\n  the end \n")
    tail = process.log_tail()
    assert tail.endswith("| the end")
    assert len(tail) < 5000
    process.log.unlink()
    assert process.log_tail() == "; its log is empty"


async def test_without_a_log_folder_nothing_is_said_of_a_log() -> None:
    process = await EngineProcess.start(python("raise SystemExit(3)"), 5005, 0)
    assert await process.wait(HANG_S)
    assert process.describe_exit() == "exit code 3"


@posix
async def test_what_cannot_be_started(tmp_path: Path) -> None:
    """No place for the log, no program, and one of the wrong format."""
    file = tmp_path / "game.x86_64"
    file.write_bytes(b"\x7fELF and then nothing that could run")
    file.chmod(0o755)
    for spec, said in (
        (python("", logs=file), r"cannot write the engine's log .*Player-0\.log"),
        (LaunchSpec((str(tmp_path / "gone"),)), r"cannot start '.*gone': .*; check that it is built for this system"),
        (LaunchSpec((str(resolve_executable(file)),)), "Exec format error; check that it is built for this system"),
    ):
        with pytest.raises(LaunchError, match=said):
            await EngineProcess.start(spec, 5005, 0)


CHILD = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1]))).recv(1)"
"""Lives until the test hangs up."""
FAMILY = f"""
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {CHILD!r}, sys.argv[1]])
time.sleep(0 if sys.argv[2] == "leaves" else {NEVER_S})
"""


@posix
@pytest.mark.parametrize("how", ["kill", "stop"])
@pytest.mark.parametrize("leader", ["stays", "leaves"])
async def test_grandchildren_end_with_the_engine(how: str, leader: str) -> None:
    """A grandchild holds a connection to this test for as long as it lives."""
    with socket.create_server(("127.0.0.1", 0)) as lifeline:
        lifeline.settimeout(HANG_S)
        process = await EngineProcess.start(python(FAMILY, str(lifeline.getsockname()[1]), leader), 5005, 0)
        try:
            grandchild, _ = await asyncio.to_thread(lifeline.accept)
            with grandchild:
                grandchild.settimeout(HANG_S)
                if leader == "leaves":
                    assert await process.wait(HANG_S)
                if how == "kill":
                    process.kill()
                    assert await process.wait(HANG_S)
                else:
                    await process.stop(0.05)
                assert process.returncode is not None
                with contextlib.suppress(ConnectionError):
                    assert await asyncio.to_thread(grandchild.recv, 1) == b""
        finally:
            process.kill()  # once more does no harm


@posix
async def test_a_program_that_ignores_sigterm_is_killed_and_the_signal_is_named(
    monkeypatch: pytest.MonkeyPatch, logs: Path
) -> None:
    monkeypatch.setattr("tau_trainer.bridge.launcher._KILL_AFTER_S", 0.3)
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); "
    process = await EngineProcess.start(python(f"{code}time.sleep({NEVER_S})", logs=logs), 5005, 0)
    try:
        log = logs / "Player-0.log"
        await asyncio.to_thread(until, lambda: log.read_text() == "ready\n")  # it ignores the signal from now on
        await process.stop(0.3)
    finally:
        process.kill()
    assert process.describe_exit() == "signal SIGKILL; its log ends with: ready"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such signal")
def test_an_engine_that_is_bound_ends_with_whoever_started_it_however_that_ends(tmp_path: Path) -> None:
    """In a session of its own nothing else would reach it."""
    wait = f"import time; time.sleep({NEVER_S})"
    program = f"""
import asyncio, signal, os
from tau_trainer.bridge.dialect import UNITY, UNREAL
from tau_trainer.bridge.launcher import EngineProcess, LaunchSpec
async def start():
    spec = LaunchSpec(({sys.executable!r}, "-S", "-c", {wait!r}), bound=True)
    print((await EngineProcess.start(spec, 5005, 0)).pid, flush=True)
    await asyncio.sleep({NEVER_S})
asyncio.run(start())
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment) as starter:
        assert starter.stdout is not None
        engine = Path(f"/proc/{int(starter.stdout.readline())}")
        try:
            until(lambda: wait.encode() in (engine / "cmdline").read_bytes() and b"prctl" not in _line(engine))
        finally:
            starter.kill()
    until(lambda: not engine.exists() or "\nState:\tZ" in (engine / "status").read_text())


def _line(process: Path) -> bytes:
    return (process / "cmdline").read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such signal")
async def test_a_bound_engine_that_cannot_be_started_says_why_in_its_log(tmp_path: Path) -> None:
    broken = tmp_path / "game.x86_64"
    broken.write_bytes(b"no program")
    broken.chmod(0o755)
    engine = await EngineProcess.start(LaunchSpec((str(broken),), log_folder=tmp_path, bound=True), 5005, 0)
    assert await engine.wait(HANG_S)
    said = f"exit code 1; its log ends with: cannot start '{broken}': Exec format error"
    assert engine.describe_exit() == said
