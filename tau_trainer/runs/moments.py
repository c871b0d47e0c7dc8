"""Moments: checkpoints of several policies that are whole together, or count for nothing.

Policies that play together are written one after the other, so a process that dies or a disk that is full may leave a
moment of some without the others. Each checkpoint therefore names all of its moment. A run goes on from the newest of
which nothing is missing, and what is older is removed only once a newer one is whole.
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
from tau_trainer.runs.checkpoint_index import Mark, learner_names, scan
from tau_trainer.runs.checkpoints import Checkpoint, discard, latest_checkpoint, save_checkpoint


class Moment:
    """One that is being written: :meth:`write` every policy, then :func:`.checkpoints.retire` what is older.

    Args:
        folder: all checkpoints of the run.
        number: larger than that of any moment before; see :func:`last_number`.
        names: the policies whose checkpoints are this moment.
    """

    def __init__(self, folder: Path, number: int, names: Sequence[str]) -> None:
        self._folder, self._names = folder, names
        self._mark = Mark(number, tuple(map(file_name, names)))
        self._written: list[Path] = []

    def write(self, name: str, step: int, tensors: Arrays, manifest: Mapping[str, object]) -> Path:
        """A policy's checkpoint; nothing older is removed. Raises as :func:`.checkpoints.save_checkpoint`."""
        if not self._written:
            self._clear()
        path = save_checkpoint(self._folder, step, tensors, manifest, None, name=name, moment=self._mark)
        self._written.append(path)
        return path

    def give_up(self) -> None:
        """Remove what was written: something else of this moment could not be."""
        for path in self._written:
            discard(path)

    def _clear(self) -> None:
        """Remove what a process that died has left of moments that it did not finish: they would never be whole."""
        entries = {file_name(name): scan(self._folder, name) for name in self._names}
        newest = {
            # Nobody knows how new one is that cannot be read.
            name: max((entry.moment.number if entry.serial else math.inf for entry in of_name), default=-math.inf)
            for name, of_name in entries.items()
        }
        for entry in (entry for of_name in entries.values() for entry in of_name):
            if any(newest.get(other, math.inf) < entry.moment.number for other in entry.moment.names):
                discard(entry.path)


@dataclass(frozen=True)
class Whole:
    """What a run goes on from."""

    checkpoints: Mapping[str, Checkpoint]
    """By name, of the policies that were saved by then; none: no moment is whole."""
    passed: frozenset[int]
    """Moments that are newer, and of which something is missing."""
    warnings: tuple[str, ...]
    """What was wrong with newer checkpoints, a sentence each."""


def newest_moment(folder: Path, names: Sequence[str] | None = None) -> Whole:
    """The newest moment of which everything is whole, and of policies that save by themselves the newest of each.

    Args:
        folder: all checkpoints of a run.
        names: of these policies; None: of all.
    """
    wanted = learner_names(folder) if names is None else names
    # How the manifests of a moment name each other: as files, which earlier versions called otherwise.
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
        numbers = {file: checkpoint.moment.number for name, checkpoint in found.items() for file in files[name]}
        partial = {
            checkpoint.moment.number
            for checkpoint in found.values()
            if any(
                numbers.get(other, -math.inf) < checkpoint.moment.number
                for other in checkpoint.moment.names or everyone
            )
        }
        if not partial:
            break
        passed.add(max(partial))
    if not found and not any(checkpoint.moment.names for checkpoint in newest.values()):
        # Of an earlier version, which let each policy remove its own: better from several moments than from none.
        return Whole(newest, frozenset(), tuple(warnings))
    return Whole(found, frozenset(passed), tuple(warnings))


def last_number(folder: Path) -> int:
    """The number of the last moment that anything is there of, whole or not; 0: there is none."""
    return max((0, *(entry.moment.number for name in learner_names(folder) for entry in scan(folder, name))))


def write_model(run: Path, name: str, step: int, write: Callable[[Path], object]) -> None:
    """``<run>/<Name>/<Name>-<step>.onnx`` of a checkpoint, as ML-Agents has it; those of checkpoints that are gone go.

    ``write``: makes it there. Raises TauError where it cannot.
    """
    file = file_name(name)
    folder, kept = run / file, {f"{file}-{entry.step}.onnx" for entry in scan(run / "checkpoints", name)}
    for old in folder.glob(f"{glob.escape(file)}-*.onnx"):
        if old.name not in kept:
            with contextlib.suppress(OSError):
                old.unlink()
    write(folder / f"{file}-{step}.onnx")
