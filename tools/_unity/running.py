"""Runs a Unity editor in batch mode, follows its log, and never leaves an editor behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tools._bootstrap.progress import SetupError

from .diagnosis import own_lines

WINDOWS = sys.platform == "win32"


class BuildTimeoutError(Exception):
    """The editor was stopped because it took too long."""


class Follower:
    """Follows a log and reports the build script's lines, or at regular intervals that it still runs."""

    def __init__(self, log: Path, say: Callable[[str], None], heartbeat: float = 30.0) -> None:
        self._log = log
        self._say = say
        self._heartbeat = heartbeat
        self._said = 0
        self._last = "starting the editor"
        self._silent_since = time.monotonic()

    def look(self) -> None:
        """Reports new lines."""
        lines = own_lines(read_log(self._log))
        for line in lines[self._said :]:
            self._say(line)
            self._last = line
            self._silent_since = time.monotonic()
        self._said = max(self._said, len(lines))
        if time.monotonic() - self._silent_since >= self._heartbeat:
            self._say(f"still running ({self._last})")
            self._silent_since = time.monotonic()


def read_log(log: Path) -> str:
    """The content of a log; empty if it does not exist yet."""
    try:
        return log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def run_editor(command: Sequence[str], console: Path, follower: Follower, timeout: float, poll: float = 0.5) -> int:
    """Runs the editor until it ends; returns its exit code. If this call is interrupted, the editor ends too.

    Args:
        command: the program and its arguments.
        console: file for the editor's output outside its log.
        follower: follows the log.
        timeout: seconds after which the editor is stopped.
        poll: seconds between two checks of the log.

    Raises:
        SetupError: the program does not start.
        BuildTimeoutError: the time is up.
    """
    deadline = time.monotonic() + timeout
    with console.open("wb") as stream:
        try:
            child = _start(command, stream.fileno())
        except OSError as error:
            raise SetupError(f"{command[0]} does not start ({error.strerror}): name another editor.") from error
        try:
            while True:
                try:
                    code = child.wait(poll)
                    break
                except subprocess.TimeoutExpired:
                    follower.look()
                if time.monotonic() > deadline:
                    raise BuildTimeoutError
        finally:
            stop(child)
    follower.look()
    return code


def stop(child: subprocess.Popen[bytes], grace: float = 10.0) -> None:
    """Ends an editor and its children (package manager, license client); does nothing if it has ended."""
    if child.poll() is not None:
        return
    if WINDOWS:
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(child.pid)], capture_output=True, check=False)
        child.wait()
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            break
        try:
            child.wait(grace)
            break
        except subprocess.TimeoutExpired:
            continue
    child.wait()


def _start(command: Sequence[str], output: int) -> subprocess.Popen[bytes]:
    """Starts it in its own process group: Ctrl-C reaches only this program, which then ends the whole group."""
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, creationflags=flags)
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
