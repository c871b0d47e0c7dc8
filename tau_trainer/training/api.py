"""What the command line calls: a run in the foreground, with Ctrl-C."""

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
    """Run ``settings`` to the end, tell ``callbacks`` of it, and show how it goes; Ctrl-C ends it early, and saves.

    Args:
        settings: of the behaviors of an ML-Agents file, the pairs of a task, or a batched environment.
        command: ``parallel`` for the pairs of a task.
        callbacks: told of the run, after those that the settings name.
        terminal: what is shown.
        command_line: how it was called; None: this process's.

    Raises:
        TauError: nothing could be trained; nothing is left behind.
    """
    start = ParallelTrainerManager().start
    session = start(settings, command, terminal=terminal, command_line=command_line, callbacks=callbacks)
    return session.wait_in_foreground()
