"""Starts processes: ``python -m MODULE``, or the same forked from a server that has already loaded the module.

Importing torch takes seconds. So a program that starts several processes also starts a :mod:`.forking` server with the
first one. If the platform allows it, all later processes are forked from that server.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from tau_trainer.remote import forking

_launched = 0
"""Number of processes that this one has started."""


Running = subprocess.Popen[Any] | forking.Forked
"""A child process, or a process that the server forked."""


class Launched(NamedTuple):
    """A process and our ends of its standard input and output."""

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

    On Windows, Ctrl-C in the console does not reach it.

    Args:
        module: has a function ``main``, which can return an exit code, and calls it if it is ``__main__``.
        arguments: its arguments.
        errors: file for its standard error.
        shared: open files that it inherits under the same numbers (not on Windows).
        several: more processes like it will follow, so the first one is already forked.
        preload: modules that it loads late; a forked process finds them loaded.
    """
    global _launched
    _launched += 1
    # same as on the command line; also, a process with a second thread cannot be forked
    variables = {"OPENBLAS_NUM_THREADS": "1", **os.environ}
    paths = list(filter(None, sys.path))
    if forking.POSSIBLE and (several or _launched > 1):
        request = forking.ForkRequest(module, arguments, variables, Path.cwd(), paths, shared, preload)
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
