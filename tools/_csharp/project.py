"""The Unity project's assemblies as in Unity: read from the .asmdef files, compiled in their order.

Each assembly is compiled only with the references that its file declares, against the real assemblies of a player of
Unity 2022.3 with ML-Agents 3.0.0; scripts see only the modules in the project's manifest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools._bootstrap.progress import SetupError
from tools._csharp.compiler import ROOT, Compilation, Toolchain, ensure_unity_assemblies

UNITY_PROJECT = ROOT / "unity_project"
EDITOR_STUBS = ROOT / "tests" / "unity" / "editor"
"""Stand-ins for the parts of UnityEditor that scripts use, because players do not contain it."""


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of Unity and packages that scripts support."""

    name: str
    packages: Mapping[str, str]
    """Name and version of the packages in `versionDefines`."""
    unity: str
    """The newest version whose symbol is set, for example `2022_3`."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Names of this generation that differ from those of Unity 2022.3 and ML-Agents 3.0.0, with the latter."""


UNITY_6 = Generation(
    "Unity 6, ML-Agents 4",
    {"com.unity.ml-agents": "4.0.0", "com.unity.ai.inference": "2.2.1"},
    "6000_0",
    {"Unity.InferenceEngine": "Unity.Sentis", ".linearVelocity": ".velocity"},
)
UNITY_2022 = Generation(
    "Unity 2022.3 and 2023.2, ML-Agents 3.0.0",
    {"com.unity.ml-agents": "3.0.0", "com.unity.sentis": "2.1.0"},
    "2022_3",
)
GENERATIONS = (UNITY_6, UNITY_2022)

_UNITY_VERSIONS = ("2021_3", "2022_1", "2022_2", "2022_3", "2023_1", "2023_2", "6000_0")
_PACKAGES = ("Unity.ML-Agents", "Unity.InferenceEngine", "Unity.Sentis")
"""Assemblies of com.unity.ml-agents and its dependencies."""
_ALWAYS_THERE = ("CoreModule", "SharedInternalsModule", "TextRenderingModule")
_OF_ML_AGENTS = ("ImageConversionModule", "JSONSerializeModule", "PhysicsModule", "Physics2DModule")
"""Engine modules without a package, and those that the package ML-Agents depends on."""


@dataclass(frozen=True, slots=True)
class Asmdef:
    """One .asmdef file and its scripts."""

    path: Path
    name: str
    references: tuple[str, ...]
    engine: bool
    """False if `noEngineReferences` is set."""
    editor: bool
    """True if the editor is the only platform."""
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
    """The target of a compilation: a generation, in the editor or for a player."""

    generation: Generation
    in_editor: bool = False
    replaced: Mapping[Path, Path] = field(default_factory=dict)
    """Files to compile instead of the project's own, for tests with errors."""

    @property
    def defines(self) -> tuple[str, ...]:
        """Symbols for every assembly."""
        newest = _UNITY_VERSIONS.index(self.generation.unity)
        versions = (f"UNITY_{version}_OR_NEWER" for version in _UNITY_VERSIONS[: newest + 1])
        return (*versions, *(("UNITY_EDITOR",) if self.in_editor else ()))


def read_project(project: Path = UNITY_PROJECT) -> list[Asmdef]:
    """All assemblies of a project and of the packages in it, each after its references.

    Raises:
        SetupError: a file is not an assembly definition, or the references are circular.
    """
    paths = sorted(path for top in ("Assets", "Packages") for path in (project / top).rglob("*.asmdef"))
    folders = {path.parent for path in paths}
    found = {asmdef.name: asmdef for asmdef in (_read(path, folders) for path in paths)}
    ordered: dict[str, Asmdef] = {}

    def add(asmdef: Asmdef, above: tuple[str, ...]) -> None:
        if asmdef.name in above:
            raise SetupError(f"{asmdef.path}: the references are circular: {' -> '.join((*above, asmdef.name))}.")
        for name in asmdef.references:
            if name in found:
                add(found[name], (*above, asmdef.name))
        ordered.setdefault(asmdef.name, asmdef)

    for asmdef in found.values():
        add(asmdef, ())
    return list(ordered.values())


