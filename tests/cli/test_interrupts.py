"""Ctrl-C at any moment before a run has begun: one sentence, exit code 130, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.cli import main
from tau_trainer.cli.interrupts import Interrupts

SAID = "error: stopped before anything was to be saved\n"
SENT = "import os, signal\ndef press(): signal.raise_signal(signal.SIGINT)\n"


def ended(code: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A process of its own that is ``tau-train WORDS``, after ``code``, where ``press()`` is Ctrl-C."""
    whole = f"{SENT}{code}\nimport sys\nfrom tau_trainer.cli import main\nsys.exit(main())\n"
    command = [sys.executable, "-c", whole, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


ON_IMPORT = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            sys.meta_path.remove(self)
            {what}
sys.meta_path.insert(0, Finder())
"""


CAUGHT = "except KeyboardInterrupt"


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("tau_trainer.cli.entry", ["press()"]),
        ("cyclopts", ["try: press()", "finally: press()"]),
        ("pydantic", ["press()"]),
        ("pydantic", ["try: press()", f"{CAUGHT} as error: raise ImportError('broken') from error"]),
        ("pydantic", [f"for _ in range(2):\n                try: press()\n                {CAUGHT}: pass"]),
        ("pydantic", ["class A:\n                def __del__(self): press()", "A()"]),
        # The thread of a run, for which Python would wait at its end.
        ("pydantic", ["import threading as t", "t.Thread(target=t.Event().wait, name='run a').start()", "press()"]),
    ],
    ids=["entry", "twice", "once", "an error of its own", "deaf", "where Python would print it", "a living run"],
)
def test_while_anything_is_imported(name: str, what: list[str], tmp_path: Path) -> None:
    lines = "".join(f"\n            {line}" for line in what)
    done = ended(ON_IMPORT.format(name=name, what=lines), tmp_path, "check", "Basic")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", SAID)


RUN = ("learn", "Basic", "--env", "headless:basic", "--run-id", "a", "--results-dir", "results")
IN_THE_RUN = """
import threading, tau_trainer.training.manager as manager
from contextlib import contextmanager
@contextmanager
def begin(command, settings, run):
    {loose}
        main = threading.main_thread().ident
        signal.pthread_kill(main, signal.SIGINT)
        {then}
    yield
manager._pairs = begin
"""


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="sends the signal from the run's thread")
@pytest.mark.parametrize(
    ("loose", "then"),
    [
        ("with run.abandonable():", "threading.Event().wait()"),  # a compiler that hears nothing
        (
            "if True:",
            "assert run.asked.wait(); signal.pthread_kill(main, signal.SIGINT); threading.Event().wait()",
        ),
        ("if True:", "assert run.asked.wait()"),
    ],
    ids=["once while it compiles", "twice", "once"],
)
def test_a_run_that_has_not_begun_leaves_neither_lock_nor_folder(loose: str, then: str, tmp_path: Path) -> None:
    old = tmp_path / "results" / "a"
    old.mkdir(parents=True)
    (old / "configuration.yaml").write_text("old: true\n")
    done = ended(IN_THE_RUN.format(loose=loose, then=then), tmp_path, *RUN, "--force")
    assert (done.returncode, done.stderr) == (130, SAID)
    assert [path.name for path in old.iterdir()] == ["configuration.yaml"], "what it was to replace is back"
    assert [path.name for path in old.parent.iterdir()] == ["a"]


@pytest.fixture
def handler() -> Iterator[Any]:
    before = signal.getsignal(signal.SIGINT)
    yield before
    assert signal.getsignal(signal.SIGINT) is before


def test_whoever_calls_it_keeps_their_own_handlers(handler: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    interrupts = Interrupts(whole=False)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)  # their process: it is not left
    capsys.readouterr()
    assert interrupts.stop() == 130
    interrupts.end()
    assert capsys.readouterr().err == SAID


@pytest.mark.skipif(os.name == "nt", reason="of POSIX")
def test_what_is_ignored_stays_so(tmp_path: Path) -> None:
    done = ended(
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\nos.kill(os.getpid(), signal.SIGHUP)", tmp_path, "--version"
    )
    assert done.returncode == 0
