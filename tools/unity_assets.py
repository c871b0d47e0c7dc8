"""Write the Unity project's generated files: a `.meta` file for every asset, also in the packages inside the project.

Run it in the checkout with Python 3.11 or later; nothing else needs to be installed::

    python tools/unity_assets.py            # write missing files, remove leftover ones
    python tools/unity_assets.py --check    # only list changes; exit code 1 if there are any

A GUID depends on the asset's path inside the project, so every checkout has the same ones and references between assets
stay valid. An existing `.meta` file keeps its GUID and everything that Unity has added to it.
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
    ".onnx": "",  # Unity writes the package's importer and its settings at the first import
}


class AssetError(Exception):
    """The files cannot be written; the text says what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem."""

    path: Path
    """Relative to the project."""
    wrong: str
    """Description for `--check`."""
    done: str
    """Description after the fix."""
    content: bytes | None
    """Correct content of the file; None if the file must be removed."""


def guid_of(path: Path) -> str:
    """The GUID of an asset: 32 hexadecimal digits, derived from its path inside the project."""
    return hashlib.sha256(f"tau-trainer/{path.as_posix()}".encode()).hexdigest()[:32]


def meta_text(path: Path, folder: bool) -> str:
    """The `.meta` file of one asset.

    Args:
        path: path of the asset, relative to the project.
        folder: whether it is a folder.
    """
    head = f"fileFormatVersion: 2\nguid: {guid_of(path)}\n"
    if folder:
        return head + "folderAsset: yes\nDefaultImporter:\n" + _PLAIN
    if path.name == "package.json":
        return head + "PackageManifestImporter:\n" + _PLAIN
    return head + _IMPORTERS.get(path.suffix.lower(), "DefaultImporter:\n" + _PLAIN)


def hidden(name: str) -> bool:
    """Whether Unity ignores a file or folder of this name."""
    return name.startswith(".") or name.endswith("~") or name.lower() == "cvs" or name.lower().endswith(".tmp")


def assets(project: Path) -> list[Path]:
    """Every file and folder that Unity imports, except `.meta` files, in the order of their paths."""
    return sorted(path for path in _walk_all(project) if path.suffix != ".meta")


def findings(project: Path) -> list[Finding]:
    """Missing, leftover or wrong files, in the order in which they can be fixed.

    Raises:
        AssetError: the folder is not a Unity project.
    """
    if not (project / "Assets").is_dir():
        raise AssetError(f"{project} is not a Unity project (no folder Assets in it): name one with --project.")
    return [*_left_over(project), *_metas(project)]


def put_right(project: Path, finding: Finding) -> None:
    """Writes or removes the file of one finding; files are written atomically."""
    target = project / finding.path
    if finding.content is None:
        target.unlink()
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(target.name + ".tmp")
    unfinished.write_bytes(finding.content)
    os.replace(unfinished, target)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code: 1 if `--check` found something, 2 for an error."""
    parser = argparse.ArgumentParser(
        prog="unity_assets", description="Writes the Unity project's missing .meta files, removes those left over."
    )
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if something is wrong")
    parser.add_argument("--project", type=Path, default=PROJECT, metavar="DIR", help="the Unity project")
    options = parser.parse_args(arguments)
    try:
        return check(options.project) if options.check else fill(options.project)
    except (AssetError, OSError) as error:
        print(f"unity_assets: {error}", file=sys.stderr)
        return 2


def check(project: Path) -> int:
    """Prints all problems; returns 1 if there are any."""
    found = findings(project)
    for finding in found:
        print(f"{finding.path.as_posix()}: {finding.wrong}")
    if found:
        print(f"unity_assets: {len(found)} problems; to fix them, run `python tools/unity_assets.py`.")
        return 1
    print(f"unity_assets: {len(assets(project))} assets, no problems.")
    return 0


def fill(project: Path) -> int:
    """Fixes everything. A fix can reveal another problem, so this repeats until there is none."""
    changes = 0
    while found := findings(project):
        for finding in found:
            put_right(project, finding)
            print(f"{finding.path.as_posix()}: {finding.done}")
        changes += len(found)
    print(f"unity_assets: {len(assets(project))} assets, {changes} changes.")
    return 0


def _left_over(project: Path) -> Iterator[Finding]:
    for meta in sorted(path for path in _walk_all(project) if path.suffix == ".meta"):
        if not meta.with_suffix("").exists():
            path = meta.relative_to(project)
            yield Finding(path, f"leftover: {path.stem} does not exist", "removed", None)


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
            yield Finding(meta, "has no GUID of 32 hexadecimal digits", "rewritten", content)
            continue
        # If two assets have the same GUID, the one whose path gives that GUID keeps it.
        other = owners.get(guid[1])
        if other is None or guid[1] == guid_of(path):
            owners[guid[1]] = path
        if other is not None:
            loser, owner = (other, path) if owners[guid[1]] == path else (path, other)
            text = meta_text(loser, (project / loser).is_dir())
            loser_meta = loser.with_name(loser.name + ".meta")
            yield Finding(loser_meta, f"has the GUID of {owner.as_posix()}", "rewritten", text.encode())


def _walk_all(project: Path) -> Iterator[Path]:
    for root in (project / "Assets", *(file.parent for file in (project / "Packages").glob("*/package.json"))):
        yield from _walk(root)


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if hidden(path.name):
            continue
        yield path
        if path.is_dir():
            yield from _walk(path)


if __name__ == "__main__":
    sys.exit(main())
