"""C# without Unity: fetch a compiler, compile the Unity project's scripts, build the C# engine.

Run in the checkout's root, on Linux x64::

    python tools/csharp.py check         # compile every script against stand-ins of the engine's types
    python tools/csharp.py engine DIR    # the C# engine: DIR/TauEngine.x86_64 is what `--env` accepts
"""

from __future__ import annotations

import argparse
import shlex
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
    STUBS,
    UNITY_PROJECT,
    Asmdef,
    Generation,
    Target,
    compile_project,
    compile_stubs,
    read_project,
)

__all__ = [
    "CACHE",
    "CORE_SOURCES",
    "ENGINE_SOURCES",
    "GENERATIONS",
    "STUBS",
    "UNITY_PROJECT",
    "Asmdef",
    "Compilation",
    "Diagnostic",
    "Generation",
    "Kind",
    "Profile",
    "Target",
    "Toolchain",
    "build_engine",
    "check_project",
    "compile_project",
    "compile_stubs",
    "ensure_toolchain",
    "ensure_unity_assemblies",
    "parse_diagnostics",
    "read_project",
    "unsupported",
    "write_launcher",
]

CORE_SOURCES = UNITY_PROJECT / "Assets" / "Tau" / "Core"
ENGINE_SOURCES = ROOT / "tests" / "unity" / "engine"
ENGINE = "TauEngine"
_FOREIGN = ("DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS", "DOTNET_SHARED_STORE", "COMPlus_StartupHooks")
"""Variables of the caller's .NET that would mislead ours."""


def check_project(toolchain: Toolchain, project: Path = UNITY_PROJECT) -> list[str]:
    """Compiles every script for each generation, for a player and for the editor; returns what is wrong.

    Raises:
        SetupError: the project's assemblies cannot be read, or the stand-ins do not compile.
    """
    asmdefs = read_project(project)
    if not asmdefs:
        raise SetupError(f"{project} has no assembly definitions under Assets: name the Unity project's folder.")
    targets = [Target(generation, editor) for generation in GENERATIONS for editor in (False, True)]
    wrong: dict[str, list[str]] = {}
    for target in targets:
        with tempfile.TemporaryDirectory() as folder:
            stubs = compile_stubs(toolchain, target, Path(folder))
            results = compile_project(toolchain, asmdefs, target, stubs, Path(folder))
        place = f"{target.generation.name} {'editor' if target.in_editor else 'player'}"
        for error in dict.fromkeys(error for result in results.values() for error in result.errors):
            wrong.setdefault(str(error), []).append(place)
    return [
        error if len(places) == len(targets) else f"{error} [only: {'; '.join(places)}]"
        for error, places in wrong.items()
    ]


def build_engine(toolchain: Toolchain, folder: Path, engine: Path = ENGINE_SOURCES, core: Path = CORE_SOURCES) -> Path:
    """Compiles the C# engine with the core in it and writes its launcher; returns the launcher.

    The launcher stands where a Unity build stands: `--env` and `UnityEnvironment(file_name=...)` accept it.

    Raises:
        SetupError: there are no sources, or they do not compile.
    """
    sources = [*sorted(engine.glob("*.cs")), *sorted(core.rglob("*.cs"))]
    if not sources:
        raise SetupError(f"There are no C# files in {engine} and {core}: run this in a whole checkout.")
    out = folder.resolve() / f"{ENGINE}.dll"
    compilation = toolchain.compile(sources, out, kind="program", profile="netcoreapp3.1")
    if not compilation.ok:
        raise SetupError(f"The C# engine does not compile:\n{compilation}")
    return write_launcher(toolchain, out)


def write_launcher(toolchain: Toolchain, program: Path) -> Path:
    """Writes a shell script beside a program that runs it: `exec`, so that signals and exit codes pass."""
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
    """The command line; returns the exit code: 0, 1 if scripts do not compile, 2 if nothing could be tried."""
    parser = argparse.ArgumentParser(prog="csharp.py", description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="compile the Unity project's scripts against stand-ins of the engine's types")
    engine = commands.add_parser("engine", help="build the C# engine, whose launcher `--env` accepts")
    engine.add_argument("folder", type=Path, metavar="DIR", help="where to put it; made if missing")
    parsed = parser.parse_args(arguments)
    try:
        toolchain = ensure_toolchain()
        if parsed.command == "engine":
            print(build_engine(toolchain, parsed.folder))
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
