"""``results/<run-id>/``: the folder with all files of one run, and the lock on it."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import re
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from tau_trainer.errors import RunExistsError, SettingsError, TauError
from tau_trainer.files import (
    STAGED_SUFFIX,
    atomic_write_bytes,
    atomic_write_json,
    atomic_write_text,
    file_name,
    reason,
    rename,
    safe_name,
)
from tau_trainer.settings import CheckpointSettings

__all__ = ["RunFolder", "atomic_write_bytes", "atomic_write_json", "atomic_write_text", "safe_name"]

_MARKS = ("configuration.yaml", "run.json", "checkpoints", "run_logs", "log.jsonl", "evaluation.json")
"""Files that identify a run's folder; ML-Agents also writes the first."""
_LOCK = ".lock"
_WINDOWS_TOO_LONG = 206
_HELD: dict[Path, RunFolder] = {}
"""The folders that this process has locked or is about to lock, by path."""
_KEPT: set[Path] = set()
"""Paths of folders that have been committed: see :meth:`RunFolder.commit`."""


class _Inside:
    """A path in a run's folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: RunFolder, kind: type[RunFolder]) -> Path:
        return folder.path / self._name


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run.

    :meth:`create` makes it before anything else is known to work. Call :meth:`commit` once the run has really started
    (only then is a run deleted that ``force`` replaces), or :meth:`discard` if it could not start (which restores the
    earlier state). It is locked until :meth:`release`; the lock of a dead process is free.
    """

    path: Path
    """``<results-dir>/<run-id>``."""
    resumed: bool = False
    """Whether the folder holds an earlier part of the same run."""
    replaced: Path | None = None
    """Path of the run to replace until :meth:`commit`."""
    made_results: Path | None = None
    """The topmost folder that did not exist before; None if the results folder existed."""
    kept: Mapping[Path, bytes] = field(default_factory=dict)
    """Earlier contents of a resumed run's files about itself."""
    lock: FileLock | None = None
    """Held while this process trains the run."""

    @classmethod
    def create(cls, results_dir: Path, run_id: str, *, resume: bool = False, force: bool = False) -> RunFolder:
        """Makes the folder of a new run, or opens the folder of a run to resume.

        Args:
            results_dir: parent of all runs; created if missing.
            run_id: the folder's name.
            resume: resume the existing run.
            force: replace the existing run.

        Raises:
            RunExistsError: the run exists, and neither ``resume`` nor ``force`` is given, or a process trains it now.
            SettingsError: the run-id is not a valid folder name, there is nothing to resume, the folder is not a run,
                or it cannot be created.
        """
        path = cls.check(results_dir, run_id, resume=resume, force=force)
        if resume:
            return cls._resume(path)
        try:
            return cls._make(path, force)
        except OSError as error:
            long = error.errno == errno.ENAMETOOLONG or getattr(error, "winerror", None) == _WINDOWS_TOO_LONG
            remedy = "give a shorter --run-id or --results-dir" if long else "choose another --results-dir"
            raise SettingsError(f"Cannot create the run's folder '{path}' ({reason(error)}); {remedy}.") from error

    @classmethod
    def look(cls, results_dir: Path, run_id: str) -> RunFolder:
        """The folder of a run to read, without a lock. Raises SettingsError if there is none."""
        path = results_dir / run_id
        if not _is_run(path):
            raise SettingsError(f"There is no run to play in '{path}'; check --run-id and --results-dir.")
        return cls(path, resumed=True)

    @staticmethod
    def check(results_dir: Path, run_id: str, *, resume: bool, force: bool) -> Path:
        """The folder's path. Raises the errors of :meth:`create` that can be found without changing anything."""
        if resume and force:
            raise SettingsError("--resume and --force contradict each other; give one of them.")
        if run_id != safe_name(run_id):
            raise SettingsError(
                f"The run-id '{run_id}' is not a valid folder name on every system; try '{safe_name(run_id)}'."
            )
        path = results_dir / run_id
        if resume and not _is_run(path):
            raise SettingsError(f"There is no run to resume in '{path}'; check --run-id, or start it without --resume.")
        if path.is_file():
            raise SettingsError(f"'{path}' is a file, not a run's folder; choose another --run-id.")
        if not (resume or force) and path.is_dir() and any(entry.name != _LOCK for entry in path.iterdir()):
            raise _taken(path)
        return path

    @classmethod
    def _resume(cls, path: Path) -> RunFolder:
        lock = _lock_of(path)
        _HELD[path] = cls(path, resumed=True, lock=lock)
        _acquire(lock)
        for leftover in path.glob(f".*{STAGED_SUFFIX}"):
            leftover.unlink(missing_ok=True)
        written = [file for file in (path / "configuration.yaml", path / "run.json") if file.is_file()]
        kept = {file: file.read_bytes() for file in written}
        folder = _HELD[path] = cls(path, resumed=True, kept=kept, lock=lock)
        return folder

    @classmethod
    def _make(cls, path: Path, force: bool) -> RunFolder:
        missing = next((parent for parent in reversed(path.parents) if not parent.exists()), None)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and [entry.name for entry in path.iterdir()] == [_LOCK]:
            _acquire(lock := _lock_of(path))
            _unlock(lock)  # its process was killed before it wrote anything
        with contextlib.suppress(OSError):
            path.rmdir()  # succeeds only if it is empty
        aside = _move_aside(path) if force and path.exists() else None
        try:
            path.mkdir()
        except FileExistsError as error:
            raise _taken(path) from error
        folder = _HELD[path] = cls(path, replaced=aside, made_results=missing, lock=(lock := _lock_of(path)))
        _acquire(lock)
        return folder

    configuration = _Inside("configuration.yaml")
    """``configuration.yaml``: all resolved settings."""
    run_json = _Inside("run.json")
    """``run.json``: seed, versions, git state, hardware, command."""
    evaluation = _Inside("evaluation.json")
    """``evaluation.json``: the result on held-out rows."""
    log = _Inside("log.jsonl")
    """``log.jsonl``: every summary and event, one JSON object per line."""
    learning_curve = _Inside("learning_curve.png")
    """``learning_curve.png``."""
    checkpoints = _Inside("checkpoints")
    """Folder of all checkpoints."""
    engine_logs = _Inside("run_logs")
    """``run_logs``: the engines' logs, as in ML-Agents."""
    timers = _Inside("run_logs/timers.json")
    """``run_logs/timers.json``: the time spent on each part, as in ML-Agents."""
    status = _Inside("status.json")
    """``status.json``: the current state of the run."""
    stop_request = _Inside("run_logs/stop")
    """``run_logs/stop``: another program makes this file to end the run, as one Ctrl-C does."""

    @property
    def failed_start(self) -> Path:
        """Folder next to the run's folder with the engines' logs of a run that failed to start."""
        return self.path.with_name(f"{self.path.name}.failed-start")

    def onnx(self, name: str) -> Path:
        """The exported model of a behavior."""
        return self.path / f"{file_name(name)}.onnx"

    @property
    def being_trained(self) -> bool:
        """Whether a process holds the folder's lock now."""
        file = self.path / _LOCK
        if not file.is_file():
            return False
        lock = FileLock(file, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            return True
        except OSError:  # another user's folder
            return False
        lock.release()
        return False

    def commit(self) -> None:
        """Once the run has started, deletes the run that it replaces, and logs of failed starts.

        Files that cannot be deleted now stay hidden next to it.
        """
        _KEPT.add(self.path)
        shutil.rmtree(self.failed_start, ignore_errors=True)
        if self.replaced is not None:
            for old in self.path.parent.iterdir():
                if old.name.startswith(_aside_prefix(self.path)):
                    shutil.rmtree(old, ignore_errors=True)

    def discard(self, *, keep_logs: bool = False) -> Path | None:
        """If the run failed to start, removes its folder and restores the run that it replaced, or the resumed run.

        ``keep_logs``: keep the engines' logs next to the folder and return their path; None if there are none.
        """
        if self.resumed:
            for path, data in self.kept.items():
                if path.read_bytes() != data:
                    atomic_write_bytes(path, data)
            self.release()
            return self.engine_logs if keep_logs and _anything_in(self.engine_logs) else None
        self.release()
        logs = self._keep_logs() if keep_logs else None
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):
            if self.replaced is not None and not self.path.exists():
                rename(self.replaced, self.path)
            for parent in self.path.parents if self.made_results else ():
                parent.rmdir()  # stops at the first that is not empty
                if parent == self.made_results:
                    break
        return logs

    def _keep_logs(self) -> Path | None:
        with contextlib.suppress(OSError):
            if _anything_in(self.engine_logs):
                shutil.rmtree(self.failed_start, ignore_errors=True)
                rename(self.engine_logs, self.failed_start)
                return self.failed_start
        return None

    def release(self) -> None:
        """Unlock the folder at the end of the run."""
        if self.lock is not None and self.lock.is_locked:
            _unlock(self.lock)
        if _HELD.get(self.path) is self:
            del _HELD[self.path]
            _KEPT.discard(self.path)


