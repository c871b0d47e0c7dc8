"""Which checkpoints a folder holds: their names, their order, and the best one."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tau_trainer.errors import CheckpointError
from tau_trainer.files import atomic_write_json, safe_name

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


def mark_best(path: Path, score: float) -> None:
    """Remembers the checkpoint at ``path`` as the best of its name; it is kept from then on, its predecessor not.

    Args:
        path: the checkpoint's folder.
        score: why, for the reader of the file.

    Raises:
        CheckpointError: ``path`` is no checkpoint.
        NonFiniteError: ``score`` is NaN or infinite.
    """
    parts = _FOLDER_NAME.fullmatch(path.name)
    if parts is None or not path.is_dir():
        raise CheckpointError(f"There is no checkpoint '{path}' to be marked as best; save it first.")
    atomic_write_json(_best_file(path.parent, parts["name"]), {"checkpoint": path.name, "score": score})


def best_checkpoint(folder: Path, name: str) -> Path | None:
    """The checkpoint last given to :func:`mark_best`; None when there is none."""
    try:
        chosen = json.loads(_best_file(folder, safe_name(name)).read_bytes())["checkpoint"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    path = folder / Path(str(chosen)).name
    return path if path.is_dir() else None


def digest_of(manifest: Manifest) -> str:
    """SHA-256 of a manifest without its own ``digest``, whatever its indentation and order of keys."""
    content = {key: value for key, value in manifest.items() if key != "digest"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _best_file(folder: Path, safe: str) -> Path:
    return folder / f"{safe}-best.json"


def _serial(path: Path) -> int:
    try:
        serial = json.loads((path / "manifest.json").read_bytes())["serial"]
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    return serial if isinstance(serial, int) else 0
