"""Files that are whole or absent: written beside their place, flushed to the disk, then renamed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
import unicodedata
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tau_trainer.errors import NonFiniteError, TauError

STAGED_SUFFIX = ".partial"
"""Ending of a file that is being written; one that is found later was left by a process that died."""

_RENAME_ATTEMPTS = 8
_RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[\d¹²³]|lpt[\d¹²³])(\..*)?", re.IGNORECASE)
_OF_EVERY_RUN = re.compile(
    r"checkpoints|run_logs|(run|evaluation|status|mlflow|wandb)\.json|log\.jsonl|configuration\.yaml|report\.html"
    r"|readme\.md|learning_curve\.png|.*\.onnx",
    re.IGNORECASE,
)
"""Names that a run's folder needs for itself, the models of other behaviors among them."""
_MARKED = re.compile(r"~[0-9a-f]{16}$", re.IGNORECASE)
"""The end of a file name that was made from a name that cannot be one."""
_MOST_BYTES = 191
"""Of a behavior's file name: with a step, endings and what a file is called while it is written, 255 at most."""


def atomic_write_text(path: Path, text: str) -> Path:
    r"""Writes ``text`` as UTF-8 with ``\n`` line ends; an old file stays until the new one is whole.

    Raises:
        TauError: the file cannot be written.
    """
    return atomic_write_bytes(path, text.encode("utf-8"))


def atomic_write_json(path: Path, value: object) -> Path:
    """Writes ``value`` as indented JSON; see :func:`plain` for what it may hold.

    Raises:
        NonFiniteError: NaN or infinity; the text names the key.
        TauError: the file cannot be written, or ``value`` holds something that JSON has no form for.
    """
    return atomic_write_text(path, json.dumps(plain(value, path.name), indent=2, allow_nan=False) + "\n")


def atomic_write_bytes(path: Path, data: bytes) -> Path:
    """Writes ``data``; the folder must exist.

    Raises:
        TauError: the file cannot be written.
    """
    staged = path.with_name(f".{path.name}.{uuid.uuid4().hex}{STAGED_SUFFIX}")
    try:
        write_synced(staged, data)
        rename(staged, path)
        sync_folder(path.parent)
    except OSError as error:
        raise TauError(f"Cannot write '{path}' ({reason(error)}); free some space or choose another folder.") from error
    finally:
        with contextlib.suppress(OSError):
            staged.unlink(missing_ok=True)
    return path


def write_synced(path: Path, data: bytes) -> None:
    """Writes a file that does not exist yet and waits until the disk has it. Raises OSError."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Waits until the disk knows the names in a folder. Windows has no such call and needs none. Raises OSError."""
    if on_windows():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def on_windows() -> bool:
    """Whether files that someone has open cannot be renamed, and folders cannot be flushed."""
    return os.name == "nt"


def rename(source: Path, target: Path) -> None:
    """``os.replace`` that outlasts a virus scanner or an indexer that holds the file for a moment (Windows).

    Raises OSError. A folder can be renamed to a name that is free, but never onto an existing folder.
    """
    for attempt in range(_RENAME_ATTEMPTS):
        try:
            os.replace(source, target)
        except PermissionError:
            if not on_windows() or attempt == _RENAME_ATTEMPTS - 1:
                raise
            time.sleep(0.01 * 2**attempt)
        else:
            return


def plain(value: object, where: str = "value") -> object:
    """``value`` as dicts with text keys, lists, text, numbers, booleans and None, ready for JSON.

    Numpy scalars and arrays become numbers and lists, paths become text, tuples become lists.

    Args:
        value: what to convert.
        where: its name, for errors.

    Raises:
        NonFiniteError: NaN or infinity, which JSON cannot hold.
        TauError: a value that has no such form, or a key that is not text.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not np.isfinite(value):
            raise NonFiniteError(f"'{where}' is {value}, which cannot be stored; find out where it became so.")
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        wrong = next((key for key in value if not isinstance(key, str)), None)
        if wrong is not None:
            raise TauError(f"'{where}' has the key {wrong!r}, which is not text and cannot be stored; make it text.")
        return {key: plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    raise TauError(f"'{where}' is a {type(value).__name__}, which cannot be stored as JSON; convert it first.")


def parse_json(data: str | bytes) -> Any:
    """``data`` as plain values. Raises ValueError: it is no JSON, or is nested too deeply."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def memory_bytes() -> int | None:
    """This machine's memory, where the system can say (not Windows)."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None


def safe_name(name: str) -> str:
    """``name`` as a file name that every operating system takes: forbidden characters become ``_``."""
    text = re.sub(r'[<>:"/\\|?*\x00-\x1f]', "_", name).rstrip(". ")
    return f"_{text}" if not text or text.startswith(".") or _RESERVED.fullmatch(text) else text


def file_name(behavior: str) -> str:
    """What the files and folders of a behavior, or of a learner, are called: a different name for each.

    A name that every operating system takes stays as it is. Any other one becomes readable characters, ``~``, and the
    start of its SHA-256. So does a name that a run's folder needs for itself (``checkpoints``, ``A.onnx``).
    """
    safe, data = safe_name(behavior), behavior.encode("utf-8", "surrogatepass")
    ours = _OF_EVERY_RUN.fullmatch(behavior) or _MARKED.search(behavior)
    if safe.encode("utf-8", "ignore") == data and len(data) <= _MOST_BYTES and not ours:
        return behavior
    readable = safe.encode("utf-8", "ignore")[: _MOST_BYTES - 17].decode("utf-8", "ignore")
    return f"{readable}~{hashlib.sha256(data).hexdigest()[:16]}"


def same_file(
    behaviors: Iterable[str], built: Callable[[str], Iterable[str]] = lambda behavior: ()
) -> tuple[str, str] | None:
    """Two behaviors with a file in common on Windows or macOS, such as ``agent`` and ``Agent``; else None.

    ``built``: further names that are built from a behavior's, each with files of its own.
    """
    owners: dict[str, str] = {}
    for behavior in behaviors:
        for name in (behavior, *built(behavior)):
            key = unicodedata.normalize("NFC", unicodedata.normalize("NFC", file_name(name)).casefold())
            owner = owners.setdefault(key, behavior)
            if owner != behavior:
                return owner, behavior
    return None


def reason(error: OSError) -> str:
    """What the operating system says, in its own words."""
    return error.strerror or str(error) or type(error).__name__
