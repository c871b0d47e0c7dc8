"""Runs programs of the environment; exit codes and Ctrl-C pass through."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from .environment import WINDOWS, child_environment


def replace(command: Sequence[str], folder: Path) -> int:
    """Replaces this process with the command, so that it gets signals and terminal; on Windows runs it and waits."""
    sys.stdout.flush()
    sys.stderr.flush()
    if WINDOWS:
        return call(command, folder)
    os.chdir(folder)
    os.execve(command[0], list(command), child_environment())


def call(command: Sequence[str], folder: Path) -> int:
    """Runs a command to its end and returns its exit code (128 + signal number if a signal ended it)."""
    child = subprocess.Popen(list(command), cwd=folder, env=child_environment())
    with _passing_signals(child):
        code = child.wait()
    return code if code >= 0 else 128 - code


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


@contextmanager
def _passing_signals(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Lets the child handle Ctrl-C; this process keeps waiting for it.

    A terminal also sends Ctrl-C to the child, and a second one would have another meaning. So it is passed on only if
    there is no terminal.
    """

    def on_signal(number: int, _frame: FrameType | None) -> None:
        from_terminal = number == signal.SIGINT and (WINDOWS or _has_terminal())
        if not from_terminal and child.poll() is None:
            child.send_signal(number)

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
