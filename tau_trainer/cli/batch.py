"""``tau-train batch``: train the policies of an environment whose copies are tensors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tau_trainer.cli.options import BatchFlags, OutputFlags
from tau_trainer.cli.running import prepare

if TYPE_CHECKING:
    from tau_trainer.metrics import TerminalMode

Config = Annotated[str | None, Parameter(help="YAML file, or the name of a shipped one.")]


def batch(config: Config = None, /, *, run: BatchFlags | None = None, output: OutputFlags | None = None) -> int:
    """Resolve the settings, train, and show the report; returns the exit code."""
    from tau_trainer.cli.resolving import batched_settings

    shown = prepare(output)
    settings = batched_settings(config, run or BatchFlags(), shown)
    from tau_trainer.training.batched.api import train_batched

    mode: TerminalMode = "json" if shown.json else "quiet" if shown.quiet else "auto"
    return train_batched(settings, mode, ["tau-train", *sys.argv[1:]]).exit_code
