"""Checkpoints that are either complete or absent.

A checkpoint is a folder ``<name>-<step>`` with ``tensors.safetensors`` (weights, optimizer checkpoint sets, statistics)
and ``manifest.json`` (step, creation time, hash and size of the tensor file, name, shape and type of every tensor, and
the writer's own counters, schedules and random-number states). It is written under another name, flushed to the
disk, and renamed. A process that dies at any checkpoint set leaves the old checkpoints and at most a hidden folder,
which the next save deletes. Loading compares every hash; nothing is ever unpickled.

Only one process may write to a folder at a time; its threads save under different names.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import re
import shutil
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError, NonFiniteError, TauError
from tau_trainer.files import file_name, parse_json, plain, reason, rename, sync_folder, write_synced
from tau_trainer.runs import tensors as tensor_file
from tau_trainer.runs.checkpoint_index import ALONE, Manifest, SetId, digest_of, free_path, scan, set_id_of

FORMAT = "tau-trainer-checkpoint"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
TENSORS = "tensors.safetensors"

_FIELDS = {"name": str, "step": int, "created": str, "files": dict, "tensors": dict, "content": dict}


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint, read and verified."""

    path: Path
    """The checkpoint's folder."""
    name: str
    """Name of the behavior or learner."""
    step: int
    """Decisions at the time of writing."""
    created: str
    """Time of writing, ISO 8601 with time zone."""
    tensors: dict[str, NDArray[Any]]
    """Tensors by name."""
    manifest: dict[str, Any]
    """Data that the writer stored in addition to the tensors."""
    set_id: SetId = ALONE
    """The checkpoint set, with the policies that were saved together."""


@dataclass(frozen=True)
class Latest:
    """The newest complete checkpoint, and the problems of newer ones."""

    checkpoint: Checkpoint | None
    """None if there is no complete one."""
    warnings: tuple[str, ...]
    """One sentence for each skipped checkpoint."""


def save_checkpoint(
    folder: Path,
    step: int,
    tensors: Arrays,
    manifest: Mapping[str, object],
    keep: int | None,
    *,
    name: str = "checkpoint",
    set_id: SetId | None = None,
) -> Path:
    """Writes ``<folder>/<name>-<step>`` and removes the oldest checkpoints if there are more than ``keep``.

    The tensors are copied at the start of the call, so training may change them afterwards. A second checkpoint of the
    same step replaces the first once it is complete (as ``<name>-<step>.2``). The new checkpoint is never removed.

    Args:
        folder: all checkpoints of a run; created if missing.
        step: decisions so far, at least 0.
        tensors: by name.
        manifest: all other data, in JSON types.
        keep: number of checkpoints of this name to keep; 0 or less keeps all. None: the caller calls :func:`retire`.
        name: behavior or learner.
        set_id: the checkpoint set, with the policies that are saved together; None: this checkpoint only.

    Returns:
        The checkpoint's folder.

    Raises:
        NonFiniteError: a tensor or number is NaN or infinite; nothing is written.
        CheckpointError: the checkpoint cannot be written; older checkpoints are not changed.
    """
    if step < 0:
        raise CheckpointError(f"Cannot save '{name}' at step {step}; steps count from 0.")
    data, table = tensor_file.to_safetensors(tensors, name)
    content = _plain(manifest, name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _staging(folder, name) as staging:
            entries = scan(folder, name)
            serial = 1 + max((entry.serial for entry in entries), default=0)
            facts: Manifest = {"name": name, "step": step, "serial": serial}
            head = _manifest(facts, data, {"tensors": table, "content": content}, set_id)
            write_synced(staging / TENSORS, data)
            write_synced(staging / MANIFEST, json.dumps(head, indent=1, allow_nan=False).encode())
            sync_folder(staging)
            path = free_path(folder, name, step)
            rename(staging, path)
        sync_folder(folder)
    except OSError as error:
        raise CheckpointError(
            f"Cannot save checkpoint '{file_name(name)}-{step}' in '{folder}' ({reason(error)}); "
            "free some space or choose another --results-dir."
        ) from error
    if keep is not None:
        retire(folder, name, path, keep)
    return path


def load_checkpoint(path: Path) -> Checkpoint:
    """Reads a checkpoint and checks that nothing is missing or changed.

    Raises:
        CheckpointError: the checkpoint is missing, damaged, or has a newer format; the message says what to do.
    """
    head = read_manifest(path)
    data = _read(path / TENSORS)
    expected = head["files"].get(TENSORS, {})
    if len(data) != expected.get("bytes"):
        raise _damaged(path, f"'{TENSORS}' has {len(data)} bytes instead of {expected.get('bytes')}")
    if hashlib.sha256(data).hexdigest() != expected.get("sha256"):
        raise _damaged(path, f"the content of '{TENSORS}' has changed")
    try:
        tensors = tensor_file.from_safetensors(data)
    except Exception as error:  # the reader's exceptions have no common base
        raise _damaged(path, f"'{TENSORS}' cannot be read: {error}") from error
    if tensor_file.table_of(tensors) != head["tensors"]:
        raise _damaged(path, f"'{TENSORS}' does not hold the tensors that '{MANIFEST}' lists")
    return Checkpoint(path, head["name"], head["step"], head["created"], tensors, head["content"], set_id_of(head))


def latest_checkpoint(
    folder: Path,
    name: str = "checkpoint",
    *,
    passed: Collection[int] = (),
) -> Latest:
    """The last complete checkpoint of ``name``.

    Damaged ones are skipped with a warning; those of the checkpoint sets in ``passed`` are skipped without one.
    """
    warnings: list[str] = []
    entries = [entry for entry in scan(folder, name) if entry.set_id.number not in passed]
    unreadable = [entry for entry in entries if entry.serial == 0]  # warn about these, although their age is unknown
    for entry in (*unreadable, *reversed(entries[len(unreadable) :])):
        try:
            return Latest(load_checkpoint(entry.path), tuple(warnings))
        except CheckpointError as error:
            warnings.append(str(error))
    return Latest(None, tuple(warnings))


def _manifest(facts: Manifest, data: bytes, described: Manifest, set_id: SetId | None) -> Manifest:
    head: Manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        **facts,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        "files": {TENSORS: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}},
        **described,
    }
    if set_id is not None:
        head["moment"] = {"number": set_id.number, "of": list(set_id.names)}
    return {**head, "digest": digest_of(head)}


