"""``tau-train`` in a process of its own, forked from one that has torch loaded where that is possible.

For tests of what a run does. How a process starts, and what it does not load, is tested with ``python -m``.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from tau_trainer.remote import forking
from tau_trainer.remote.launching import Running
from tests.waiting import HANG_S

ROOT = Path(__file__).parents[1]
MODULE = "tau_trainer.__main__"
LOADED = ("tau_trainer.training.api", "tau_trainer.training.pairs.collector", "tau_trainer.training.batched.run")
_VARIABLES = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "80"}


class Trainer:
    """A running ``tau-train``; nothing is on its standard input.

    Attributes:
        stdout: what it says.
        stderr: the same.
    """

    def __init__(self, process: Running, stdout: IO[str], stderr: IO[str]) -> None:
        self.process, self.stdout, self.stderr = process, stdout, stderr

    @property
    def pid(self) -> int:
        """Its number."""
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code; None: it runs."""
        return self.process.poll()

    def poll(self) -> int | None:
        """The same."""
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()

    def wait(self, timeout: float = HANG_S) -> int:
        """Its exit code, once it has ended. Raises subprocess.TimeoutExpired."""
        return self.process.wait(timeout)

    def communicate(self, timeout: float = HANG_S) -> tuple[str, str]:
        """All that it still says on standard output and error, once it has ended. Raises subprocess.TimeoutExpired."""
        with self.stdout, self.stderr, ThreadPoolExecutor(2) as readers:
            out, err = readers.submit(self.stdout.read), readers.submit(self.stderr.read)
            try:
                self.wait(timeout)
            except BaseException:  # a test's limit ends the wait as well, and readers read until it has ended
                self.kill()
                raise
            return out.result(), err.result()

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait()
        self.stdout.close()
        self.stderr.close()


def tau_train(
    folder: Path, *words: str, environment: Mapping[str, str] | None = None, sites: Sequence[Path] = ()
) -> Trainer:
    """Start it.

    Args:
        folder: working directory.
        words: its command line.
        environment: variables besides this process's.
        sites: folders where modules and entry points are looked for first.
    """
    variables = {**os.environ, **_VARIABLES, **(environment or {})}
    paths = [str(path) for path in (*sites, ROOT)] + [path for path in sys.path if path]
    if forking.POSSIBLE:
        theirs, ours = os.pipe()
        request = forking.ForkRequest(MODULE, words, variables, folder, paths, preload=LOADED)
        with os.fdopen(ours, "wb") as errors:
            forked = forking.fork(request, errors)
        if forked is not None:
            process, sink, source = forked
            sink.close()
            return Trainer(process, io.TextIOWrapper(source), os.fdopen(theirs))
        os.close(theirs)
    command = [sys.executable, "-m", "tau_trainer", *words]
    variables["PYTHONPATH"] = os.pathsep.join(paths)
    pipe = subprocess.PIPE
    plain = subprocess.Popen(
        command, cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
    )
    assert plain.stdout is not None
    assert plain.stderr is not None
    return Trainer(plain, plain.stdout, plain.stderr)


def ran(
    folder: Path,
    *words: str,
    environment: Mapping[str, str] | None = None,
    sites: Sequence[Path] = (),
    timeout: float = HANG_S,
) -> subprocess.CompletedProcess[str]:
    """Start it and wait for its end. Raises subprocess.TimeoutExpired after ``timeout`` seconds."""
    trainer = tau_train(folder, *words, environment=environment, sites=sites)
    out, err = trainer.communicate(timeout)
    code = trainer.returncode
    assert code is not None
    return subprocess.CompletedProcess([*words], code, out, err)


def processes(name: str, trainer: int | None = None) -> list[int]:
    """Those that run a module of this ``name`` for a trainer (default: this process), however they were started."""
    trainer = os.getpid() if trainer is None else trainer
    parents, names = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            pid, stat = int(folder.name), (folder / "stat").read_text()
            parents[pid] = int(stat.rpartition(")")[2].split()[1])
            names[pid] = (folder / "comm").read_text().strip(), (folder / "cmdline").read_text()
    near = {trainer, *(pid for pid, parent in parents.items() if parent == trainer)}  # it, and its fork server
    return [
        pid
        for pid, (short, command) in names.items()
        if parents[pid] in near and (short == name or f".{name}\0" in command)
    ]