def let_go() -> None:
    """At the end of the process, unlocks its runs, and deletes the folders of those that have saved nothing."""
    for path, folder in list(_HELD.items()):
        with contextlib.suppress(OSError, TauError):
            saved = (
                folder.resumed or path in _KEPT or (folder.checkpoints.is_dir() and any(folder.checkpoints.iterdir()))
            )
            if not saved:
                folder.discard()
            folder.release()


def numbered(results: Path, name: str) -> list[tuple[int, str]]:
    """Existing runs ``name``, ``name-2``, ``name-3``, ... with their numbers, ascending."""
    pattern = re.compile(rf"{re.escape(safe_name(name))}(?:-(\d+))?")
    folders = [path.name for path in results.iterdir()] if results.is_dir() else []
    return sorted((int(match[1] or 1), match[0]) for match in map(pattern.fullmatch, folders) if match)


def called(chosen: CheckpointSettings, name: str) -> CheckpointSettings:
    """The settings with a run id: the given one, or ``name`` with the next free number, or the newest to resume."""
    if "run_id" in chosen.model_fields_set:
        return chosen
    runs = numbered(Path(chosen.results_dir), name)
    number = runs[-1][0] if runs else 0
    again = (chosen.resume or chosen.force or chosen.inference) and number
    number = number if again else number + 1
    name = safe_name(name)
    return chosen.having(run_id=name if number <= 1 else f"{name}-{number}")


