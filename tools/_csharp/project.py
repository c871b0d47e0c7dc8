"""The Unity project's assemblies as Unity sees them: read from the .asmdef files, compiled in their order.

Each assembly is compiled with the references that its file declares and no others, against stand-ins for what Unity
and its packages bring: source files in a folder, each named after the assembly that it belongs to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools._bootstrap.progress import SetupError
from tools._csharp.compiler import ROOT, Compilation, Profile, Toolchain

UNITY_PROJECT = ROOT / "unity_project"
STUBS = ROOT / "tests" / "unity" / "stubs"


@dataclass(frozen=True, slots=True)
class Generation:
    """A line of Unity and of the packages: what scripts may rely on."""

    name: str
    packages: Mapping[str, str]
    """Name and version of the packages that `versionDefines` ask about."""
    unity: str
    """The editor's version, e.g. `2023_2`."""
    inference: str
    """The assembly with the type of a model asset."""


UNITY_6 = Generation(
    "Unity 6, ML-Agents 4",
    {"com.unity.ml-agents": "4.0.0", "com.unity.ai.inference": "2.2.1"},
    "6000_0",
    "Unity.InferenceEngine",
)
UNITY_2023 = Generation(
    "Unity 2023.2, ML-Agents 3.0.0",
    {"com.unity.ml-agents": "3.0.0", "com.unity.sentis": "2.1.0"},
    "2023_2",
    "Unity.Sentis",
)
GENERATIONS = (UNITY_6, UNITY_2023)

_REAL_ENGINE = "2017_2"
"""The version of the player whose assemblies `unity2017` has."""
_UNITY_VERSIONS = (
    *(f"5_{minor}" for minor in range(3, 7)),
    *(f"{year}_{minor}" for year in (2017, 2018, 2019) for minor in range(1, 5)),
    *(f"{year}_{minor}" for year in (2020, 2021, 2022, 2023) for minor in range(1, 4)),
    "6000_0",
)
_INFERENCE = tuple(generation.inference for generation in GENERATIONS)
_STUB_FILES = {
    "UnityEngine": "UnityEngine*.cs",
    "UnityEditor": "UnityEditor*.cs",
    **dict.fromkeys(_INFERENCE, "Unity.Inference*.cs"),
    "Unity.ML-Agents": "Unity.MLAgents*.cs",
}


@dataclass(frozen=True, slots=True)
class Asmdef:
    """One .asmdef file and the scripts that it speaks for."""

    path: Path
    name: str
    references: tuple[str, ...]
    engine: bool
    """False where `noEngineReferences` is set."""
    editor: bool
    """True where the editor is the only platform."""
    version_defines: tuple[tuple[str, str, str], ...]
    """Package, expression, symbol."""
    sources: tuple[Path, ...]

    def defines(self, packages: Mapping[str, str]) -> tuple[str, ...]:
        """The symbols of `versionDefines` that are set with these packages."""
        return tuple(
            symbol
            for package, expression, symbol in self.version_defines
            if package in packages and version_matches(packages[package], expression)
        )


@dataclass(frozen=True, slots=True)
class Target:
    """What is compiled for: a generation, in the editor or for a player, with stand-ins or the real engine."""

    generation: Generation
    in_editor: bool = False
    real_engine: bool = False
    replaced: Mapping[Path, Path] = field(default_factory=dict)
    """Files that are compiled instead of a project's own: for tests that misspell something."""

    @property
    def defines(self) -> tuple[str, ...]:
        """Symbols that hold for every assembly."""
        newest = _UNITY_VERSIONS.index(_REAL_ENGINE if self.real_engine else self.generation.unity)
        versions = (f"UNITY_{version}_OR_NEWER" for version in _UNITY_VERSIONS[: newest + 1])
        return (*versions, *(("UNITY_EDITOR",) if self.in_editor else ()))

    @property
    def profile(self) -> Profile:
        """What scripts know of .NET and the engine."""
        return "unity2017" if self.real_engine else "netstandard2.1"


def read_project(project: Path = UNITY_PROJECT) -> list[Asmdef]:
    """All assemblies of a project, each after those that it refers to.

    Raises:
        SetupError: a file is not an assembly definition, or the references go in a circle.
    """
    paths = sorted((project / "Assets").rglob("*.asmdef"))
    folders = {path.parent for path in paths}
    found = {asmdef.name: asmdef for asmdef in (_read(path, folders) for path in paths)}
    ordered: dict[str, Asmdef] = {}

    def add(asmdef: Asmdef, above: tuple[str, ...]) -> None:
        if asmdef.name in above:
            raise SetupError(f"{asmdef.path}: the references go in a circle: {' -> '.join((*above, asmdef.name))}.")
        for name in asmdef.references:
            if name in found:
                add(found[name], (*above, asmdef.name))
        ordered.setdefault(asmdef.name, asmdef)

    for asmdef in found.values():
        add(asmdef, ())
    return list(ordered.values())