def read_manifest(path: Path) -> Manifest:
    """A checkpoint's manifest, without reading its tensors. Raises CheckpointError like :func:`load_checkpoint`."""
    if not path.is_dir():
        raise CheckpointError(f"There is no checkpoint '{path}'; check its folder for existing ones.")
    try:
        head = parse_json(_read(path / MANIFEST))
    except ValueError as error:
        raise _damaged(path, f"'{MANIFEST}' is not JSON") from error
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise CheckpointError(f"'{path}' is not a checkpoint of Tau Trainer; name the folder of one.")
    if not isinstance(head.get("format_version"), int) or head["format_version"] > FORMAT_VERSION:
        raise CheckpointError(
            f"Checkpoint '{path}' has format version {head.get('format_version')} and this program reads up to "
            f"{FORMAT_VERSION}; update Tau Trainer."
        )
    fits = all(isinstance(head.get(key), kind) for key, kind in _FIELDS.items())
    if not fits or head.get("digest") != digest_of(head):
        raise _damaged(path, f"the content of '{MANIFEST}' has changed")
    return head


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise _damaged(path.parent, f"'{path.name}' is missing") from error
    except OSError as error:
        raise CheckpointError(f"Cannot read '{path}' ({reason(error)}); check that you may read it.") from error


def _damaged(path: Path, fault: str) -> CheckpointError:
    return CheckpointError(f"Checkpoint '{path}' is damaged ({fault}); use an earlier one.")


def _plain(manifest: Mapping[str, object], name: str) -> object:
    try:
        return plain(manifest, "manifest")
    except TauError as error:
        kind = NonFiniteError if isinstance(error, NonFiniteError) else CheckpointError
        raise kind(f"Cannot save a checkpoint of '{name}': {error}") from error


@contextlib.contextmanager
def _staging(folder: Path, name: str) -> Iterator[Path]:
    """A hidden folder to write to, deleted at the end unless it was renamed. First deletes those of dead processes."""
    hidden = re.compile(rf"\.{re.escape(file_name(name))}-[0-9a-f]{{32}}")
    for leftover in [path for path in folder.iterdir() if hidden.fullmatch(path.name)]:
        shutil.rmtree(leftover, ignore_errors=True)
    path = _hidden(folder, file_name(name))
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _hidden(folder: Path, file: str) -> Path:
    """A unique path that is not a checkpoint's."""
    return folder / f".{file}-{uuid.uuid4().hex}"


def retire(folder: Path, name: str, newest: Path, keep: int) -> None:
    """Removes checkpoints that ``newest`` replaces: others of its step, and the oldest if there are more than ``keep``.

    If one cannot be removed now, the next save tries again. ``keep``: 0 or less keeps all.
    """
    entries = scan(folder, name)
    step = next((entry.step for entry in entries if entry.path == newest), None)
    older = [entry for entry in entries if entry.path != newest]
    superseded = [entry for entry in older if entry.step == step]
    others = [entry for entry in older if entry.step != step]
    surplus = others[: max(0, len(others) + 1 - keep)] if keep > 0 else []
    for entry in (*superseded, *surplus):
        discard(entry.path)


def discard(path: Path) -> None:
    """Removes a checkpoint if that is possible now."""
    # Rename it first, so that a half-removed folder is never read as a checkpoint.
    parts = path.name.rpartition("-")
    retired = _hidden(path.parent, parts[0])
    with contextlib.suppress(OSError):
        rename(path, retired)
        shutil.rmtree(retired, ignore_errors=True)