def _lock_of(path: Path) -> FileLock:
    """The lock on a run's folder, not yet acquired."""
    # Two threads of this process use it: one starts the run, the other ends it.
    return FileLock(path / _LOCK, timeout=0, thread_local=False)


def _acquire(lock: FileLock) -> None:
    """Acquire the lock. Raises RunExistsError if another process holds it."""
    file = Path(lock.lock_file)
    path = file.parent
    try:
        lock.acquire()
    except Timeout:
        if (held := _HELD.get(path)) is not None and held.lock is lock:
            del _HELD[path]
        holder = "another process"
        with contextlib.suppress(OSError):
            holder = file.read_text("utf-8") or holder
        raise RunExistsError(
            f"the run in '{path}' is being trained by {holder}; wait for it, stop it, or choose another --run-id"
        ) from None
    file.write_text(f"process {os.getpid()} on {platform.node()}", "utf-8")


def _unlock(lock: FileLock) -> None:
    file = Path(lock.lock_file)
    try:
        file.unlink(missing_ok=True)
    except OSError:  # Windows cannot delete open files
        lock.release()
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)
    lock.release()


def _anything_in(logs: Path) -> bool:
    return any(log.stat().st_size for log in logs.glob("*.log"))


def _is_run(path: Path) -> bool:
    return path.is_dir() and any((path / mark).exists() for mark in _MARKS)


def _taken(path: Path) -> RunExistsError:
    return RunExistsError(
        f"The run-id '{path.name}' is taken by '{path}'; add --resume to resume it, --force to replace it, "
        "or choose another --run-id."
    )


def _aside_prefix(path: Path) -> str:
    return f".{path.name}.replaced-"


def _move_aside(path: Path) -> Path:
    """Renames a run in one step to move it aside; refuses a folder that is not a run, to protect other files."""
    if not _is_run(path):
        raise SettingsError(
            f"'{path}' has files but is not a run, so --force does not delete it; choose another --run-id or empty it."
        )
    _acquire(lock := _lock_of(path))  # raises if it is being trained
    _unlock(lock)
    aside = path.with_name(f"{_aside_prefix(path)}{uuid.uuid4().hex}")
    rename(path, aside)
    return aside
