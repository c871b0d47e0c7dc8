"""The stand-ins for the engine say what the engine says: every member is looked up in Unity 2017's real assemblies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from tests.unity.conftest import RunProgram
from tools.csharp import GENERATIONS, STUBS, Generation, Target, Toolchain

READER = Path(__file__).parent / "tools" / "Members.cs"
NEWER = {
    "UnityEngine.Application::Quit(Int32)": "2018.3",
    "UnityEngine.Application::isBatchMode": "2018.2",
    "UnityEngine.Component::TryGetComponent": "2019.2",
    "UnityEngine.FindObjectsInactive": "2021.3",
    "UnityEngine.FindObjectsSortMode": "2021.3",
    "UnityEngine.GameObject::TryGetComponent": "2019.2",
    "UnityEngine.Object::FindAnyObjectByType": "2021.3",
    "UnityEngine.Object::FindFirstObjectByType": "2021.3",
    "UnityEngine.Object::FindObjectsByType": "2021.3",
    "UnityEngine.Rigidbody::angularDamping": "6000.0",
    "UnityEngine.Rigidbody::linearDamping": "6000.0",
    "UnityEngine.Rigidbody::linearVelocity": "6000.0",
}
"""What the stand-ins have and Unity 2017.2 did not have yet: the beginning of its name, and since which version."""

Members = Callable[[Sequence[Path]], set[str]]


@pytest.fixture(scope="session")
def members(toolchain: Toolchain, run_program: RunProgram, tmp_path_factory: pytest.TempPathFactory) -> Members:
    """What assemblies offer: one line for each type, base, interface, attribute and member."""
    program = tmp_path_factory.mktemp("members") / "Members.dll"
    compilation = toolchain.compile([READER], program, kind="program", profile="netcoreapp3.1")
    assert compilation.ok, str(compilation)

    def read(assemblies: Sequence[Path]) -> set[str]:
        done = run_program(program, *map(str, assemblies))
        assert done.returncode == 0, done.stderr
        return set(done.stdout.splitlines())

    return read


@pytest.fixture(scope="session")
def real(members: Members, unity_assemblies: Path) -> set[str]:
    """What the engine of 2017 offers."""
    return members(sorted(unity_assemblies.glob("*.dll")))


def compiled(toolchain: Toolchain, target: Target, out: Path, more: Iterable[Path] = ()) -> Path:
    """The engine's stand-ins with the symbols of one version."""
    compilation = toolchain.compile(
        [*sorted(STUBS.glob("UnityEngine*.cs")), *more],
        out,
        kind="library",
        defines=target.defines,
        profile="netstandard2.1",
    )
    assert compilation.ok, str(compilation)
    return out


def test_every_member_of_2017_is_in_the_real_engine(
    toolchain: Toolchain, members: Members, real: set[str], tmp_path: Path
) -> None:
    """Same base, same interfaces, same parameters, same values of enums and constants, same constraints."""
    stubs = members([compiled(toolchain, Target(GENERATIONS[0], real_engine=True), tmp_path / "UnityEngine.dll")])
    assert not sorted(stubs - real)
    assert "UnityEngine.Transform::Rotate(UnityEngine.Vector3, Single) Void" in stubs
    assert len(real) > 10 * len(stubs) > 5000


@pytest.mark.parametrize("generation", GENERATIONS, ids=lambda generation: generation.name)
def test_younger_members_are_known_by_name(
    generation: Generation, toolchain: Toolchain, members: Members, real: set[str], tmp_path: Path
) -> None:
    younger = members([compiled(toolchain, Target(generation), tmp_path / "UnityEngine.dll")]) - real
    assert not [line for line in sorted(younger) if not line.startswith(tuple(NEWER))]
    known = {name for name, version in NEWER.items() if generation is GENERATIONS[0] or version < "6000"}
    assert not [name for name in sorted(known) if not any(line.startswith(name) for line in younger)]


WRONG = [
    ("public class Wrong : Behaviour { }", "UnityEngine.Wrong is class of UnityEngine.Behaviour"),
    ("public static class Physics2 { }", "UnityEngine.Physics2 is class abstract sealed of System.Object"),
    ("public enum Space2 { World = 1 }", "UnityEngine.Space2::World UnityEngine.Space2 static = 1"),
]


@pytest.mark.parametrize(("source", "line"), WRONG, ids=["class", "static class", "enum"])
def test_a_type_that_the_engine_does_not_have_is_found(
    source: str, line: str, toolchain: Toolchain, members: Members, real: set[str], tmp_path: Path
) -> None:
    wrong = tmp_path / "Wrong.cs"
    wrong.write_text(f"namespace UnityEngine {{ {source} }}\n", encoding="utf-8")
    target = Target(GENERATIONS[0], real_engine=True)
    stubs = members([compiled(toolchain, target, tmp_path / "UnityEngine.dll", [wrong])])
    assert line in stubs - real


CHANGED = [
    ("float Dot(Vector3 lhs, Vector3 rhs)", "double Dot(Vector3 lhs, Vector3 rhs)", "UnityEngine.Vector3::Dot("),
    ("float Dot(Vector3 lhs, Vector3 rhs)", "float Dot(Vector3 lhs)", "UnityEngine.Vector3::Dot("),
    ("Vector3 Cross(", "Vector3 Corss(", "UnityEngine.Vector3::Corss("),
    ("static float Dot(Vector3 lhs", "float Dot(Vector3 lhs", "UnityEngine.Vector3::Dot("),
]


@pytest.mark.parametrize(("right", "wrong", "beginning"), CHANGED, ids=["return", "parameters", "name", "static"])
def test_a_member_that_the_engine_does_not_have_is_found(
    right: str, wrong: str, beginning: str, toolchain: Toolchain, members: Members, real: set[str], tmp_path: Path
) -> None:
    sources = [tmp_path / path.name for path in sorted(STUBS.glob("UnityEngine*.cs"))]
    for copy in sources:
        text = (STUBS / copy.name).read_text(encoding="utf-8")
        before, _, vector = text.partition("public struct Vector3\n")
        copy.write_text(f"{before}public struct Vector3\n{vector.replace(right, wrong, 1)}" if vector else text)
    out = tmp_path / "UnityEngine.dll"
    defines = Target(GENERATIONS[0], real_engine=True).defines
    compilation = toolchain.compile(sources, out, kind="library", defines=defines, profile="netstandard2.1")
    assert compilation.ok, str(compilation)
    found = members([out]) - real
    assert found
    assert all(line.startswith(beginning) for line in found)
