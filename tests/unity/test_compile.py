"""Every script of the Unity project compiles against a real engine and the real ML-Agents, with what it declares."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tools._csharp.project import engine_modules
from tools.csharp import (
    GENERATIONS,
    UNITY_PROJECT,
    Asmdef,
    Compilation,
    Target,
    Toolchain,
    compile_project,
    ensure_unity_assemblies,
)

UNITY_6, UNITY_2022 = GENERATIONS
TARGETS = [Target(generation, editor) for generation in GENERATIONS for editor in (False, True)]


@dataclass(frozen=True)
class Build:
    """A compiled project."""

    folder: Path
    results: dict[str, Compilation]


Building = Callable[[Target], Build]


@pytest.fixture(scope="session")
def building(toolchain: Toolchain, asmdefs: list[Asmdef], tmp_path_factory: pytest.TempPathFactory) -> Building:
    """Compiles the project for a target; each only once."""
    builds: dict[str, Build] = {}

    def build(target: Target) -> Build:
        if repr(target) not in builds:
            folder = tmp_path_factory.mktemp("build")
            builds[repr(target)] = Build(folder, compile_project(toolchain, asmdefs, target, folder))
        return builds[repr(target)]

    return build


def named(target: Target) -> str:
    return f"{target.generation.name}-{'editor' if target.in_editor else 'player'}"


def wrong(results: Iterable[Compilation]) -> str:
    return "\n".join(str(error) for result in results for error in result.errors)


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


def test_the_assemblies_are_a_real_players(toolchain: Toolchain) -> None:
    """Unity's own and ML-Agents' own; of the engine scripts see what the manifest asks for and no more."""
    folder = ensure_unity_assemblies(toolchain.cache)
    agents = (folder / "Unity.ML-Agents.dll").read_bytes()
    assert all(word.encode("utf-16-le") in agents for word in ("3.0.0", "1.5.0"))
    seen = {path.stem for path in engine_modules(folder)}
    assert {"UnityEngine.CoreModule", "UnityEngine.IMGUIModule", "UnityEngine.PhysicsModule"} <= seen
    assert "UnityEngine.AudioModule" not in seen
    assert (folder / "UnityEngine.AudioModule.dll").is_file()


def test_the_generation_that_is_tested_is_the_one_of_the_manifest(asmdefs: list[Asmdef]) -> None:
    manifest = json.loads((UNITY_PROJECT / "Packages" / "manifest.json").read_text(encoding="utf-8"))
    installed = {**UNITY_6.packages, "com.unity.ml-agents": manifest["dependencies"]["com.unity.ml-agents"]}
    assert [each.defines(installed) for each in asmdefs] == [each.defines(UNITY_6.packages) for each in asmdefs]
    assert any(each.defines(UNITY_2022.packages) for each in asmdefs), "no assembly tells the generations apart"


def test_every_script_belongs_to_an_assembly(unity_scripts: list[Path]) -> None:
    found = [path for top in ("Assets", "Packages") for path in (UNITY_PROJECT / top).rglob("*.cs")]
    assert sorted(unity_scripts) == sorted(found)


def test_an_engine_type_in_the_core_fails(toolchain: Toolchain, asmdefs: list[Asmdef], tmp_path: Path) -> None:
    (core,) = (asmdef for asmdef in asmdefs if asmdef.name == "Tau.Core")
    assert (core.engine, core.references) == (False, ())
    intruder = tmp_path / "Intruder.cs"
    intruder.write_text("public class Intruder { public UnityEngine.Vector3 Place; }\n", encoding="utf-8")
    mixed = replace(core, sources=(*core.sources, intruder))
    results = compile_project(toolchain, [mixed], TARGETS[0], tmp_path)
    assert [(error.code, error.file) for error in results["Tau.Core"].errors] == [("CS0246", intruder)]


def test_a_reference_that_is_not_declared_is_not_there(
    toolchain: Toolchain, asmdefs: list[Asmdef], building: Building, tmp_path: Path
) -> None:
    _, runtime, *_ = asmdefs
    assert "Unity.ML-Agents" in runtime.references
    without = replace(runtime, references=tuple(name for name in runtime.references if name != "Unity.ML-Agents"))
    shutil.copy(building(TARGETS[0]).folder / "Tau.Core.dll", tmp_path)
    results = compile_project(toolchain, [without], TARGETS[0], tmp_path)
    assert {error.code for error in results["Tau.Runtime"].errors} >= {"CS0246"}


MISSPELT: dict[str, tuple[str, list[tuple[str, str, str]]]] = {
    "inside methods": (
        "Tau.Runtime",
        [
            (r"\.AddForce\(", ".AddForec(", "CS1061"),  # of the engine
            (r"\.UseChildSensors\b", ".UseChildSensor", "CS1061"),  # of ML-Agents
            (r"(?m)^( +)SetReward\(", r"\1SetRewrad(", "CS0103"),  # inherited from ML-Agents
            (r"<Rigidbody>", "<Rigidbdoy>", "CS0246"),  # a type of the engine
            (r"\bTauProfile\.EmbeddingSize\b", "TauProfile.EmbedingSize", "CS0117"),  # of the core
        ],
    ),
    "an override": (
        "Tau.Runtime",
        [(r"\boverride void Heuristic\(", "override void Heuristics(", "CS0115")],
    ),
    "of .NET": ("Tau.Core", [(r"\bMath\.Abs\(", "Math.Asb(", "CS0117")]),
    "of the editor": ("Tau.Editor", [(r"\bAssetDatabase\.Refresh\(", "AssetDatabase.Refersh(", "CS0117")]),
    "of the window": (
        "Tau.Trainer.Editor",
        [
            (r"\.EnterPlaymode\(", ".EnterPlayMode(", "CS0117"),  # of the editor
            (r"\.painter2D\b", ".painter", "CS1061"),  # of UI Toolkit
            (r"\.BehaviorName\b", ".BehaviourName", "CS1061"),  # of ML-Agents
            (r"\.TakeOver\(", ".Takeover(", "CS0117"),  # of the package's core
        ],
    ),
}
"""By assembly, words that one compilation finds: the compiler looks into methods only where the rest is right."""


@pytest.mark.parametrize("name", MISSPELT)
def test_misspelt_members_fail_the_build(
    name: str, toolchain: Toolchain, asmdefs: list[Asmdef], building: Building, tmp_path: Path
) -> None:
    """The real scripts with some words misspelt are refused at each of them; untouched, they were accepted."""
    assembly, words = MISSPELT[name]
    target = Target(UNITY_2022, in_editor=assembly.endswith(".Editor"))
    build = building(target)
    assert not wrong(build.results.values()), "the untouched scripts do not compile"
    (asmdef,) = (each for each in asmdefs if each.name == assembly)
    texts = {path: path.read_text(encoding="utf-8") for path in asmdef.sources}
    changed = dict(texts)
    wanted = set()
    for pattern, misspelling, code in words:
        script = next(path for path in texts if re.search(pattern, texts[path]))
        line = texts[script][: re.search(pattern, texts[script]).start()].count("\n") + 1  # type: ignore[union-attr]
        changed[script] = re.sub(pattern, misspelling, changed[script], count=1)
        wanted.add((code, tmp_path / script.name, line))
    replaced = {script: tmp_path / script.name for script in texts if changed[script] != texts[script]}
    for script, copy in replaced.items():
        copy.write_text(changed[script], encoding="utf-8")
    for library in build.folder.glob("*.dll"):
        shutil.copy(library, tmp_path)
    (result,) = compile_project(toolchain, [asmdef], replace(target, replaced=replaced), tmp_path).values()
    assert not result.ok
    assert wanted <= {(error.code, error.file, error.line) for error in result.errors}, wrong([result])
