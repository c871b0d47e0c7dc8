"""What the command line calls: a run in the foreground, with Ctrl-C."""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from tau_trainer.metrics import TerminalMode
from tau_trainer.settings import RunSettings
from tau_trainer.training.manager import ParallelTrainerManager, Session
from tau_trainer.training.plan import RunKind
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
    command: RunKind,
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
    pressed = itertools.count(1)
    with _on_interrupt(lambda: session.cancel(at_once=next(pressed) > 1)):
        return session.wait()


@contextmanager
def _on_interrupt(react: Callable[[], None]) -> Iterator[None]:
    """Call ``react`` for every Ctrl-C, and for a polite `kill`, as job schedulers send it.

    Nothing is raised, so there is no moment at which a second Ctrl-C could break off the saving.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        react()

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
