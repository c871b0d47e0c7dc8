"""C# without Unity: fetch a compiler, compile the Unity project's scripts, build a player that needs no Unity.

Run in the checkout's root, on Linux x64::

    python tools/csharp.py check         # compile every script against the assemblies of a real Unity player
    python tools/csharp.py player DIR    # the project and ML-Agents without Unity; `--env DIR/TauPlayer.x86_64`
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools._bootstrap.progress import SetupError
from tools._csharp.compiler import (
    CACHE,
    ROOT,
    Compilation,
    Diagnostic,
    Kind,
    Profile,
    Toolchain,
    ensure_toolchain,
    ensure_unity_assemblies,
    parse_diagnostics,
)
from tools._csharp.kits import unsupported
from tools._csharp.project import (
    GENERATIONS,
    UNITY_2022,
    UNITY_PROJECT,
    Asmdef,
    Generation,
    Target,
    compile_project,
    read_project,
)

__all__ = [
    "CACHE",
    "CORE_SOURCES",
    "GENERATIONS",
    "PLAYER_SOURCES",
    "UNITY_PROJECT",
    "Asmdef",
    "Compilation",
    "Diagnostic",
    "Generation",
    "Kind",
    "Profile",
    "Target",
    "Toolchain",
    "build_player",
    "check_project",
    "compile_project",
    "ensure_toolchain",
    "ensure_unity_assemblies",
    "parse_diagnostics",
    "read_project",
    "unsupported",
    "write_launcher",
]

CORE_SOURCES = UNITY_PROJECT / "Assets" / "Tau" / "Core"
PLAYER_SOURCES = ROOT / "tests" / "unity" / "player"
PLAYER = "TauPlayer"
STAND_INS = {"UnityEngine.CoreModule": "UnityEngine.*.cs", "Grpc.Core": "Grpc.Core.cs"}
"""Assemblies that a real player has, and the sources of their stand-ins here."""
_FOREIGN = ("DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS", "DOTNET_SHARED_STORE", "COMPlus_StartupHooks")
"""Variables of the caller's .NET that would disturb ours."""


def check_project(toolchain: Toolchain, project: Path = UNITY_PROJECT) -> list[str]:
    """Compiles every script for each generation, for a player and for the editor; returns the errors.

    Raises:
        SetupError: the project's assemblies cannot be read, or Unity's assemblies cannot be fetched.
    """
    asmdefs = read_project(project)
    if not asmdefs:
        raise SetupError(f"{project} has no assembly definitions under Assets: name the Unity project's folder.")
    targets = [Target(generation, editor) for generation in GENERATIONS for editor in (False, True)]
    wrong: dict[str, list[str]] = {}
    for target in targets:
        with tempfile.TemporaryDirectory() as folder:
            results = compile_project(toolchain, asmdefs, target, Path(folder))
        place = f"{target.generation.name} {'editor' if target.in_editor else 'player'}"
        for error in dict.fromkeys(error for result in results.values() for error in result.errors):
            wrong.setdefault(str(error), []).append(place)
    return [
        error if len(places) == len(targets) else f"{error} [only: {'; '.join(places)}]"
        for error, places in wrong.items()
    ]


def build_player(toolchain: Toolchain, folder: Path, sources: Path = PLAYER_SOURCES) -> Path:
    """Builds the player without Unity and writes its launcher; returns the launcher.

    The project's and ML-Agents' assemblies run on a stand-in for the core of the engine. You can use the launcher like
    a Unity build: `--env` and `UnityEnvironment(file_name=...)` accept it.

    Raises:
        SetupError: there are no sources, or something does not compile.
    """
    folder = folder.resolve()
    results = list(compile_project(toolchain, read_project(), Target(UNITY_2022), folder).values())
    for name in STAND_INS:
        found = sorted(sources.glob(STAND_INS[name]))
        if not found:
            raise SetupError(f"There are no C# files {STAND_INS[name]} in {sources}: run this in a whole checkout.")
        out = folder / f"{name}.dll"
        results.append(toolchain.compile(found, out, kind="library", profile="netcoreapp3.1"))
    unity = ensure_unity_assemblies(toolchain.cache)
    own = [folder / "Tau.Runtime.dll", folder / "UnityEngine.CoreModule.dll", unity / "Unity.ML-Agents.dll"]
    program = folder / f"{PLAYER}.dll"
    if all(result.ok for result in results):
        main = [sources / "Program.cs"]
        results.append(toolchain.compile(main, program, kind="program", references=own, profile="netcoreapp3.1"))
    if wrong := [str(result) for result in results if not result.ok]:
        raise SetupError("The player does not compile:\n" + "\n".join(wrong))
    for assembly in unity.glob("*.dll"):
        if not (folder / assembly.name).exists():
            shutil.copy2(assembly, folder)
    shutil.copytree(UNITY_PROJECT / "Assets" / "StreamingAssets", folder / "StreamingAssets", dirs_exist_ok=True)
    return write_launcher(toolchain, program)


def write_launcher(toolchain: Toolchain, program: Path) -> Path:
    """Writes a shell script next to a program that runs it with `exec`, so that signals and exit codes pass through."""
    settings = {name: shlex.quote(value) for name, value in toolchain.variables.items()}
    settings["LD_LIBRARY_PATH"] += '"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"'
    lines = ["#!/bin/sh", f"unset {' '.join(_FOREIGN)}"]
    lines += [f"{name}={value}" for name, value in settings.items()]
    lines += [f"export {' '.join(settings)}", f'exec {shlex.join(toolchain.command(program))} "$@"', ""]
    launcher = program.with_suffix(".x86_64")
    launcher.write_text("\n".join(lines), encoding="utf-8", newline="\n")
    launcher.chmod(0o755)
    return launcher


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code: 0, 1 if scripts do not compile, 2 if it could not run."""
    parser = argparse.ArgumentParser(prog="csharp.py", description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="compile the Unity project's scripts against the assemblies of a real player")
    player = commands.add_parser("player", help="build a player without Unity, whose launcher `--env` accepts")
    player.add_argument("folder", type=Path, metavar="DIR", help="folder for it; created if missing")
    parsed = parser.parse_args(arguments)
    try:
        toolchain = ensure_toolchain()
        if parsed.command == "player":
            print(build_player(toolchain, parsed.folder))
            return 0
        wrong = check_project(toolchain)
    except SetupError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"Cannot write there ({error}): choose another folder.", file=sys.stderr)
        return 2
    print("\n".join(wrong) or "OK: every script compiles, for a player and for the editor.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
