"""Which checkpoints a folder holds: their names and their order."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tau_trainer.files import parse_json, safe_name

Manifest = dict[str, Any]
"""Parsed ``manifest.json``."""

_FOLDER_NAME = re.compile(r"(?P<name>.+)-(?P<step>\d+)(?:\.(?P<revision>\d+))?")


_EARLIER = 10**15
"""Moments of versions that did not count them are numbered below 0, in their order."""


class Mark(NamedTuple):
    """The moment that a checkpoint belongs to: see :mod:`.moments`."""

    number: int
    """Counts the moments of a run."""
    names: tuple[str, ...]
    """Whose checkpoints, as file names, are that moment; empty: it does not say, for it is of an earlier version."""


ALONE = Mark(0, ())


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
    moment: Mark = field(compare=False)


def scan(folder: Path, name: str) -> list[Entry]:
    """All checkpoints of ``name``, oldest first; those whose manifest cannot be read come before all others."""
    entries = []
    for path in folder.iterdir() if folder.is_dir() else ():
        parts = _FOLDER_NAME.fullmatch(path.name)
        if parts is None or parts["name"] != safe_name(name) or not path.is_dir():
            continue
        serial, moment = _read(path)
        entries.append(Entry(serial, int(parts["step"]), int(parts["revision"] or 1), path, moment))
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


def mark_of(head: Manifest) -> Mark:
    """Which moment a parsed manifest says that it is of."""
    moment = head.get("moment")
    if moment is not None:
        return Mark(int(moment["number"]), tuple(moment["of"]))
    content = head["content"]
    return Mark(int(content.get("steps", content.get("generation", 0))) - _EARLIER, ())


def _read(path: Path) -> tuple[int, Mark]:
    """A checkpoint's serial number and moment; 0 and the first of all where the manifest cannot be read."""
    try:
        head = parse_json((path / "manifest.json").read_bytes())
        serial, moment = head["serial"], mark_of(head)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0, Mark(-_EARLIER, ())
    return (serial if isinstance(serial, int) else 0), moment
