"""Progress lines with the elapsed time, and child processes whose output goes to a log instead of the screen."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path


class SetupError(Exception):
    """Set-up cannot continue; the text says why and what to do, with the end of the log if there is one."""


class Progress:
    """Writes `[ 12 s] message` lines to standard error, and regular lines during long steps."""

    def __init__(self, heartbeat_seconds: float = 20.0) -> None:
        self._start = time.monotonic()
        self._heartbeat = heartbeat_seconds
        self._waiting_since = -1.0

    def say(self, text: str) -> None:
        """Writes one line, with the seconds since set-up started."""
        elapsed = time.monotonic() - self._start
        print(f"bootstrap [{elapsed:4.0f} s] {text}", file=sys.stderr, flush=True)

    def waiting(self, seconds: float) -> None:
        """Reports regularly that another set-up holds the lock; `seconds`: the time waited so far."""
        if self._waiting_since < 0 or seconds - self._waiting_since >= self._heartbeat:
            self._waiting_since = seconds
            self.say("another set-up is running in this checkout: waiting for it")

    def run(self, text: str, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        """Runs a command with its output appended to `log`.

        Raises:
            SetupError: the command failed; the text includes the last lines of the log.
        """
        self.say(text)
        with log.open("ab") as stream:
            stream.write(f"\n$ {' '.join(command)}\n".encode())
            stream.flush()
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, env=dict(environment)
            )
            try:
                code = self._wait(child, text)
            except BaseException:
                child.terminate()
                child.wait()
                raise
        if code != 0:
            raise SetupError(f"{text}: failed with exit code {code}; the end of {log}:\n{tail(log)}")

    def _wait(self, child: subprocess.Popen[bytes], text: str) -> int:
        while True:
            try:
                return child.wait(self._heartbeat)
            except subprocess.TimeoutExpired:
                self.say(f"{text}, still running")


def tail(log: Path, lines: int = 20) -> str:
    """The last lines of a log file, indented."""
    text = log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
    return "\n".join(f"    {line}" for line in text)