def stub_names(generation: Generation) -> list[str]:
    """The assemblies that Unity and its packages bring, in the order in which they compile."""
    return [name for name in _STUB_FILES if name not in _INFERENCE or name == generation.inference]


def compile_stubs(toolchain: Toolchain, target: Target, folder: Path, stubs: Path = STUBS) -> dict[str, Path]:
    """Compiles the stand-ins; with the real engine, all but the engine's.

    Raises:
        SetupError: they do not compile.
    """
    made: dict[str, Path] = {}
    for name in stub_names(target.generation):
        if name == "UnityEngine" and target.real_engine:
            continue
        out = folder / f"{name}.dll"
        defines = [*target.defines, *(["TAU_SENTIS"] if target.generation.inference == "Unity.Sentis" else [])]
        compilation = toolchain.compile(
            sorted(stubs.glob(_STUB_FILES[name])),
            out,
            kind="library",
            references=[*made.values()],
            defines=defines,
            profile=target.profile,
        )
        if not compilation.ok:
            raise SetupError(f"The stand-ins for {name} do not compile:\n{compilation}")
        made[name] = out
    return made


def compile_project(
    toolchain: Toolchain, asmdefs: Sequence[Asmdef], target: Target, stubs: Mapping[str, Path], folder: Path
) -> dict[str, Compilation]:
    """Compiles the assemblies that the target has; those above one that fails are left out.

    Raises:
        SetupError: an assembly refers to one that nobody brings.
    """
    results: dict[str, Compilation] = {}
    for asmdef in asmdefs:
        if asmdef.editor and not target.in_editor:
            continue
        references = _references(asmdef, target, stubs, {name: folder / f"{name}.dll" for name in results})
        if any(name in results and not results[name].ok for name in asmdef.references):
            continue
        results[asmdef.name] = toolchain.compile(
            [target.replaced.get(path, path) for path in asmdef.sources],
            folder / f"{asmdef.name}.dll",
            kind="library",
            references=references,
            defines=[*target.defines, *asmdef.defines(target.generation.packages)],
            profile=target.profile if asmdef.engine else "netstandard2.1",
        )
    return results


def version_matches(version: str, expression: str) -> bool:
    """Unity's version expressions: `1.2` is that or newer, `[1.2]` that, `[1.0,2.0)` a range; either end may miss.

    Raises:
        SetupError: the expression is none of these.
    """
    here = _version(version)
    if re.fullmatch(r"[\d.]+", expression):
        return here >= _version(expression)
    if exact := re.fullmatch(r"\[([\d.]+)\]", expression):
        return here == _version(exact[1])
    ends = re.fullmatch(r"([\[(])([\d.]*),([\d.]*)([\])])", expression.replace(" ", ""))
    if ends is None:
        raise SetupError(f"`{expression}` is no version expression: write `1.0.0`, `[1.0.0]` or `[1.0.0,2.0.0)`.")
    low, high = ends[2], ends[3]
    above = not low or here > _version(low) or (ends[1] == "[" and here == _version(low))
    below = not high or here < _version(high) or (ends[4] == "]" and here == _version(high))
    return above and below


def _version(text: str) -> list[int]:
    """Three numbers; a missing one is 0."""
    return [*(int(part) for part in text.split(".") if part), 0, 0, 0][:3]


def _read(path: Path, folders: set[Path]) -> Asmdef:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        rules = content.get("versionDefines", [])
        return Asmdef(
            path,
            content["name"],
            tuple(content.get("references", ())),
            not content.get("noEngineReferences", False),
            content.get("includePlatforms", []) == ["Editor"],
            tuple((rule["name"], rule["expression"], rule["define"]) for rule in rules),
            tuple(_sources(path.parent, folders)),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SetupError(f"{path} is not an assembly definition ({error!r}): correct it.") from error


def _sources(folder: Path, folders: set[Path]) -> Iterable[Path]:
    """The scripts below a folder, without those that belong to an assembly further down."""
    for path in sorted(folder.rglob("*.cs")):
        if next(parent for parent in path.parents if parent in folders) == folder:
            yield path


def _references(asmdef: Asmdef, target: Target, stubs: Mapping[str, Path], project: Mapping[str, Path]) -> list[Path]:
    """The assemblies that are declared; the engine's come without being named, the editor's where there is one."""
    names = list(asmdef.references)
    if asmdef.engine:
        names += ["UnityEngine", *(["UnityEditor"] if target.in_editor else [])]
    known = {**stubs, **project}
    for name in names:
        if name not in known and name not in _STUB_FILES:
            raise SetupError(f"{asmdef.path}: `{name}` is an assembly that nobody brings: correct the reference.")
    # of the two assemblies with model assets only one is installed, and Unity passes over the name of the other
    return [known[name] for name in names if name in known]
