"""A C# 8 compiler and the runtime for its programs, for a Linux x64 machine without them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from tools._bootstrap.progress import Progress, SetupError
from tools._csharp.kits import TOOLCHAIN_KIT, UNITY_KIT, ensure_kit

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "csharp"
"""Default folder of the kits; git ignores it."""

Kind = Literal["library", "program"]
Profile = Literal["netstandard2.1", "netcoreapp3.1"]

_FRAMEWORK = "3.1.0"
_PACKS = {
    "netstandard2.1": "NETStandard.Library.Ref/2.1.0/ref/netstandard2.1",
    "netcoreapp3.1": f"Microsoft.NETCore.App.Ref/{_FRAMEWORK}/ref/netcoreapp3.1",
}
_DIAGNOSTIC = re.compile(
    r"^(?:(?P<file>.+?)\((?P<line>\d+),\d+\): )?(?:fatal )?(?:error|warning) (?P<code>[A-Z]+\d+): (?P<message>.*)$"
)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error or warning of the compiler."""

    file: Path | None
    """None if it is about the whole compilation."""
    line: int
    """From 1; 0 if there is no file."""
    code: str
    """For example `CS1061`."""
    message: str

    def __str__(self) -> str:
        place = f"{self.file}({self.line}): " if self.file else ""
        return f"{place}{self.code}: {self.message}"


@dataclass(frozen=True, slots=True)
class Compilation:
    """The result of compiling."""

    ok: bool
    errors: tuple[Diagnostic, ...]
    """In the compiler's order; warnings are errors."""

    def __str__(self) -> str:
        return "compiled" if self.ok else "\n".join(str(error) for error in self.errors)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """An installed compiler and runtime; made by :func:`ensure_toolchain`."""

    folder: Path
    """The kit's folder."""
    cache: Path
    """Folder for Unity's assemblies, which are fetched when a compilation needs them."""

    @property
    def dotnet(self) -> Path:
        """The program that runs compiled programs."""
        return self.folder / "dotnet" / "dotnet"

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables for the runtime; its library path goes before an existing one."""
        return {
            "LD_LIBRARY_PATH": str(self.folder / "openssl"),
            "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1",
            "DOTNET_CLI_TELEMETRY_OPTOUT": "1",
            "DOTNET_ROOT": str(self.dotnet.parent),
            "COMPlus_EnableDiagnostics": "0",  # no sockets for debuggers in the temporary folder
            "COMPlus_gcServer": "0",  # the compiler would reserve memory for every core
        }

    @property
    def environment(self) -> dict[str, str]:
        """This process's environment with the runtime's variables: the `env` of a child process."""
        own = self.variables
        if before := os.environ.get("LD_LIBRARY_PATH"):
            own["LD_LIBRARY_PATH"] += f":{before}"
        return {**os.environ, **own}

    @property
    def compiler(self) -> Path:
        """The compiler, a program like the compiled ones."""
        return self.folder / "dotnet" / "sdk" / "3.1.102" / "Roslyn" / "bincore" / "csc.dll"

    def command(self, dll: Path, *args: str) -> list[str]:
        """The command line that runs a compiled program; start it with :attr:`environment`."""
        return [str(self.dotnet), "exec", str(dll), *args]

    def compile(
        self,
        sources: Sequence[Path],
        out: Path,
        *,
        kind: Kind,
        references: Sequence[Path] = (),
        defines: Sequence[str] = (),
        profile: Profile,
    ) -> Compilation:
        """Compiles C# 8 with warnings as errors; for a program, also copies the files that it needs to run.

        Args:
            sources: the files.
            out: the assembly to write; its folder is created, and its name without `.dll` is the assembly's name.
            kind: a library or a program with a `Main`.
            references: further assemblies; a program's are copied into its folder.
            defines: symbols for `#if`.
            profile: the available part of .NET: `netstandard2.1`, or `netcoreapp3.1` (for programs).

        Raises:
            SetupError: the compiler did not run, or failed without a diagnostic.
            ValueError: there are no sources, or the profile is unknown.
        """
        if not sources or profile not in get_args(Profile):
            raise ValueError(f"{len(sources)} sources, profile {profile!r}; the profiles are {get_args(Profile)}.")
        out.parent.mkdir(parents=True, exist_ok=True)
        out.unlink(missing_ok=True)
        known = [*self._framework(profile), *references]
        arguments = self._options(out, kind, defines) + [f"-r:{_quoted(path)}" for path in known]
        arguments += [str(path.resolve()) for path in sources]
        done = self.run_compiler(arguments)
        errors = parse_diagnostics(done.stdout)
        if done.returncode != 0 and not errors:
            raise SetupError(f"The C# compiler ended with {done.returncode}; its output: {done.stdout}{done.stderr}")
        if done.returncode == 0 and kind == "program":
            _make_runnable(out, references)
        return Compilation(done.returncode == 0, errors)

    def run_compiler(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Runs the compiler to its end.

        Raises:
            SetupError: it does not start.
        """
        return _run(self.command(self.compiler, *arguments), self.environment)

    def _framework(self, profile: Profile) -> list[Path]:
        return sorted((self.folder / "dotnet" / "packs" / _PACKS[profile]).glob("*.dll"))

    @staticmethod
    def _options(out: Path, kind: Kind, defines: Sequence[str]) -> list[str]:
        options = ["-nologo", "-noconfig", "-nostdlib", "-fullpaths", "-deterministic"]
        options += ["-langversion:8.0", "-warn:4", "-warnaserror", "-debug:embedded", f"-pathmap:{ROOT}=/_"]
        options += [f"-target:{'exe' if kind == 'program' else 'library'}", f"-out:{out}"]
        return [*options, f"-define:{';'.join(defines)}"] if defines else options


