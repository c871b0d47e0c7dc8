"""What tests/conftest.py does to a run: signals, and tests that have to be asked for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import conftest

CONFTEST = Path(__file__).with_name("conftest.py")
TESTS = """
import gc, signal, subprocess, sys
import pytest
from hypothesis import settings

SHOW = "import signal as s; print([s.getsignal(s.SIGINT) is s.default_int_handler, s.getsignal(s.SIGHUP) is s.SIG_DFL])"

def test_signals():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
    child = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True)
    assert child.stdout == "[True, True]\\n"

def test_garbage():
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0

def test_examples():
    print(f"{settings().max_examples} examples")

@pytest.mark.nightly
def test_nightly():
    pass
"""


def run(folder: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """A small pytest run of its own, under this project's conftest.py."""
    (folder / "conftest.py").write_text(CONFTEST.read_text("utf-8"), "utf-8")
    (folder / "test_toy.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = nightly\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def ignored_and_blocked() -> None:
    """As `nohup`, and `&` in a script, start a program; and as a parent may that was careless with masks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ignored_signals_are_not_handed_down_to_tests_and_their_children(tmp_path: Path) -> None:
    done = run(tmp_path, "-k", "signals", preexec_fn=ignored_and_blocked)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


@pytest.mark.parametrize(("arguments", "ran", "examples"), [([], False, 50), (["--all"], True, 400)])
def test_nightly_tests_and_more_examples_run_only_with_all(
    tmp_path: Path, arguments: list[str], ran: bool, examples: int
) -> None:
    told = run(tmp_path, "-vvs", *arguments).stdout
    assert ("::test_nightly" in told) == ran
    assert f"{examples} examples" in told
    assert " failed" not in told


class Marked:
    """Stands in for a test with one marker."""

    def __init__(self, marker: str) -> None:
        self.get_closest_marker = marker.__eq__


@pytest.mark.parametrize(
    ("expression", "named", "ran"),
    [
        ("not slow", ["tests"], False),
        ("nightly and not gpu", ["tests"], True),
        ("", ["tests/test_toy.py"], False),
        ("", ["tests", "tests/test_toy.py::test_nightly"], True),
    ],
)
def test_nightly_tests_can_be_asked_for_by_marker_and_by_name(expression: str, named: list[str], ran: bool) -> None:
    left: list[Any] = []
    config: Any = SimpleNamespace(
        args=named,
        getoption=lambda name, _default=None: expression if name == "markexpr" else False,
        hook=SimpleNamespace(pytest_deselected=lambda items: left.extend(items)),
    )
    nightly, other = Marked("nightly"), Marked("other")
    items: list[Any] = [nightly, other]
    conftest.pytest_collection_modifyitems(config, items)
    assert items == ([nightly, other] if ran else [other])
    assert left == ([] if ran else [nightly])
