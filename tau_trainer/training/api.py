"""Entry point of the command line: a run in the foreground that Ctrl-C ends."""

from __future__ import annotations

from collections.abc import Sequence

from tau_trainer.metrics import RunReport, TerminalMode
from tau_trainer.runs.callbacks import Callback
from tau_trainer.settings import RunSettings
from tau_trainer.training.manager import ParallelTrainerManager
from tau_trainer.training.plan import RunKind


def train(
    settings: RunSettings,
    command: RunKind = "learn",
    *,
    callbacks: Sequence[Callback] = (),
    terminal: TerminalMode = "auto",
    command_line: Sequence[str] | None = None,
) -> RunReport:
    """Run ``settings`` to the end, call ``callbacks``, and show the progress. Ctrl-C ends the run early and saves it.

    Args:
        settings: of the behaviors of an ML-Agents file, the pairs of a task, or a batched environment.
        command: ``parallel`` for the pairs of a task.
        callbacks: called after those that the settings name.
        terminal: what to show.
        command_line: the command line to record; None: this process's.

    Raises:
        TauError: nothing could be trained; no files are left behind.
    """
    start = ParallelTrainerManager().start
    session = start(settings, command, terminal=terminal, command_line=command_line, callbacks=callbacks)
    return session.wait_in_foreground()
