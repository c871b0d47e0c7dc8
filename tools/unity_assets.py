"""Fill the Unity project with what it needs beside sources: a `.meta` file for every asset.

Run from the checkout, with any Python from 3.11 on; nothing has to be installed::

    python tools/unity_assets.py            # write what is missing, remove what is left over
    python tools/unity_assets.py --check    # only say what would be written; exit code 1 if there is something

A GUID follows from the asset's path inside the project, so every checkout has the same ones and references between
assets hold. A `.meta` that is there already keeps its GUID, and whatever Unity has added to it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = ROOT / "unity_project"

_GUID = re.compile(r"^guid: ([0-9a-f]{32})$", re.MULTILINE)
_NAMELESS = "  userData: \n  assetBundleName: \n  assetBundleVariant: \n"
_PLAIN = "  externalObjects: {}\n" + _NAMELESS
_SCRIPT = (
    "MonoImporter:\n  externalObjects: {}\n  serializedVersion: 2\n  defaultReferences: []\n  executionOrder: 0\n"
    "  icon: {instanceID: 0}\n" + _NAMELESS
)
_IMPORTERS = {
    ".cs": _SCRIPT,
    ".asmdef": "AssemblyDefinitionImporter:\n" + _PLAIN,
    ".json": "TextScriptImporter:\n" + _PLAIN,
    ".md": "TextScriptImporter:\n" + _PLAIN,
    ".txt": "TextScriptImporter:\n" + _PLAIN,
    ".onnx": "",  # a package's importer: which one, and its settings, are written by Unity at the first import
}


class AssetError(Exception):
    """The project cannot be filled; the text says what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be."""

    path: Path
    """Inside the project."""
    wrong: str
    """What `--check` says."""
    done: str
    """What is said once it has been put right."""
    content: bytes | None
    """What belongs into the file; None where the file does not belong there."""


def guid_of(path: Path) -> str:
    """The GUID of an asset: 32 hexadecimal digits out of its path inside the project."""
    return hashlib.sha256(f"tau-trainer/{path.as_posix()}".encode()).hexdigest()[:32]


def meta_text(path: Path, folder: bool) -> str:
    """The `.meta` file of one asset.

    Args:
        path: of the asset, inside the project.
        folder: whether it is a folder.
    """
    head = f"fileFormatVersion: 2\nguid: {guid_of(path)}\n"
    if folder:
        return head + "folderAsset: yes\nDefaultImporter:\n" + _PLAIN
    return head + _IMPORTERS.get(path.suffix.lower(), "DefaultImporter:\n" + _PLAIN)


def hidden(name: str) -> bool:
    """Whether Unity takes no notice of a file or folder of this name."""
    return name.startswith(".") or name.endswith("~") or name.lower() == "cvs" or name.lower().endswith(".tmp")


def assets(project: Path) -> list[Path]:
    """Every file and folder under `Assets` that Unity imports, `.meta` files left out, in the order of their paths."""
    return sorted(path for path in _walk(project / "Assets") if path.suffix != ".meta")


def findings(project: Path) -> list[Finding]:
    """What is missing, left over or different, in the order in which it can be put right.

    Raises:
        AssetError: the project is not where it should be.
    """
    if not (project / "Assets").is_dir():
        raise AssetError(f"{project} is not a Unity project (no folder Assets in it): name one with --project.")
    return [*_left_over(project), *_metas(project)]


def put_right(project: Path, finding: Finding) -> None:
    """Writes or removes the file of one finding; a file is there whole or not at all."""
    target = project / finding.path
    if finding.content is None:
        target.unlink()
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(target.name + ".tmp")
    unfinished.write_bytes(finding.content)
    os.replace(unfinished, target)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code: 1 if `--check` found something, 2 for a mistake."""
    parser = argparse.ArgumentParser(
        prog="unity_assets", description="Writes the Unity project's missing .meta files, removes those left over."
    )
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if something is not right")
    parser.add_argument("--project", type=Path, default=PROJECT, metavar="DIR", help="the Unity project")
    options = parser.parse_args(arguments)
    try:
        return check(options.project) if options.check else fill(options.project)
    except (AssetError, OSError) as error:
        print(f"unity_assets: {error}", file=sys.stderr)
        return 2


def check(project: Path) -> int:
    """Says what is not right; returns 1 if there was something."""
    found = findings(project)
    for finding in found:
        print(f"{finding.path.as_posix()}: {finding.wrong}")
    if found:
        print(f"unity_assets: {len(found)} things to put right: run `python tools/unity_assets.py`.")
        return 1
    print(f"unity_assets: {len(assets(project))} assets, all as they should be.")
    return 0


def fill(project: Path) -> int:
    """Puts everything right. What is put right may bring up something else, so this looks until nothing is left."""
    changes = 0
    while found := findings(project):
        for finding in found:
            put_right(project, finding)
            print(f"{finding.path.as_posix()}: {finding.done}")
        changes += len(found)
    print(f"unity_assets: {len(assets(project))} assets, {changes} changes.")
    return 0


def _left_over(project: Path) -> Iterator[Finding]:
    for meta in sorted(path for path in _walk(project / "Assets") if path.suffix == ".meta"):
        if not meta.with_suffix("").exists():
            path = meta.relative_to(project)
            yield Finding(path, f"left over, there is no {path.stem}", "removed", None)


def _metas(project: Path) -> Iterator[Finding]:
    owners: dict[str, Path] = {}
    for asset in assets(project):
        path = asset.relative_to(project)
        meta = path.with_name(path.name + ".meta")
        content = meta_text(path, asset.is_dir()).encode()
        if not (project / meta).is_file():
            yield Finding(meta, "missing", "written", content)
            continue
        guid = _GUID.search((project / meta).read_text(encoding="utf-8", errors="replace"))
        if guid is None:
            yield Finding(meta, "has no GUID of 32 hexadecimal digits", "written anew", content)
            continue
        # Of two with one GUID, the one whose own it is by its path keeps it.
        other = owners.get(guid[1])
        if other is None or guid[1] == guid_of(path):
            owners[guid[1]] = path
        if other is not None:
            loser, owner = (other, path) if owners[guid[1]] == path else (path, other)
            text = meta_text(loser, (project / loser).is_dir())
            loser_meta = loser.with_name(loser.name + ".meta")
            yield Finding(loser_meta, f"has the GUID of {owner.as_posix()}", "written anew", text.encode())


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if hidden(path.name):
            continue
        yield path
        if path.is_dir():
            yield from _walk(path)


if __name__ == "__main__":
    sys.exit(main())
