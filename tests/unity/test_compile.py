"""Every script of the Unity project compiles: against stand-ins for two generations, and against the real engine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tools.csharp import (
    GENERATIONS,
    UNITY_PROJECT,
    Asmdef,
    Compilation,
    Diagnostic,
    Target,
    Toolchain,
    compile_project,
    compile_stubs,
)

UNITY_6, UNITY_2023 = GENERATIONS
TARGETS = [Target(generation, editor) for generation in GENERATIONS for editor in (False, True)]

EXCUSED = {
    "Application.isBatchMode": "2018.2",
    "Quit with 1 arguments": "2018.3",
}
"""Members that scripts use and Unity 2017.2, whose real assemblies we have, did not have yet: since which version."""
MODULES_ALWAYS_THERE = ("Core", "TextRendering")
"""Parts of the engine that no package stands for."""
MODULES_OF_ML_AGENTS = ("ImageConversion", "JSONSerialize", "Physics", "Physics2D", "UnityAnalytics")
"""Parts of the engine that the package ML-Agents depends on."""


@dataclass(frozen=True)
class Build:
    """A compiled project."""

    folder: Path
    stubs: dict[str, Path]
    results: dict[str, Compilation]

    @property
    def known(self) -> dict[str, Path]:
        """Every assembly that another one can refer to."""
        return {**self.stubs, **{name: self.folder / f"{name}.dll" for name in self.results}}


Building = Callable[[Target], Build]


@pytest.fixture(scope="session")
def building(toolchain: Toolchain, asmdefs: list[Asmdef], tmp_path_factory: pytest.TempPathFactory) -> Building:
    """Compiles the project for a target; each only once."""
    builds: dict[str, Build] = {}

    def build(target: Target) -> Build:
        if repr(target) not in builds:
            folder = tmp_path_factory.mktemp("build")
            stubs = compile_stubs(toolchain, target, folder)
            builds[repr(target)] = Build(folder, stubs, compile_project(toolchain, asmdefs, target, stubs, folder))
        return builds[repr(target)]

    return build


def named(target: Target) -> str:
    return f"{target.generation.name}-{'editor' if target.in_editor else 'player'}"


def wrong(results: Iterable[Compilation]) -> str:
    return "\n".join(str(error) for result in results for error in result.errors)


def test_the_core_knows_no_engine(asmdefs: list[Asmdef], core_library: Path) -> None:
    (core,) = (asmdef for asmdef in asmdefs if asmdef.name == "Tau.Core")
    assert not core.engine
    assert core.references == ()
    assert core_library.is_file()


def test_an_engine_type_in_the_core_fails(
    toolchain: Toolchain, asmdefs: list[Asmdef], building: Building, tmp_path: Path
) -> None:
    (core,) = (asmdef for asmdef in asmdefs if asmdef.name == "Tau.Core")
    intruder = tmp_path / "Intruder.cs"
    intruder.write_text("public class Intruder { public UnityEngine.Vector3 Place; }\n", encoding="utf-8")
    stubs = building(TARGETS[0]).stubs
    mixed = replace(core, sources=(*core.sources, intruder))
    results = compile_project(toolchain, [mixed], TARGETS[0], stubs, tmp_path)
    assert [(error.code, error.file) for error in results["Tau.Core"].errors] == [("CS0246", intruder)]


@pytest.mark.parametrize("target", TARGETS, ids=named)
def test_every_assembly_compiles_with_what_it_declares(
    target: Target, building: Building, asmdefs: list[Asmdef]
) -> None:
    build = building(target)
    wanted = {asmdef.name for asmdef in asmdefs if target.in_editor or not asmdef.editor}
    assert wanted >= {"Tau.Core", "Tau.Runtime"}
    assert not wrong(build.results.values())
    assert set(build.results) == wanted
    assert all((build.folder / f"{name}.dll").is_file() for name in wanted)


def test_the_generation_that_is_tested_is_the_one_of_the_manifest(asmdefs: list[Asmdef]) -> None:
    manifest = json.loads((UNITY_PROJECT / "Packages" / "manifest.json").read_text(encoding="utf-8"))
    installed = {**UNITY_6.packages, "com.unity.ml-agents": manifest["dependencies"]["com.unity.ml-agents"]}
    assert [each.defines(installed) for each in asmdefs] == [each.defines(UNITY_6.packages) for each in asmdefs]
    assert any(each.defines(UNITY_2023.packages) for each in asmdefs), "no assembly tells the generations apart"


def test_every_script_belongs_to_an_assembly(unity_scripts: list[Path]) -> None:
    assert sorted(unity_scripts) == sorted((UNITY_PROJECT / "Assets").rglob("*.cs"))


@pytest.mark.parametrize("target", TARGETS[:1], ids=named)
def test_the_editor_assembly_is_not_in_a_player(target: Target, building: Building) -> None:
    assert "Tau.Editor" not in building(target).results


def test_a_reference_that_is_not_declared_is_not_there(
    toolchain: Toolchain, asmdefs: list[Asmdef], building: Building, tmp_path: Path
) -> None:
    build = building(TARGETS[0])
    (runtime,) = (asmdef for asmdef in asmdefs if asmdef.name == "Tau.Runtime")
    assert "Unity.ML-Agents" in runtime.references
    without = replace(runtime, references=tuple(name for name in runtime.references if name != "Unity.ML-Agents"))
    results = compile_project(toolchain, [without], TARGETS[0], build.known, tmp_path)
    assert {error.code for error in results["Tau.Runtime"].errors} >= {"CS0246"}


MISSPELT = [
    pytest.param("Tau.Runtime", r"\.AddForce\(", ".AddForec(", "CS1061", id="method of the engine"),
    pytest.param("Tau.Runtime", r"\bRandom\.Range\(", "Random.Ragne(", "CS0117", id="static method of the engine"),
    pytest.param("Tau.Runtime", r"<Rigidbody>", "<Rigidbdoy>", "CS0246", id="type of the engine"),
    pytest.param("Tau.Runtime", r"\[AddComponentMenu\(", "[AddComponentMneu(", "CS0246", id="attribute of the engine"),
    pytest.param("Tau.Runtime", r"\.UseChildSensors\b", ".UseChildSensor", "CS1061", id="property of ML-Agents"),
    pytest.param("Tau.Runtime", r"\bBehaviorType\.Default\b", "BehaviorType.Defualt", "CS0117", id="enum of ML-Agents"),
    pytest.param("Tau.Runtime", r"(?m)^( +)SetReward\(", r"\1SetRewrad(", "CS0103", id="inherited from ML-Agents"),
    pytest.param("Tau.Runtime", r"\boverride void Heuristic\(", "override void Heuristics(", "CS0115", id="override"),
    pytest.param("Tau.Runtime", r"\bTauProfile\.EmbeddingSize\b", "TauProfile.EmbedingSize", "CS0117", id="core"),
    pytest.param("Tau.Runtime", r"\busing Tau\.Core;", "using Tau.Cor;", "CS0234", id="namespace of the core"),
    pytest.param("Tau.Core", r"\bMath\.Abs\(", "Math.Asb(", "CS0117", id="method of .NET"),
    pytest.param("Tau.Editor", r"\bAssetDatabase\.Refresh\(", "AssetDatabase.Refersh(", "CS0117", id="editor"),
    pytest.param("Tau.Editor", r"\bTauException\(", "TauExeption(", "CS0246", id="core in the editor"),
]


@pytest.mark.parametrize(("assembly", "pattern", "misspelling", "code"), MISSPELT)
def test_a_misspelt_member_fails_the_build(
    assembly: str,
    pattern: str,
    misspelling: str,
    code: str,
    toolchain: Toolchain,
    asmdefs: list[Asmdef],
    building: Building,
    tmp_path: Path,
) -> None:
    """The real script with one word misspelt is refused at that word; untouched, it was accepted."""
    target = Target(UNITY_6, in_editor=True)
    build = building(target)
    assert not wrong(build.results.values()), "the untouched scripts do not compile"
    (asmdef,) = (each for each in asmdefs if each.name == assembly)
    script = next(path for path in asmdef.sources if re.search(pattern, path.read_text(encoding="utf-8")))
    copy = tmp_path / script.name
    text = script.read_text(encoding="utf-8")
    copy.write_text(re.sub(pattern, misspelling, text, count=1), encoding="utf-8")
    results = compile_project(toolchain, [asmdef], replace(target, replaced={script: copy}), build.known, tmp_path)
    assert not results[assembly].ok
    line = text[: re.search(pattern, text).start()].count("\n") + 1  # type: ignore[union-attr]
    found = [error for error in results[assembly].errors if error.code == code and error.file == copy]
    assert line in {error.line for error in found}, wrong(results.values())


def excuse_of(error: Diagnostic) -> str:
    """What an error is about, in the words of the table; errors of other kinds stand for themselves."""
    if match := re.match(r"'([\w.]+)' does not contain a definition for '(\w+)'", error.message):
        return f"{match[1]}.{match[2]}"
    if match := re.match(r"No overload for method '(\w+)' takes (\d+) arguments", error.message):
        return f"{match[1]} with {match[2]} arguments"
    return str(error)


@pytest.mark.parametrize("in_editor", [False, True], ids=["player", "editor"])
@pytest.mark.usefixtures("unity_assemblies")
def test_scripts_compile_against_the_real_engine(
    in_editor: bool, toolchain: Toolchain, asmdefs: list[Asmdef], core_library: Path, tmp_path: Path
) -> None:
    """Only members that are younger than those assemblies are missing, and these are listed by name."""
    target = Target(UNITY_6, in_editor, real_engine=True)
    stubs = compile_stubs(toolchain, target, tmp_path)
    assert "UnityEngine" not in stubs
    chosen = [each for each in asmdefs if each.engine and (in_editor or not each.editor)]
    defines = {symbol for each in chosen for symbol in each.defines(UNITY_6.packages)}
    compilation = toolchain.compile(
        [path for each in chosen for path in each.sources],
        tmp_path / "Tau.dll",
        kind="library",
        references=[core_library, *stubs.values()],
        defines=[*target.defines, *defines],
        profile=target.profile,
    )
    assert {excuse_of(error) for error in compilation.errors} == set(EXCUSED), wrong([compilation])


def test_scripts_use_no_part_of_the_engine_that_is_not_installed(
    toolchain: Toolchain, asmdefs: list[Asmdef], core_library: Path, unity_assemblies: Path, tmp_path: Path
) -> None:
    """The packages manifest says which modules of the engine a project has; others do not exist for its scripts."""
    manifest = json.loads((UNITY_PROJECT / "Packages" / "manifest.json").read_text(encoding="utf-8"))
    asked = {name.rpartition(".")[2] for name in manifest["dependencies"] if name.startswith("com.unity.modules.")}
    asked |= {name.lower() for name in (*MODULES_ALWAYS_THERE, *MODULES_OF_ML_AGENTS)}
    modules = {path.name[len("UnityEngine.") : -len("Module.dll")].lower(): path for path in engine(unity_assemblies)}
    present = [modules[name] for name in sorted(asked) if name in modules]
    target = Target(UNITY_6, real_engine=True)
    stubs = compile_stubs(toolchain, target, tmp_path)
    (runtime,) = (each for each in asmdefs if each.name == "Tau.Runtime")
    compilation = toolchain.compile(
        runtime.sources,
        tmp_path / "Tau.Runtime.dll",
        kind="library",
        references=[core_library, *(path for name, path in stubs.items() if name != "UnityEditor"), *present],
        defines=target.defines,
        profile="netstandard2.1",
    )
    assert {excuse_of(error) for error in compilation.errors} == set(EXCUSED), wrong([compilation])


def engine(folder: Path) -> list[Path]:
    return sorted(folder.glob("UnityEngine.*Module.dll"))
