"""``tau-train parallel``: train TauAgent-AgentTrainer pairs side by side."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from tau_trainer.cli.options import EngineFlags, LearningFlags, OutputFlags, PairFlags, RunFlags
from tau_trainer.cli.running import prepare, train


def parallel(
    config: Annotated[
        str | None,
        Parameter(help="YAML file, or the name of a shipped one: tau3, tau384, 3DBall, Basic. [default: tau3]"),
    ] = None,
    /,
    *,
    pairs: PairFlags | None = None,
    run: RunFlags | None = None,
    engines: EngineFlags | None = None,
    learning: LearningFlags | None = None,
    output: OutputFlags | None = None,
) -> int:
    """Resolve the settings, train, and show the report; returns the exit code."""
    from tau_trainer.cli.resolving import parallel_settings

    shown = prepare(output)
    flags = (pairs or PairFlags(), learning or LearningFlags(), shown)
    settings = parallel_settings(config, run or RunFlags(), engines or EngineFlags(), *flags)
    return train("parallel", settings, shown)
