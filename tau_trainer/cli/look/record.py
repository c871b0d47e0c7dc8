"""``tau-train record``: play an environment and record a demonstration."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tau_trainer.cli.engines import EngineFlags
from tau_trainer.cli.flags import valued
from tau_trainer.cli.messages import set_up_logging, show_lines, show_status
from tau_trainer.cli.options import Debug, Force, Output, ResultsDir
from tau_trainer.cli.running import run_folder, writable
from tau_trainer.errors import SettingsError

_SUFFIX = ".demo"


def record_command(
    player: Annotated[str, Parameter(help="A run's id or folder, random, or MODULE:FUNCTION.")],
    /,
    *,
    output: Output,
    episodes: Annotated[int, valued("Episodes to record. [default: 20]", "N")] = 20,
    max_steps: Annotated[
        int | None, valued("Stop after this number of decisions, if episodes are long or endless.", "N")
    ] = None,
    deterministic: Annotated[bool, Parameter(help="Take a policy's most likely action instead of a sample.")] = False,
    seed: Annotated[int, valued("Seed of the player and the environment. [default: 0]", "N")] = 0,
    engines: EngineFlags = EngineFlags(),
    results_dir: ResultsDir = "results",
    force: Force = False,
    debug: Debug = False,
) -> int:
    """Play an environment and record a demonstration (.demo).

    PLAYER is a run's id or folder, `random`, or MODULE:FUNCTION, a function from spec, observations and mask to
    actions. You can learn from the file here (bc, iql, awac, gail, airl, behavioral_cloning) and in mlagents-learn.
    """
    from tau_trainer.cli.resolving import engine_settings

    set_up_logging(debug=debug)
    if output.suffix != _SUFFIX:
        raise SettingsError(f"--output {output}: the name of a demonstration must end in {_SUFFIX}")
    writable(output, force)
    if episodes < 1 or (max_steps is not None and max_steps < 1):
        raise SettingsError("--episodes and --max-steps must be at least 1")
    scripted = player == "random" or (":" in player and not Path(player).exists())
    run = None if scripted else run_folder(player, results_dir)
    settings = engine_settings(None if run is None else run / "configuration.yaml", engines, seed)
    show_status(f"recording {player} on {settings.env_settings.env_path or 'the editor'}")
    from tau_trainer.runs.session import on_interrupt
    from tau_trainer.training.recording import record

    asked = threading.Event()
    with on_interrupt(asked.set):
        written = record(
            settings,
            player if run is None else run,
            output,
            episodes=episodes,
            most=max_steps,
            deterministic=deterministic,
            stopped=asked.is_set,
            say=show_status,
        )
    for path, demonstration in written:
        returns, earned = demonstration.returns, ""
        if len(returns):
            earned = f", mean return {returns.mean():.4g}, from {returns.min():.4g} to {returns.max():.4g}"
        decisions = int((~demonstration.ended).sum())
        show_lines([f"written: {path} ({len(returns):,} episodes, {decisions:,} decisions{earned})"])
    return 0
