"""Headless builds whose engines report what they played into a folder."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path

from tau_trainer.bridge.ports import is_free
from tau_trainer.headless.build import write_build
from tools._bootstrap.progress import SetupError

_FORWARD = '"$@"'


def reporting_build(folder: Path, scene: str, arguments: Sequence[str]) -> Path:
    """Writes a build into `folder`; each engine started from it writes `folder/engine-<pid>.jsonl`.

    Returns what `--env` takes.

    Raises:
        SetupError: the launcher is no shell script, so this is not a POSIX system.
    """
    build = write_build(folder, scene, arguments)
    script = build / "Contents" / "MacOS" / build.stem if build.is_dir() else build
    text = script.read_text(encoding="utf-8")
    if _FORWARD not in text:
        raise SetupError("The benchmarks need a POSIX shell (Linux or macOS): run them there.")
    # `$$` is the shell's process id, which stays the engine's after `exec`: one file for each engine.
    report = f'{shlex.quote(str(folder.resolve()))}/"engine-$$.jsonl"'
    script.write_text(text.replace(_FORWARD, f"{_FORWARD} --report-file {report}"), encoding="utf-8")
    return build


def free_ports(count: int, start: int = 6100) -> int:
    """The first of `count` free ports in a row.

    Raises:
        SetupError: there are none.
    """
    for base in range(start, 60000, count):
        if all(is_free(port) for port in range(base, base + count)):
            return base
    raise SetupError(f"There are no {count} free ports in a row above {start}: end some programs.")


def end_engines(folder: Path) -> None:
    """Kills engines of this folder that outlived their trainer."""
    for path in folder.glob("engine-*.jsonl"):
        try:
            os.kill(int(path.stem.split("-")[1]), signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