def engine_modules(assemblies: Path, project: Path = UNITY_PROJECT) -> list[Path]:
    """The engine assemblies that a project's scripts can use: the modules in its manifest and in its own packages'."""
    packages = project / "Packages"
    files = [packages / "manifest.json", *sorted(packages.glob("*/package.json"))]
    wanted = [name for file in files for name in json.loads(file.read_text(encoding="utf-8"))["dependencies"]]
    modules = {name.rpartition(".")[2] for name in wanted if name.startswith("com.unity.modules.")}
    allowed = {f"{name}module" for name in modules} | {name.lower() for name in (*_ALWAYS_THERE, *_OF_ML_AGENTS)}
    return [path for path in sorted(assemblies.glob("UnityEngine.*.dll")) if path.name[12:-4].lower() in allowed]


def compile_project(
    toolchain: Toolchain, asmdefs: Sequence[Asmdef], target: Target, folder: Path
) -> dict[str, Compilation]:
    """Compiles the target's assemblies; those that depend on a failed one are omitted.

    Raises:
        SetupError: an assembly refers to a missing one, or the stand-ins for the editor do not compile.
    """
    unity = ensure_unity_assemblies(toolchain.cache)
    engine = engine_modules(unity)
    if target.in_editor:
        engine.append(_compile_editor(toolchain, engine, folder))
    results: dict[str, Compilation] = {}
    for asmdef in asmdefs:
        if asmdef.editor and not target.in_editor:
            continue
        if any(name in results and not results[name].ok for name in asmdef.references):
            continue
        results[asmdef.name] = toolchain.compile(
            [_as_of(target, path, folder / "renamed") for path in asmdef.sources],
            folder / f"{asmdef.name}.dll",
            kind="library",
            references=[*_references(asmdef, target, unity, folder), *(engine if asmdef.engine else ())],
            defines=[*target.defines, *asmdef.defines(target.generation.packages)],
            profile="netstandard2.1",
        )
    return results


def version_matches(version: str, expression: str) -> bool:
    """Unity's version expressions: `1.2` is that or newer, `[1.2]` that, `[1.0,2.0)` a range; ends are optional.

    Raises:
        SetupError: the expression is invalid.
    """
    here = _version(version)
    if re.fullmatch(r"[\d.]+", expression):
        return here >= _version(expression)
    if exact := re.fullmatch(r"\[([\d.]+)\]", expression):
        return here == _version(exact[1])
    ends = re.fullmatch(r"([\[(])([\d.]*),([\d.]*)([\])])", expression.replace(" ", ""))
    if ends is None:
        raise SetupError(f"`{expression}` is not a version expression: write `1.0.0`, `[1.0.0]` or `[1.0.0,2.0.0)`.")
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
    """The scripts in a folder, without those of assemblies in subfolders."""
    for path in sorted(folder.rglob("*.cs")):
        if next(parent for parent in path.parents if parent in folders) == folder:
            yield path


def _references(asmdef: Asmdef, target: Target, unity: Path, folder: Path) -> list[Path]:
    """The declared assemblies: those of the generation's packages, and the compiled ones of the project."""
    found = []
    for name in asmdef.references:
        if name in _PACKAGES:
            path = unity / f"{target.generation.renamed.get(name, name)}.dll"
        elif not (path := folder / f"{name}.dll").is_file():
            raise SetupError(f"{asmdef.path}: `{name}` is a missing assembly: correct the reference.")
        # only one of the two assemblies with model assets is installed, and Unity ignores the other's name
        found += [path] if path.is_file() and path not in found else []
    return found


def _compile_editor(toolchain: Toolchain, engine: Sequence[Path], folder: Path) -> Path:
    out = folder / "UnityEditor.dll"
    sources = sorted(EDITOR_STUBS.glob("*.cs"))
    compilation = toolchain.compile(sources, out, kind="library", references=engine, profile="netstandard2.1")
    if not compilation.ok:
        raise SetupError(f"The stand-ins for the editor do not compile:\n{compilation}")
    return out


def _as_of(target: Target, path: Path, folder: Path) -> Path:
    """The file to compile: a script with names of a later generation is copied with the current names."""
    source = target.replaced.get(path, path)
    text = source.read_text(encoding="utf-8")
    words = target.generation.renamed
    if not any(word in text for word in words):
        return source
    for word, known in words.items():
        text = text.replace(word, known)
    copy = folder / source.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(text, encoding="utf-8")
    return copy
