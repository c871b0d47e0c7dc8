"""How a process of ours begins: ``python -m MODULE``, or the same forked from one that has it loaded already.

Importing torch takes seconds. A program that starts more than one process starts a :mod:`.forking` server beside the
first of those and has all that follow forked from it, where the platform allows that.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from tau_trainer.remote import forking

_launched = 0
"""How many processes this one has started."""


class Running(Protocol):
    """What is the same of a process that is a child of ours and of one that was forked elsewhere."""

    @property
    def pid(self) -> int:
        """Its number."""

    def poll(self) -> int | None:
        """Its exit code, negative: minus the signal's number; None: it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """The same once it has ended. Raises subprocess.TimeoutExpired after ``timeout`` seconds."""

    def kill(self) -> None:
        """End it at once; nothing happens where it has ended."""

    def send_signal(self, sig: int) -> None:
        """Send it a signal; nothing happens where it has ended."""


@dataclass(frozen=True)
class Launched:
    """A process and this end of its standard input and output."""

    process: Running
    sink: IO[bytes]
    source: IO[bytes]


def launch(
    module: str,
    arguments: Sequence[str] = (),
    *,
    errors: IO[bytes],
    shared: Sequence[int] = (),
    several: bool = False,
    preload: Sequence[str] = (),
) -> Launched:
    """Start ``python -m module arguments`` with this process's modules, variables and folder. Raises OSError.

    On Windows Ctrl-C at the console does not reach it.

    Args:
        module: has a function ``main``, which may return an exit code, and calls it where it is ``__main__``.
        arguments: its own.
        errors: where its standard error goes.
        shared: open files that it gets under the same numbers, not on Windows.
        several: there will be more like it, so that the first had better be forked already.
        preload: modules that it will load late, and finds loaded where it is forked.
    """
    global _launched
    _launched += 1
    # as the command line has it; and a second thread could not be forked
    variables = {"OPENBLAS_NUM_THREADS": "1", **os.environ}
    paths = list(filter(None, sys.path))
    if forking.POSSIBLE and (several or _launched > 1):
        request = forking.Request(module, arguments, variables, Path.cwd(), paths, shared, preload)
        forked = forking.fork(request, errors)
        if forked is not None:
            return Launched(*forked)
    options: dict[str, Any] = {"pass_fds": shared}
    if sys.platform == "win32":
        options = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=variables | {"PYTHONPATH": os.pathsep.join(paths)},
        **options,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    return Launched(process, process.stdin, process.stdout)
