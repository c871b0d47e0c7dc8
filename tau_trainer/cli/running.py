"""What commands share: logging as the flags say, and training in the foreground."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tau_trainer.cli.messages import set_up_logging
from tau_trainer.cli.options import OutputFlags

if TYPE_CHECKING:
    from tau_trainer.metrics import TerminalMode
    from tau_trainer.settings import RunSettings
    from tau_trainer.training.plan import RunKind


def prepare(output: OutputFlags | None) -> OutputFlags:
    """Set up logging as the flags say; flags that were not given get their defaults."""
    shown = output or OutputFlags()
    set_up_logging(debug=bool(shown.debug), quiet=shown.quiet)
    return shown


def train(command: RunKind, settings: RunSettings, shown: OutputFlags) -> int:
    """Train, and show how it goes; returns the exit code."""
    if settings.debug:
        set_up_logging(debug=True, quiet=shown.quiet)
    from tau_trainer.training.api import run_in_foreground

    mode: TerminalMode = "json" if shown.json else "quiet" if shown.quiet else "auto"
    command_line = ["tau-train", *sys.argv[1:]]
    return run_in_foreground(command, settings, mode, command_line).exit_code
