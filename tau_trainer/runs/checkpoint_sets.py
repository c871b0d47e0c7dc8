"""Checkpoint sets: checkpoints of several policies that count only if all of them are complete.

Policies that play together are written one at a time, so if a process dies or a disk is full, some checkpoints of a
checkpoint set may be missing. Each checkpoint therefore names all policies of its checkpoint set. A run resumes from
the newest complete checkpoint set, and older checkpoints are removed only once a newer checkpoint set is complete.
"""

from __future__ import annotations

import contextlib
import glob
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tau_trainer.columns import Arrays
from tau_trainer.files import file_name
from tau_trainer.runs.checkpoint_index import SetId, learner_names, scan
from tau_trainer.runs.checkpoints import Checkpoint, discard, latest_checkpoint, save_checkpoint


class CheckpointSet:
    """A checkpoint set to write: :meth:`write` every policy, then :func:`.checkpoints.retire` older checkpoints.

    Args:
        folder: all checkpoints of the run.
        number: larger than that of any earlier checkpoint set; see :func:`last_number`.
        names: the policies of this checkpoint set.
    """

    def __init__(self, folder: Path, number: int, names: Sequence[str]) -> None:
        self._folder, self._names = folder, names
        self._id = SetId(number, tuple(map(file_name, names)))
        self._written: list[Path] = []

    def write(self, name: str, step: int, tensors: Arrays, manifest: Mapping[str, object]) -> Path:
        """Write a policy's checkpoint without removing older ones. Raises like :func:`.checkpoints.save_checkpoint`."""
        if not self._written:
            self._clear()
        path = save_checkpoint(self._folder, step, tensors, manifest, None, name=name, set_id=self._id)
        self._written.append(path)
        return path

    def give_up(self) -> None:
        """Remove the checkpoints of this checkpoint set, because another one could not be written."""
        for path in self._written:
            discard(path)

    def _clear(self) -> None:
        """Remove incomplete checkpoint sets that a dead process has left, which can never be completed."""
        entries = {file_name(name): scan(self._folder, name) for name in self._names}
        newest = {
            # The age of an unreadable checkpoint is unknown.
            name: max((entry.set_id.number if entry.serial else math.inf for entry in of_name), default=-math.inf)
            for name, of_name in entries.items()
        }
        for entry in (entry for of_name in entries.values() for entry in of_name):
            if any(newest.get(other, math.inf) < entry.set_id.number for other in entry.set_id.names):
                discard(entry.path)


@dataclass(frozen=True)
class ResumePoint:
    """The checkpoints that a run resumes from."""

    checkpoints: Mapping[str, Checkpoint]
    """Checkpoints of the saved policies, by name; empty if no checkpoint set is complete."""
    passed: frozenset[int]
    """Newer checkpoint sets that are incomplete."""
    warnings: tuple[str, ...]
    """One sentence for each problem with newer checkpoints."""


def latest_set(folder: Path, names: Sequence[str] | None = None) -> ResumePoint:
    """The newest complete checkpoint set, and for policies that are saved on their own, the newest checkpoint of each.

    Args:
        folder: all checkpoints of a run.
        names: the policies to look for; None: all.
    """
    wanted = learner_names(folder) if names is None else names
    # The manifests of a checkpoint set refer to each other by file names, which were different in earlier versions.
    files = {name: {entry.file for entry in scan(folder, name)} or {file_name(name)} for name in wanted}
    everyone = [file for of_name in files.values() for file in of_name]
    passed: set[int] = set()
    warnings: dict[str, None] = {}
    newest: dict[str, Checkpoint] | None = None
    while True:
        found: dict[str, Checkpoint] = {}
        for name in wanted:
            latest = latest_checkpoint(folder, name, passed=passed)
            warnings |= dict.fromkeys(latest.warnings)
            if latest.checkpoint is not None:
                found[name] = latest.checkpoint
        newest = found if newest is None else newest
        numbers = {file: checkpoint.set_id.number for name, checkpoint in found.items() for file in files[name]}
        partial = {
            checkpoint.set_id.number
            for checkpoint in found.values()
            if any(
                numbers.get(other, -math.inf) < checkpoint.set_id.number
                for other in checkpoint.set_id.names or everyone
            )
        }
        if not partial:
            break
        passed.add(max(partial))
    if not found and not any(checkpoint.set_id.names for checkpoint in newest.values()):
        # An earlier version, where each policy removed its own checkpoints: several checkpoint sets are better than
        # none.
        return ResumePoint(newest, frozenset(), tuple(warnings))
    return ResumePoint(found, frozenset(passed), tuple(warnings))


def last_number(folder: Path) -> int:
    """The number of the last checkpoint set, complete or not; 0 if there is none."""
    return max((0, *(entry.set_id.number for name in learner_names(folder) for entry in scan(folder, name))))


def write_model(run: Path, name: str, step: int, write: Callable[[Path], object]) -> Path:
    """Write ``<run>/<Name>/<Name>-<step>.onnx`` of a checkpoint, as ML-Agents does; delete those of deleted ones.

    Returns its path.

    ``write``: writes the model to a path; raises TauError if it cannot.
    """
    file = file_name(name)
    folder = run / file
    kept = {f"{file}-{entry.step}.onnx" for entry in scan(run / "checkpoints", name)}
    for old in folder.glob(f"{glob.escape(file)}-*.onnx"):
        if old.name not in kept:
            with contextlib.suppress(OSError):
                old.unlink()
    write(model := folder / f"{file}-{step}.onnx")
    return model
