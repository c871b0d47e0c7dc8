"""The pytest plugin of `test` and `check`: runs a program in parallel with the tests, and orders and times their files.

xdist's workers load it too, because they collect tests; the reporting process does everything that a run does once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from types import FrameType

import pytest

from .commands import QUICK_MARKS

SECONDS = "bootstrap/seconds"
SECONDS_SLOW = "bootstrap/seconds-slow"
"""Keys in pytest's cache for the last duration of each file's tests: without those marked `slow`, and only those."""
GUESS, GUESS_PATIENT, GUESS_SLOW = 0.1, 2.0, 10.0
"""Assumed seconds of a test whose file was never timed: any, one with its own time limit, one marked `slow`."""
NICER = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options for `tools/bootstrap.py` only."""
    group = parser.getgroup("bootstrap")
    group.addoption("--beside", metavar="WORDS", help="run `python -m WORDS` with the tests; they fail if it does")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the parts that a run needs once."""
    if hasattr(config, "workerinput"):
        return
    config.pluginmanager.register(Seconds(config))
    config.pluginmanager.register(Termination())
    if words := config.getoption("--beside"):
        config.pluginmanager.register(Beside(words))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Assigns the longest files to workers first, so that workers end at about the same time."""
    if hasattr(config, "workerinput"):
        weights = _weights(config, items)
        items.sort(key=lambda item: -weights[_file(item.nodeid)])


def _weights(config: pytest.Config, items: list[pytest.Item]) -> dict[str, float]:
    """The expected seconds of each file: its last duration, or a guess from its tests' markers."""
    guessed: defaultdict[str, float] = defaultdict(float)
    for item in items:
        slow, patient = item.get_closest_marker("slow"), item.get_closest_marker("timeout")
        seconds = GUESS_SLOW if slow else GUESS_PATIENT if patient else GUESS
        guessed[_file(item.nodeid)] += seconds
    quick, slow_ones = _cached(config, SECONDS), _cached(config, SECONDS_SLOW)
    return {
        file: quick.get(file, 0.0) + slow_ones.get(file, 0.0) if file in quick or file in slow_ones else seconds
        for file, seconds in guessed.items()
    }


def _cached(config: pytest.Config, key: str) -> dict[str, float]:
    cache = getattr(config, "cache", None)
    return dict(cache.get(key, {})) if cache else {}


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


class Seconds:
    """Writes the duration of each file's tests to pytest's cache, if the run had whole files."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._quick: defaultdict[str, float] = defaultdict(float)
        self._slow: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds a set-up, a call, or a tear-down."""
        slow = "slow" in report.keywords or "nightly" in report.keywords
        (self._slow if slow else self._quick)[_file(report.nodeid)] += report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Replaces the stored durations of this run's files."""
        option = self._config.option
        whole = (
            exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
            and option.markexpr in ("", *QUICK_MARKS)
            and not (option.keyword or option.maxfail or getattr(option, "lf", False))
            and not any("::" in one for one in self._config.args)
        )
        if not whole or not self._quick.keys() | self._slow.keys():
            return
        self._keep(SECONDS, self._quick)
        if not option.markexpr:
            self._keep(SECONDS_SLOW, self._slow)

    def _keep(self, key: str, taken: Mapping[str, float]) -> None:
        touched = self._quick.keys() | self._slow.keys()
        known = {
            file: seconds
            for file, seconds in _cached(self._config, key).items()
            if file not in touched and (self._config.rootpath / file).exists()
        }
        if cache := getattr(self._config, "cache", None):
            cache.set(key, known | {file: round(seconds, 3) for file, seconds in taken.items()})


class Termination:
    """SIGTERM ends a run like Ctrl-C, including workers, with the exit code that a shell expects."""

    def __init__(self) -> None:
        self._before = signal.signal(signal.SIGTERM, self._on_signal)

    def pytest_unconfigure(self) -> None:
        """Restores the signal's handler."""
        signal.signal(signal.SIGTERM, self._before)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        pytest.exit("SIGTERM", returncode=128 + number)


class Beside:
    """A program in parallel with the tests, at a lower priority; its result comes before pytest's last line."""

    def __init__(self, words: str) -> None:
        self.words = words
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        self._process: subprocess.Popen[bytes] | None = None

    def pytest_sessionstart(self) -> None:
        """Starts it."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", *self.words.split()],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            creationflags=_priority(),
        )
        if sys.platform != "win32":
            os.setpriority(os.PRIO_PROCESS, self._process.pid, min(os.nice(0) + NICER, 19))

    def pytest_keyboard_interrupt(self) -> None:
        """Stops it when the user stops the tests."""
        self._stop()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Waits for it; if it fails, the run fails."""
        if self._process is None:
            return
        try:
            code = self._process.wait()
        except KeyboardInterrupt:
            self._stop()
            session.exitstatus = pytest.ExitCode.INTERRUPTED
            return
        if code and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Shows its output."""
        if self._process is None:
            return
        code = self._process.returncode
        told = f"{self.words}: failed with exit code {code}" if code else f"{self.words}: passed"
        terminalreporter.section(told, red=bool(code))
        self._output.seek(0)
        terminalreporter.write(self._output.read().decode("utf-8", "replace"))

    def pytest_unconfigure(self) -> None:
        """Stops it and closes its output."""
        self._stop()
        self._output.close()

    def _stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._process = None


def _priority() -> int:
    """Creation flags for a lower priority; needed on Windows."""
    if sys.platform == "win32":
        return subprocess.BELOW_NORMAL_PRIORITY_CLASS
    return 0
