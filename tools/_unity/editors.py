"""Finds the Unity editor for a project: named by the user, or in Unity Hub's folders."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools._bootstrap.progress import SetupError

VARIABLE = "UNITY_EDITOR"
"""The environment variable with the path of an editor, or of its installation's folder."""
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)([abfp])(\d+)")


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A version of Unity, such as `6000.0.61f1`; later versions are greater."""

    numbers: tuple[int, int, int]
    stage: str
    """`a`, `b`, `f` or `p`: alpha, beta, final, patch."""
    revision: int

    @staticmethod
    def find(text: str) -> Version | None:
        """The first version in a text, or None."""
        match = _VERSION.search(text)
        if match is None:
            return None
        return Version((int(match[1]), int(match[2]), int(match[3])), match[4], int(match[5]))

    @property
    def stream(self) -> tuple[int, int]:
        """The stream, `6000.0`; its versions differ only in fixes."""
        return self.numbers[:2]

    def __str__(self) -> str:
        major, minor, patch = self.numbers
        return f"{major}.{minor}.{patch}{self.stage}{self.revision}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The version that a project was last saved with."""

    version: Version
    changeset: str | None
    """Unity's ID of this version's source, for links to Unity Hub."""

    @staticmethod
    def of(project: Path) -> Wanted:
        """Reads `ProjectSettings/ProjectVersion.txt`.

        Raises:
            SetupError: the file does not exist, or has no version.
        """
        path = project / "ProjectSettings" / "ProjectVersion.txt"
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise SetupError(f"{project} is not a Unity project: {path} cannot be read ({error.strerror}).") from error
        version = Version.find(text)
        if version is None:
            raise SetupError(f"{path} names no version of Unity: it needs a line like `m_EditorVersion: 6000.0.61f1`.")
        changeset = re.search(r"^m_EditorVersionWithRevision:.*\(([0-9a-f]+)\)", text, re.MULTILINE)
        return Wanted(version, changeset[1] if changeset else None)

    def remedy(self) -> str:
        """How to get this version, as a part of a sentence."""
        link = f"unityhub://{self.version}/{self.changeset}" if self.changeset else "https://unity.com/download"
        return (
            f"install Unity {self.version} with Unity Hub ({link}; all versions are on "
            "https://unity.com/releases/editor/archive), or name an editor with --editor PATH or the "
            f"environment variable {VARIABLE}"
        )


@dataclass(frozen=True, slots=True)
class Editor:
    """An installed editor."""

    program: Path
    version: Version | None
    """None if the path does not contain it."""
    warning: str | None = None
    """A warning about this choice for the user."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Properties of the machine that determine where editors are; replaced in tests."""

    platform: str = sys.platform
    home: Path = field(default_factory=Path.home)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def hub_settings(self) -> Path:
        """The folder of Unity Hub's settings."""
        if self.platform == "win32":
            return Path(self.environ.get("APPDATA", str(self.home / "AppData" / "Roaming"))) / "UnityHub"
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support" / "UnityHub"
        return Path(self.environ.get("XDG_CONFIG_HOME", str(self.home / ".config"))) / "UnityHub"

    def hub_folders(self) -> list[Path]:
        """The folders in which Unity Hub installs editors; the user's choice comes first."""
        if self.platform == "win32":
            usual = [Path(self.environ.get("PROGRAMFILES", r"C:\Program Files")) / "Unity" / "Hub" / "Editor"]
        elif self.platform == "darwin":
            usual = [Path("/Applications/Unity/Hub/Editor"), self.home / "Applications" / "Unity" / "Hub" / "Editor"]
        else:
            usual = [self.home / "Unity" / "Hub" / "Editor", Path("/opt/unity/editors")]
        try:
            chosen = json.loads((self.hub_settings() / "secondaryInstallPath.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            chosen = ""
        return [*([Path(chosen)] if isinstance(chosen, str) and chosen else []), *usual]

    def program(self, installation: Path) -> Path:
        """The editor's program inside an installation's folder."""
        if self.platform == "darwin":
            return installation / "Unity.app" / "Contents" / "MacOS" / "Unity"
        return installation / "Editor" / ("Unity.exe" if self.platform == "win32" else "Unity")

    def installed(self) -> Iterator[Editor]:
        """Every editor in Unity Hub's folders."""
        for folder in self.hub_folders():
            for installation in sorted(folder.iterdir()) if folder.is_dir() else []:
                version = Version.find(installation.name)
                if version is not None and self.program(installation).is_file():
                    yield Editor(self.program(installation), version)


def find_editor(wanted: Wanted, named: str | None, machine: Machine) -> Editor:
    """The editor to use: the named one, else the exact version, else the best of the same stream.

    Args:
        wanted: the project's version.
        named: value of `--editor`; None: use the environment variable.
        machine: the machine to search.

    Raises:
        SetupError: there is no editor, the named path is not one, or it is too old for the project.
    """
    said, by = (named, "--editor") if named else (machine.environ.get(VARIABLE), VARIABLE)
    if said:
        return _checked(_named(Path(said).expanduser(), by, machine), wanted)
    editors = list(machine.installed())
    for editor in editors:
        if editor.version == wanted.version:
            return editor
    near = [editor for editor in editors if editor.version and editor.version.stream == wanted.version.stream]
    if not near:
        raise SetupError(_nothing(wanted, editors, machine))
    return _checked(max(near, key=lambda editor: editor.version or wanted.version), wanted)


def _named(path: Path, by: str, machine: Machine) -> Editor:
    inside = [path, path / "Contents" / "MacOS" / "Unity", machine.program(path)]
    for candidate in inside:
        if candidate.is_file():
            return Editor(candidate, _version_of(candidate))
    raise SetupError(
        f"{by} names {path}, where there is no Unity editor: give the program ({machine.program(Path('...'))}) or the "
        "folder of its installation."
    )


def _version_of(program: Path) -> Version | None:
    parts = (Version.find(part) for part in reversed(program.absolute().parts[:-1]))
    return next((version for version in parts if version), None)


def _checked(editor: Editor, wanted: Wanted) -> Editor:
    version = editor.version
    if version is None or version == wanted.version:
        return editor
    if version.stream < wanted.version.stream:
        raise SetupError(
            f"{editor.program} is Unity {version}, older than the project's version, Unity {wanted.version}: "
            f"{wanted.remedy()}; the project's README says how to go back to Unity 2023.2."
        )
    return Editor(
        editor.program,
        version,
        f"the project has Unity {wanted.version}, but {version} is used: Unity may change files of the project.",
    )


def _nothing(wanted: Wanted, editors: list[Editor], machine: Machine) -> str:
    places = ", ".join(str(folder) for folder in machine.hub_folders())
    found = ", ".join(str(editor.version) for editor in editors) or "no editor at all"
    return f"Unity {wanted.version} was not found in {places} (there: {found}): {wanted.remedy()}."
