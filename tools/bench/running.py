"""Runs one measurement: a build that reports; starts it, waits for the engines, lets them play, stops, counts."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tau_trainer.bridge.ports import is_free
from tau_trainer.headless.build import write_build
from tools._bootstrap.environment import child_environment
from tools._bootstrap.progress import SetupError, tail
from tools.bench.timeline import Timeline, read_reports

START_SECONDS = 180.0
STOP_SECONDS = 30.0
_POLL_SECONDS = 0.25
_FORWARD = '"$@"'


class RunFailedError(Exception):
    """A measured program ended or never started its engines; the text has the end of its log."""


@dataclass(frozen=True, slots=True)
class Played:
    """One finished run."""

    timeline: Timeline
    started: float
    """Unix time at which the command was started."""
    ready: float
    """Unix time at which every engine had reported for the first time."""
    ended: float
    """Unix time at which the run was stopped, or ended by itself."""


def play(
    commands: list[list[str]],
    folder: Path,
    engines: int,
    seconds: float,
    until: Callable[[Timeline], bool] | None = None,
    may_end: bool = False,
    variables: Mapping[str, str] | None = None,
    patience: float = STOP_SECONDS,
) -> Played:
    """Run commands until all engines have played for `seconds`, or `until` returns True; then stop them.

    Args:
        commands: the programs to start side by side; their output goes to `folder/program-<i>.log`.
        folder: where the engines' reports appear.
        engines: number of engines to wait for.
        seconds: time of play.
        until: called from time to time with the counts so far.
        may_end: whether the programs may end by themselves, with exit code 0.
        variables: environment variables in addition to this process's.
        patience: seconds for the programs to save and end, after they are asked to stop.

    Raises:
        RunFailedError: a program ended too early, or its engines never played.
    """
    started = time.time()
    with _programs(commands, folder, variables or {}, patience) as programs:
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
def _programs(
    commands: list[list[str]], folder: Path, variables: Mapping[str, str], patience: float
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start every command in its own session, and end all of their processes at the end."""
    logs: list[IO[bytes]] = [(folder / f"program-{index}.log").open("wb") for index in range(len(commands))]
    programs = [
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**child_environment(), **variables},
            start_new_session=True,
        )
        for command, log in zip(commands, logs, strict=True)
    ]
    try:
        yield programs
    finally:
        _stop(programs, patience)
        _end_engines(folder)
        for log in logs:
            log.close()


def _stop(programs: list[subprocess.Popen[bytes]], patience: float) -> None:
    """Send Ctrl-C to each, then kill its whole group."""
    for program in programs:
        if program.poll() is None:
            program.send_signal(signal.SIGINT)
    deadline = time.time() + patience
    for program in programs:
        with suppress(subprocess.TimeoutExpired):
            program.wait(max(0.1, deadline - time.time()))
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()


def reporting_build(folder: Path, scene: str, arguments: Sequence[str]) -> Path:
    """Write a build into `folder`; each engine started from it writes `folder/engine-<pid>.jsonl`.

    Returns the value for `--env`.

    Raises:
        SetupError: this is not a POSIX system, so the launcher is not a shell script.
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


def _end_engines(folder: Path) -> None:
    """Kill engines of this folder that still run after their trainer has ended."""
    for path in folder.glob("engine-*.jsonl"):
        try:
            os.kill(int(path.stem.split("-")[1]), signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
