"""What the command line calls: a run in the foreground, with Ctrl-C."""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from tau_trainer.metrics import RunReport, TerminalMode
from tau_trainer.settings import RunSettings
from tau_trainer.training.callbacks import Callback
from tau_trainer.training.manager import ParallelTrainerManager, Session
from tau_trainer.training.plan import RunKind


def train(
    settings: RunSettings,
    command: RunKind = "learn",
    *,
    callbacks: Sequence[Callback] = (),
    terminal: TerminalMode = "auto",
) -> RunReport:
    """Run ``settings`` to the end, tell ``callbacks`` of it, and show how it goes.

    Raises TauError where nothing could be trained.
    """
    return run_in_foreground(command, settings, terminal, callbacks=callbacks)


def run_in_foreground(
    command: RunKind,
    settings: RunSettings,
    terminal: TerminalMode = "auto",
    command_line: Sequence[str] | None = None,
    callbacks: Sequence[Callback] = (),
) -> RunReport:
    """Run ``settings`` to the end and show how it goes: the pairs of a task, or the behaviors of an ML-Agents file.

    Raises TauError where nothing could be trained.
    """
    start = ParallelTrainerManager().start
    return wait_in_foreground(
        start(settings, command, terminal=terminal, command_line=command_line, callbacks=callbacks)
    )


def wait_in_foreground(session: Session) -> RunReport:
    """Wait for ``session``.

    Ctrl-C once: every pair finishes its exchange, then the run is saved, evaluated and exported. Twice: it is saved
    without waiting for pairs. Where a saved run is played there is nothing to save.
    """
    pressed = itertools.count(1)

    def end() -> None:
        again = next(pressed) > 1
        if not session.plays:
            session.say(HURRYING if again else ENDING)
        session.cancel(at_once=again)

    with on_interrupt(end):
        return session.wait()


ENDING, HURRYING = "saving, evaluating; press again to skip", "saving; evaluation and export are left out"
"""What Ctrl-C is answered at once, and the second one."""


_ASKING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
"""Ctrl-C, a polite `kill` as job schedulers send it, a terminal that is closed (POSIX; Windows)."""


@contextmanager
def on_interrupt(react: Callable[[], None]) -> Iterator[None]:
    """Call ``react`` for every signal that asks for the end. `nohup` has the terminal's ignored, and so it stays.

    Nothing is raised, so there is no moment at which a second Ctrl-C could break off the saving.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        react()

    numbers = [getattr(signal, name) for name in _ASKING if hasattr(signal, name)]
    asking = [one for one in numbers if one == signal.SIGINT or signal.getsignal(one) != signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in asking}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
