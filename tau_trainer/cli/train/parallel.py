"""``tau-train parallel``: train TauAgent-AgentTrainer pairs side by side."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from tau_trainer.cli.options import ParallelFlags
from tau_trainer.cli.running import prepare, train


def parallel(
    config: Annotated[
        str | None,
        Parameter(help="YAML file, or the name of a shipped one: tau3, tau384, 3DBall, Basic. [default: tau3]"),
    ] = None,
    /,
    *,
    flags: ParallelFlags = ParallelFlags(),
) -> int:
    """Train TauAgent-AgentTrainer pairs side by side, then evaluate and export.

    Each pair is an agent and its trainer, with its own engine. All files of the run go to results/RUN-ID. Press Ctrl-C
    once to finish, save and export; press it twice to save and quit.
    """
    from tau_trainer.cli.resolving import parallel_settings

    prepare(flags.output)
    return train("parallel", parallel_settings(config, flags), flags.output)
