"""Running one measurement: start, wait for the engines, let them play, stop, count."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tools._bootstrap.environment import child_environment
from tools._bootstrap.progress import tail
from tools.bench.builds import end_engines
from tools.bench.timeline import Timeline, read_reports

START_SECONDS = 180.0
STOP_SECONDS = 30.0
_POLL_SECONDS = 0.25


class RunFailedError(Exception):
    """A measured program ended or never started its engines; the text has the end of its log."""


@dataclass(frozen=True, slots=True)
class Played:
    """One finished run."""

    timeline: Timeline
    started: float
    """Unix time of the command."""
    ready: float
    """Unix time at which every engine had reported for the first time."""
    ended: float
    """Unix time at which the run was told to stop, or had ended by itself."""


def play(
    commands: list[list[str]],
    folder: Path,
    engines: int,
    seconds: float,
    until: Callable[[Timeline], bool] | None = None,
    may_end: bool = False,
) -> Played:
    """Runs commands until `seconds` after all engines play, or until `until` says so; then stops them.

    Args:
        commands: the programs to start side by side; their output goes to `folder/program-<i>.log`.
        folder: where the engines' reports appear.
        engines: how many engines to wait for.
        seconds: how long to play.
        until: looked at now and then with what was counted so far.
        may_end: whether the programs may end by themselves, with exit code 0.

    Raises:
        RunFailedError: a program ended too early, or its engines never played.
    """
    started = time.time()
    with _programs(commands, folder) as programs:
        ready = _wait_for_engines(programs, folder, engines)
        while time.time() < ready + seconds:
            codes = [program.poll() for program in programs]
            if any(code is not None for code in codes):
                if may_end and not any(codes):
                    break
                raise RunFailedError(_report(programs, folder))
            if until is not None and until(read_reports(folder)):
                break
            time.sleep(_POLL_SECONDS)
        ended = time.time()
    return Played(read_reports(folder), started, ready, ended)


def _wait_for_engines(programs: list[subprocess.Popen[bytes]], folder: Path, engines: int) -> float:
    deadline = time.time() + START_SECONDS
    while len(read_reports(folder).engines) < engines:
        if any(program.poll() is not None for program in programs) or time.time() > deadline:
            raise RunFailedError(_report(programs, folder))
        time.sleep(_POLL_SECONDS)
    return time.time()


def _report(programs: list[subprocess.Popen[bytes]], folder: Path) -> str:
    codes = [program.poll() for program in programs]
    logs = "\n".join(tail(path) for path in sorted(folder.glob("program-*.log")))
    return f"exit codes {codes}, {len(read_reports(folder).engines)} engines played; the end of the logs:\n{logs}"


@contextmanager
def _programs(commands: list[list[str]], folder: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Starts every command in a session of its own and leaves nothing behind."""
    logs: list[IO[bytes]] = [(folder / f"program-{index}.log").open("wb") for index in range(len(commands))]
    programs = [
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=child_environment(),
            start_new_session=True,
        )
        for command, log in zip(commands, logs, strict=True)
    ]
    try:
        yield programs
    finally:
        _stop(programs)
        end_engines(folder)
        for log in logs:
            log.close()


def _stop(programs: list[subprocess.Popen[bytes]]) -> None:
    """Ctrl-C for each, then the end of its whole group."""
    for program in programs:
        if program.poll() is None:
            program.send_signal(signal.SIGINT)
    deadline = time.time() + STOP_SECONDS
    for program in programs:
        with suppress(subprocess.TimeoutExpired):
            program.wait(max(0.1, deadline - time.time()))
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()
