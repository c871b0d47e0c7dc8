"""Finds the checkpoints in a folder, with their names and their order."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tau_trainer.files import file_name, parse_json, safe_name

Manifest = dict[str, Any]
"""Parsed ``manifest.json``."""

_FOLDER_NAME = re.compile(r"(?P<name>.+)-(?P<step>\d+)(?:\.(?P<revision>\d+))?")


_EARLIER = 10**15
"""Subtracted to number the checkpoint sets of versions without checkpoint set numbers below 0, in their order."""


class SetId(NamedTuple):
    """The checkpoint set of a checkpoint: see :mod:`.checkpoint_sets`."""

    number: int
    """Number of the checkpoint set in the run."""
    names: tuple[str, ...]
    """File names of the policies in the checkpoint set; empty if unknown, in checkpoints of earlier versions."""


ALONE = SetId(0, ())


@dataclass(frozen=True, order=True)
class Entry:
    """A folder that looks like a checkpoint. Entries sort in the order of writing."""

    serial: int
    """Number of the save of this name; 0 if the manifest cannot be read."""
    step: int
    """From the folder's name."""
    revision: int
    """1, or more if the same step was saved again."""
    path: Path
    set_id: SetId = field(compare=False)
    name: str | None = field(compare=False)
    """Name of the behavior or learner; None if the manifest cannot be read."""

    @property
    def file(self) -> str:
        """Name of the folder without step and revision."""
        return self.path.name.rpartition("-")[0]


def scan(folder: Path, name: str) -> list[Entry]:
    """All checkpoints of ``name``, oldest first; those with unreadable manifests come first.

    In earlier versions, several names could share a file name, so the name in the manifest decides.
    """
    files = {file_name(name), safe_name(name)}
    return sorted(entry for entry in _entries(folder, files) if entry.name in (name, None))


def learner_names(folder: Path) -> list[str]:
    """Sorted names of the checkpoints in ``folder``; the file name if none of its manifests can be read."""
    found = _entries(folder)
    known = {entry.file for entry in found if entry.name is not None}
    return sorted({entry.name or entry.file for entry in found if entry.name is not None or entry.file not in known})


def _entries(folder: Path, files: Container[str] | None = None) -> list[Entry]:
    """Folders that look like checkpoints; with ``files``: only these file names."""
    entries = []
    for path in folder.iterdir() if folder.is_dir() else ():
        parts = _FOLDER_NAME.fullmatch(path.name)
        if parts is None or parts["name"].startswith(".") or not path.is_dir():
            continue
        if files is None or parts["name"] in files:
            name, serial, set_id = _read(path)
            entries.append(Entry(serial, int(parts["step"]), int(parts["revision"] or 1), path, set_id, name))
    return entries


def free_path(folder: Path, name: str, step: int) -> Path:
    """``<name>-<step>``, or the next ``<name>-<step>.<revision>``: a folder cannot be renamed onto another."""
    path, revision = folder / f"{file_name(name)}-{step}", 1
    while path.exists():
        revision += 1
        path = folder / f"{file_name(name)}-{step}.{revision}"
    return path


def digest_of(manifest: Manifest) -> str:
    """SHA-256 of a manifest without its ``digest``, independent of indentation and order of keys."""
    content = {key: value for key, value in manifest.items() if key != "digest"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def set_id_of(head: Manifest) -> SetId:
    """The checkpoint set of a parsed manifest."""
    set_id = head.get("moment")
    if set_id is not None:
        return SetId(int(set_id["number"]), tuple(set_id["of"]))
    content = head["content"]
    return SetId(int(content.get("steps", content.get("generation", 0))) - _EARLIER, ())


def _read(path: Path) -> tuple[str | None, int, SetId]:
    """A checkpoint's name, serial number and set; None, 0 and the lowest set if the manifest is unreadable."""
    try:
        head = parse_json((path / "manifest.json").read_bytes())
        name, serial, set_id = head["name"], head["serial"], set_id_of(head)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None, 0, SetId(-_EARLIER, ())
    if not isinstance(name, str) or not isinstance(serial, int):
        return None, 0, set_id
    return name, serial, set_id
