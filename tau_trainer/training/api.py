"""What the command line calls: a run in the foreground, with Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from tau_trainer.metrics import TerminalMode
from tau_trainer.settings import RunSettings
from tau_trainer.training.manager import ParallelTrainerManager, Session
from tau_trainer.training.plan import Command
from tau_trainer.training.states import RunReport


def run_parallel(
    settings: RunSettings,
    *,
    quiet: bool = False,
    json: bool = False,
    resume: bool = False,
    force: bool = False,
    command_line: Sequence[str] | None = None,
) -> RunReport:
    """Train the pairs of ``settings.tau`` to the end and show how it goes.

    Ctrl-C once: every pair finishes its exchange, then the run is saved, evaluated and exported. Twice: it is saved
    without waiting for pairs. Raises TauError where nothing could be trained.
    """
    return _run("parallel", settings, quiet, json, resume, force, command_line)


def run_learn(
    settings: RunSettings,
    *,
    quiet: bool = False,
    json: bool = False,
    resume: bool = False,
    force: bool = False,
    command_line: Sequence[str] | None = None,
) -> RunReport:
    """Train the behaviors of an ML-Agents file on ``num_envs`` engines; else like :func:`run_parallel`."""
    return _run("learn", settings, quiet, json, resume, force, command_line)


def _run(
    command: Command,
    settings: RunSettings,
    quiet: bool,
    json: bool,
    resume: bool,
    force: bool,
    command_line: Sequence[str] | None,
) -> RunReport:
    chosen = settings.checkpoint_settings.model_copy(update={"resume": resume, "force": force})
    settings = settings.model_copy(update={"checkpoint_settings": chosen})
    mode: TerminalMode = "json" if json else "quiet" if quiet else "auto"
    session = ParallelTrainerManager().start(settings, command, terminal=mode, command_line=command_line)
    return wait_in_foreground(session)


def wait_in_foreground(session: Session) -> RunReport:
    """Wait for ``session``; the first Ctrl-C ends its pairs gently, the second at once."""
    pressed = 0
    with _sigterm_as_interrupt():
        while True:
            try:
                return session.wait()
            except KeyboardInterrupt:
                pressed += 1
                session.cancel(at_once=pressed > 1)


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """A polite `kill`, as a job scheduler sends it, saves like Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
