"""Which checkpoints a folder holds: their names and their order."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tau_trainer.files import safe_name

Manifest = dict[str, Any]
"""Parsed ``manifest.json``."""

_FOLDER_NAME = re.compile(r"(?P<name>.+)-(?P<step>\d+)(?:\.(?P<revision>\d+))?")


@dataclass(frozen=True, order=True)
class Entry:
    """A folder that looks like a checkpoint; its order is the order of writing."""

    serial: int
    """Counts the saves of this name; 0 where the manifest cannot be read."""
    step: int
    """From the folder's name."""
    revision: int
    """1, or more where the same step was saved again."""
    path: Path


def scan(folder: Path, name: str) -> list[Entry]:
    """All checkpoints of ``name``, oldest first; those whose manifest cannot be read come before all others."""
    entries = []
    for path in folder.iterdir() if folder.is_dir() else ():
        parts = _FOLDER_NAME.fullmatch(path.name)
        if parts is None or parts["name"] != safe_name(name) or not path.is_dir():
            continue
        entries.append(Entry(_serial(path), int(parts["step"]), int(parts["revision"] or 1), path))
    return sorted(entries)


def learner_names(folder: Path) -> list[str]:
    """Names under which ``folder`` holds checkpoints, as file names, sorted; empty when there are none."""
    found = (_FOLDER_NAME.fullmatch(path.name) for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else ()
    return sorted({parts["name"] for parts in found if parts is not None and not parts["name"].startswith(".")})


def free_path(folder: Path, name: str, step: int) -> Path:
    """``<name>-<step>``, or the next ``<name>-<step>.<revision>``: a folder cannot be renamed onto another."""
    path, revision = folder / f"{safe_name(name)}-{step}", 1
    while path.exists():
        revision += 1
        path = folder / f"{safe_name(name)}-{step}.{revision}"
    return path


def digest_of(manifest: Manifest) -> str:
    """SHA-256 of a manifest without its own ``digest``, whatever its indentation and order of keys."""
    content = {key: value for key, value in manifest.items() if key != "digest"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _serial(path: Path) -> int:
    try:
        serial = json.loads((path / "manifest.json").read_bytes())["serial"]
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    return serial if isinstance(serial, int) else 0
