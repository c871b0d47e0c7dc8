"""Where Unity editors are looked for on each system, and which of them is taken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools._bootstrap.progress import SetupError
from tools._unity.editors import VARIABLE, Machine, Version, Wanted, find_editor

WANTED = Wanted(Version((6000, 0, 61), "f", 1), "5b0d1e55c02c")


def install(machine: Machine, folder: Path, version: str) -> Path:
    program = machine.program(folder / version)
    program.parent.mkdir(parents=True, exist_ok=True)
    program.touch()
    return program


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine("linux", tmp_path, {})


@pytest.fixture
def hub(machine: Machine) -> Path:
    return machine.home / "Unity" / "Hub" / "Editor"


def test_versions_are_ordered_as_they_came_out() -> None:
    texts = ["2023.2.20f1", "6000.0.0a3", "6000.0.0b11", "6000.0.9f1", "6000.0.9f2", "6000.0.61f1", "6000.1.0f1"]
    versions = [Version.find(text) for text in texts]
    assert [str(version) for version in versions] == texts
    whole = [version for version in versions if version]
    whole.reverse()
    assert [str(version) for version in sorted(whole)] == texts
    assert Version.find("6000.0") is None
    assert whole[3].stream == (6000, 0)


def test_reads_the_projects_version(tmp_path: Path) -> None:
    (tmp_path / "ProjectSettings").mkdir()
    file = tmp_path / "ProjectSettings" / "ProjectVersion.txt"
    file.write_text("m_EditorVersion: 6000.0.61f1\nm_EditorVersionWithRevision: 6000.0.61f1 (5b0d1e55c02c)\n")
    assert Wanted.of(tmp_path) == WANTED
    file.write_text("m_EditorVersion: 2023.2.20f1\n")
    assert Wanted.of(tmp_path) == Wanted(Version((2023, 2, 20), "f", 1), None)
    file.write_text("nothing\n")
    with pytest.raises(SetupError, match="names no version of Unity"):
        Wanted.of(tmp_path)


def test_the_newest_of_the_stream_is_taken_with_a_warning_where_the_exact_version_is_missing(
    machine: Machine, hub: Path
) -> None:
    install(machine, hub, "6000.0.9f1")
    newest = install(machine, hub, "6000.0.70f1")
    install(machine, hub, "6000.1.5f1")
    found = find_editor(WANTED, None, machine)
    assert found.program == newest
    assert found.warning is not None
    assert "6000.0.70f1 is used" in found.warning
    exact = install(machine, hub, "6000.0.61f1")
    found = find_editor(WANTED, None, machine)
    assert (found.program, found.warning) == (exact, None)


def test_none_is_a_sentence_with_places_versions_and_a_link(machine: Machine, hub: Path) -> None:
    install(machine, hub, "2022.3.62f1")
    install(machine, hub, "6000.1.5f1")
    (hub / "6000.0.61f1").mkdir()  # a folder without an editor in it
    with pytest.raises(SetupError) as error:
        find_editor(WANTED, None, machine)
    text = str(error.value)
    assert text.startswith(f"Unity 6000.0.61f1 was not found in {hub}, ")
    assert "(there: 2022.3.62f1, 6000.1.5f1)" in text
    assert "unityhub://6000.0.61f1/5b0d1e55c02c" in text
    assert "--editor PATH or the environment variable UNITY_EDITOR" in text


@pytest.mark.parametrize(
    ("platform", "settings", "inside"),
    [
        ("linux", (".config", "UnityHub"), ("Editor", "Unity")),
        ("darwin", ("Library", "Application Support", "UnityHub"), ("Unity.app", "Contents", "MacOS", "Unity")),
        ("win32", ("AppData", "Roaming", "UnityHub"), ("Editor", "Unity.exe")),
    ],
)
def test_the_folder_that_was_chosen_in_the_hub_counts(
    platform: str, settings: tuple[str, ...], inside: tuple[str, ...], tmp_path: Path
) -> None:
    machine = Machine(platform, tmp_path, {})
    chosen = tmp_path / "big disk"
    folder = tmp_path.joinpath(*settings)
    folder.mkdir(parents=True)
    (folder / "secondaryInstallPath.json").write_text(json.dumps(str(chosen)))
    install(machine, chosen, "6000.0.61f1")
    assert find_editor(WANTED, None, machine).program == chosen.joinpath("6000.0.61f1", *inside)


@pytest.mark.parametrize("content", ["", '""', "{}", "not json"])
def test_a_useless_choice_is_passed_over(content: str, machine: Machine, hub: Path) -> None:
    machine.hub_settings().mkdir(parents=True)
    (machine.hub_settings() / "secondaryInstallPath.json").write_text(content)
    assert machine.hub_folders() == [hub, Path("/opt/unity/editors")]
    home = machine.home
    windows = Machine("win32", home, {"PROGRAMFILES": str(home / "PF"), "APPDATA": str(home / "AD")})
    assert windows.hub_folders() == [home / "PF" / "Unity" / "Hub" / "Editor"]
    assert windows.hub_settings() == home / "AD" / "UnityHub"


def test_the_flag_wins_over_the_variable_and_both_over_the_hub(machine: Machine, hub: Path, tmp_path: Path) -> None:
    install(machine, hub, "6000.0.61f1")
    by_flag = install(machine, tmp_path / "flag", "6000.0.61f1")
    by_variable = install(machine, tmp_path / "variable", "6000.0.61f1")
    known = Machine("linux", tmp_path, {VARIABLE: str(by_variable.parents[1])})  # the installation's folder
    assert find_editor(WANTED, None, known).program == by_variable
    assert find_editor(WANTED, str(by_flag), known).program == by_flag
    with pytest.raises(SetupError, match=r"--editor names .*nowhere, where there is no Unity editor: give the program"):
        find_editor(WANTED, str(tmp_path / "nowhere"), known)
    known = Machine("linux", tmp_path, {VARIABLE: str(tmp_path / "nothing")})
    with pytest.raises(SetupError, match="UNITY_EDITOR names"):
        find_editor(WANTED, None, known)


def test_a_bundle_may_be_named_on_a_mac(tmp_path: Path) -> None:
    machine = Machine("darwin", tmp_path, {})
    program = install(machine, tmp_path / "Applications", "6000.0.61f1")
    assert find_editor(WANTED, str(program.parents[2]), machine).program == program
    assert find_editor(WANTED, str(program.parents[3]), machine).program == program


def test_a_newer_editor_and_one_without_a_version_are_taken_but_no_older_one(machine: Machine, tmp_path: Path) -> None:
    newer = find_editor(WANTED, str(install(machine, tmp_path / "new", "6000.3.1f1")), machine)
    assert newer.warning is not None
    plain = tmp_path / "opt" / "Unity"
    plain.parent.mkdir()
    plain.touch()
    assert find_editor(WANTED, str(plain), machine).version is None
    old = install(machine, tmp_path / "old", "2022.3.62f1")
    older = r"is Unity 2022\.3\.62f1, older than the project's version, Unity 6000\.0\.61f1"
    with pytest.raises(SetupError, match=older):
        find_editor(WANTED, str(old), machine)