def ensure_toolchain(cache: Path = CACHE, progress: Progress | None = None) -> Toolchain:
    """The toolchain, fetched on first use (about a minute); at once afterwards.

    Raises:
        SetupError: this machine cannot run it, or it cannot be fetched.
    """
    return Toolchain(ensure_kit(TOOLCHAIN_KIT, cache, progress, _finish), cache)


def ensure_unity_assemblies(cache: Path = CACHE, progress: Progress | None = None) -> Path:
    """The folder with the real assemblies of Unity 2022.3 and ML-Agents 3.0.0, fetched on first use.

    Raises:
        SetupError: this machine cannot use it, or it cannot be fetched.
    """
    return ensure_kit(UNITY_KIT, cache, progress)


def parse_diagnostics(text: str) -> tuple[Diagnostic, ...]:
    """The diagnostics in the compiler's output; other lines are ignored."""
    found = (_DIAGNOSTIC.match(line.strip()) for line in text.splitlines())
    return tuple(
        Diagnostic(
            Path(match["file"]) if match["file"] else None, int(match["line"] or 0), match["code"], match["message"]
        )
        for match in found
        if match
    )


def _finish(folder: Path) -> None:
    """Gives OpenSSL the names that the runtime needs, and starts the compiler once."""
    for name in ("libssl", "libcrypto"):
        (library,) = (folder / "openssl").glob(f"{name}-*.so.1.1")
        (folder / "openssl" / f"{name}.so.1.1").symlink_to(library.name)
    toolchain = Toolchain(folder, folder.parent)
    toolchain.dotnet.chmod(0o755)
    hello = folder / "hello.cs"
    hello.write_text("static class Hello { static void Main() => System.Console.Write(6 * 7); }\n", encoding="utf-8")
    out = folder / "hello" / "hello.dll"
    compilation = toolchain.compile([hello], out, kind="program", profile="netcoreapp3.1")
    said = _run(toolchain.command(out), toolchain.environment).stdout if compilation.ok else str(compilation)
    if said != "42":
        raise SetupError(f"The C# toolchain does not work here; the output of its first program: {said!r}")
    shutil.rmtree(out.parent)
    hello.unlink()


def _run(command: Sequence[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", env=environment, check=False
        )
    except OSError as error:
        raise SetupError(f"`{command[0]}` does not start ({error}): delete its folder to make it again.") from error


def _make_runnable(out: Path, references: Sequence[Path]) -> None:
    """Writes the program's runtime version, and copies its own libraries next to it."""
    options = {"framework": {"name": "Microsoft.NETCore.App", "version": _FRAMEWORK}}
    out.with_suffix(".runtimeconfig.json").write_text(json.dumps({"runtimeOptions": options}), encoding="utf-8")
    for reference in references:
        if reference.resolve().parent != out.resolve().parent:
            shutil.copy2(reference, out.parent)


def _quoted(path: Path) -> str:
    """A quoted path, because commas and semicolons would otherwise end it."""
    return f'"{path}"'
