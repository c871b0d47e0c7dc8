"""What commands share: logging as the flags say, training in the foreground, and files that are written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tau_trainer.cli.messages import set_up_logging
from tau_trainer.cli.options import OutputFlags
from tau_trainer.errors import SettingsError

if TYPE_CHECKING:
    from tau_trainer.metrics import TerminalMode
    from tau_trainer.settings import RunSettings
    from tau_trainer.training.plan import RunKind

Force = Annotated[bool, Parameter(help="Overwrite the output file.")]
Output = Annotated[Path, Parameter(name=("--output", "-o"), help="File to write.", metavar="FILE")]


def prepare(output: OutputFlags | None) -> OutputFlags:
    """Set up logging as the flags say; flags that were not given get their defaults."""
    shown = output or OutputFlags()
    set_up_logging(debug=bool(shown.debug), quiet=shown.quiet)
    return shown


def train(command: RunKind, settings: RunSettings, shown: OutputFlags) -> int:
    """Train, and show how it goes; returns the exit code."""
    if settings.debug:
        set_up_logging(debug=True, quiet=shown.quiet)
    from tau_trainer.training.api import train as run

    mode: TerminalMode = "json" if shown.json else "quiet" if shown.quiet else "auto"
    return run(settings, command, terminal=mode, command_line=["tau-train", *sys.argv[1:]]).exit_code


def writable(path: Path, force: bool, flag: str = "--output") -> Path:
    """``path``, which can be written as ``flag`` says. Raises SettingsError."""
    if not path.parent.is_dir():
        raise SettingsError(f"{flag} {path}: the folder {path.parent} does not exist; make it first")
    if path.exists() and not force:
        raise SettingsError(f"{flag} {path}: exists already; choose another name, or add --force")
    return path
