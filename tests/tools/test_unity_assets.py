"""The tool that fills the Unity project: `.meta` files with stable GUIDs, nothing left over."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.unity_assets import ROOT, guid_of, hidden, main, meta_text


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "game"
    for name in ("Core/Thing.cs", "Core/Core.asmdef", "Readme.md", "Models/Net.onnx", ".git/config", "Notes~/x.cs"):
        path = folder / "Assets" / "Tau" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("content\n")
    return folder


def run(project: Path, *flags: str) -> int:
    return main([*flags, "--project", str(project)])


def metas(project: Path) -> set[str]:
    return {path.relative_to(project / "Assets").as_posix() for path in project.rglob("*.meta")}


def test_fills_a_bare_project_once_as_a_script_from_any_folder(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, str(ROOT / "tools" / "unity_assets.py"), "--project", str(project)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    names = ("Core", "Core/Core.asmdef", "Core/Thing.cs", "Models", "Models/Net.onnx", "Readme.md")
    assert metas(project) == {"Tau.meta", *(f"Tau/{name}.meta" for name in names)}
    assert not list(project.rglob("*.tmp"))
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert run(project) == 0
    assert capsys.readouterr().out == "unity_assets: 7 assets, 0 changes.\n"
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before


def test_a_package_inside_the_project_is_filled_too(project: Path) -> None:
    package = project / "Packages" / "com.some.package"
    for name in ("package.json", "Editor/Window.cs"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("{}\n")
    (project / "Packages" / "manifest.json").write_text("{}\n")
    assert run(project) == 0
    found = {path.relative_to(project / "Packages").as_posix() for path in (project / "Packages").rglob("*.meta")}
    names = {"package.json.meta", "Editor.meta", "Editor/Window.cs.meta"}
    assert found == {f"com.some.package/{name}" for name in names}
    assert "PackageManifestImporter:" in (package / "package.json.meta").read_text()


def test_check_names_each_fault_and_changes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(project)
    tau = project / "Assets" / "Tau"
    (tau / "Gone.cs.meta").write_text(meta_text(Path("Assets/Tau/Gone.cs"), folder=False))
    (tau / "New.cs").write_text("class New {}\n")
    (tau / "Readme.md.meta").write_text("fileFormatVersion: 2\n")
    (tau / "Core" / "Core.asmdef.meta").write_text((tau / "Core" / "Thing.cs.meta").read_text())
    capsys.readouterr()
    before = metas(project)
    assert run(project, "--check") == 1
    assert metas(project) == before
    assert capsys.readouterr().out.splitlines() == [
        "Assets/Tau/Gone.cs.meta: leftover: Gone.cs does not exist",
        "Assets/Tau/Core/Core.asmdef.meta: has the GUID of Assets/Tau/Core/Thing.cs",
        "Assets/Tau/New.cs.meta: missing",
        "Assets/Tau/Readme.md.meta: has no GUID of 32 hexadecimal digits",
        "unity_assets: 4 problems; to fix them, run `python tools/unity_assets.py`.",
    ]
    owner = (tau / "Core" / "Thing.cs.meta").read_text()
    assert run(project) == 0
    assert run(project, "--check") == 0
    assert (tau / "Core" / "Thing.cs.meta").read_text() == owner, "a stolen GUID goes back to where it belongs"
    assert guid_of(Path("Assets/Tau/Core/Core.asmdef")) in (tau / "Core" / "Core.asmdef.meta").read_text()


def test_what_unity_added_stays(project: Path) -> None:
    meta = project / "Assets" / "Tau" / "Models" / "Net.onnx.meta"
    meta.write_text("fileFormatVersion: 2\nguid: 0123456789abcdef0123456789abcdef\nScriptedImporter:\n  script: {}\n")
    before = meta.read_bytes()
    assert run(project) == 0
    assert meta.read_bytes() == before


def test_guids_follow_from_the_path_alone() -> None:
    first, second = guid_of(Path("Assets/Tau/A.cs")), guid_of(Path("Assets/Tau/B.cs"))
    assert first == "0689455e283bdfc24dc8be0f2a7b8547"
    assert first != second
    assert re.fullmatch("[0-9a-f]{32}", second)


@pytest.mark.parametrize(
    ("name", "folder", "importer"),
    [
        ("Assets/A.cs", False, "MonoImporter:"),
        ("Assets/A.asmdef", False, "AssemblyDefinitionImporter:"),
        ("Assets/A.json", False, "TextScriptImporter:"),
        ("Assets/A.md", False, "TextScriptImporter:"),
        ("Assets/A.tau", False, "DefaultImporter:"),
        ("Assets/A", True, "folderAsset: yes\nDefaultImporter:"),
        ("Assets/A.cs", True, "folderAsset: yes\nDefaultImporter:"),
    ],
)
def test_each_kind_has_its_importer(name: str, folder: bool, importer: str) -> None:
    text = meta_text(Path(name), folder)
    head = f"fileFormatVersion: 2\nguid: {guid_of(Path(name))}\n"
    assert text.startswith(head + importer + "\n  externalObjects: {}\n")
    assert text.endswith("\n  assetBundleVariant: \n")
    model = Path("Assets/A.onnx")
    assert meta_text(model, folder=False) == f"fileFormatVersion: 2\nguid: {guid_of(model)}\n"


@pytest.mark.parametrize("name", [".git", "Notes~", "CVS", "a.tmp"])
def test_what_unity_ignores_is_ignored(name: str) -> None:
    assert hidden(name)
    assert not hidden("Notes")


def test_mistakes_are_sentences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "nowhere") == 2
    assert "is not a Unity project" in capsys.readouterr().err
