"""What the commands that train share: logging, the command line for the record, and the report at the end."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from tau_trainer.cli.messages import set_up_logging
from tau_trainer.cli.options import OutputFlags

if TYPE_CHECKING:
    from tau_trainer.settings import RunSettings


def prepare(output: OutputFlags | None) -> OutputFlags:
    """Set up logging as the flags say; flags that were not given get their defaults."""
    shown = output or OutputFlags()
    set_up_logging(debug=bool(shown.debug), quiet=shown.quiet)
    return shown


def heed(settings: RunSettings, shown: OutputFlags) -> OutputFlags:
    """What the settings ask of the command itself: a device that is there, and a log of everything if they say so.

    Raises SettingsError for a device that is not there.
    """
    from tau_trainer.settings import check_device

    check_device(settings)
    return prepare(replace(shown, debug=True)) if settings.debug and not shown.debug else shown


def command_line() -> list[str]:
    """The command as it was typed, for ``run.json``."""
    return ["tau-train", *sys.argv[1:]]
