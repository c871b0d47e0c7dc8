"""Atomic file writes: each file is written under a temporary name, flushed to disk, then renamed."""

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
"""Suffix of a file that is being written. If one is found later, a process that died left it behind."""

_RENAME_ATTEMPTS = 8
_RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[\d¹²³]|lpt[\d¹²³])(\..*)?", re.IGNORECASE)
_OF_EVERY_RUN = re.compile(
    r"checkpoints|run_logs|(run|evaluation|status|mlflow|wandb)\.json|log\.jsonl|configuration\.yaml|report\.html"
    r"|readme\.md|learning_curve\.png|.*\.onnx",
    re.IGNORECASE,
)
"""File names that a run's folder reserves, including the models of other behaviors."""
_MARKED = re.compile(r"~[0-9a-f]{16}$", re.IGNORECASE)
"""Suffix of a file name that was derived from a behavior name that is not a valid file name."""
_MOST_BYTES = 191
"""Maximum length of a behavior's file name: with a step, suffixes and the temporary name it stays within 255."""


def atomic_write_text(path: Path, text: str) -> Path:
    r"""Writes ``text`` as UTF-8 with ``\n`` line ends; an old file stays until the new one is complete.

    Raises:
        TauError: the file cannot be written.
    """
    return atomic_write_bytes(path, text.encode("utf-8"))


def atomic_write_json(path: Path, value: object) -> Path:
    """Writes ``value`` as indented JSON; see :func:`plain` for the types that it accepts.

    Raises:
        NonFiniteError: NaN or infinity; the text names the key.
        TauError: the file cannot be written, or ``value`` contains something that JSON cannot represent.
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
    """Writes a new file and waits until it is on disk. Raises OSError, also if the file exists."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Waits until the names in a folder are on disk. Windows has no such call and needs none. Raises OSError."""
    if on_windows():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def on_windows() -> bool:
    """Whether this is Windows, where open files cannot be renamed and folders cannot be flushed."""
    return os.name == "nt"


def rename(source: Path, target: Path) -> None:
    """``os.replace`` that retries while a virus scanner or an indexer has the file open (Windows).

    Raises OSError. A folder can be renamed to a free name, but not onto an existing folder.
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
        value: the value to convert.
        where: its name, for errors.

    Raises:
        NonFiniteError: NaN or infinity, which JSON cannot hold.
        TauError: a value that JSON cannot represent, or a key that is not text.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not np.isfinite(value):
            raise NonFiniteError(f"'{where}' is {value}, which cannot be stored; find out how it came about.")
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
    """Parses JSON into plain values. Raises ValueError if ``data`` is not JSON or is nested too deeply."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def memory_bytes() -> int | None:
    """This machine's memory in bytes; None on Windows, which does not report it."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None


def safe_name(name: str) -> str:
    """``name`` as a file name that every operating system accepts: forbidden characters become ``_``."""
    text = re.sub(r'[<>:"/\\|?*\x00-\x1f]', "_", name).rstrip(". ")
    return f"_{text}" if not text or text.startswith(".") or _RESERVED.fullmatch(text) else text


def file_name(behavior: str) -> str:
    """The name for the files and folders of a behavior or of a learner, unique for each.

    A name that every operating system accepts stays unchanged. Any other name becomes its readable characters, ``~``,
    and the start of its SHA-256. So does a name that a run's folder reserves (``checkpoints``, ``A.onnx``).
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
    """Two behaviors that would share a file on Windows or macOS, such as ``agent`` and ``Agent``; else None.

    ``built``: returns further names derived from a behavior's name, each with its own files.
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
    """The operating system's own description of an error."""
    return error.strerror or str(error) or type(error).__name__
