"""``tau-train match``: play policies against each other on an environment with teams."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tau_trainer.cli.engines import EngineFlags
from tau_trainer.cli.flags import valued
from tau_trainer.cli.messages import set_up_logging, show_json, show_lines, show_status
from tau_trainer.cli.options import Debug, Json, ResultsDir
from tau_trainer.cli.running import check_least, run_folder
from tau_trainer.errors import SettingsError


def match_command(
    *players: Annotated[
        str, Parameter(help="A run's id or folder, a checkpoint's folder, a model (.onnx), random, or MODULE:FUNCTION.")
    ],
    games: Annotated[int, valued("Games for each pair of players. [default: 200]", "N")] = 200,
    deterministic: Annotated[
        bool, Parameter(help="Policies and models take their most likely actions. [default: they sample]")
    ] = False,
    seed: Annotated[int, valued("Seed of the players and the environment. [default: 0]", "N")] = 0,
    engines: EngineFlags = EngineFlags(),
    results_dir: ResultsDir = "results",
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Play policies against each other on an environment with teams.

    A player is a run, a checkpoint, a model (.onnx), `random`, or MODULE:FUNCTION. Every player meets every other one,
    on each side. Prints how often each player won, drew and lost, with a 95 % interval.
    """
    from tau_trainer.cli.resolving import engine_settings

    set_up_logging(debug=debug)
    if len(players) < 2 or len({*players}) < len(players):
        raise SettingsError("a match needs at least two players, each named once: tau-train match A B --env ENV")
    check_least(1, games=games)
    check_least(0, seed=seed)
    contestants = [_found(player, results_dir) for player in players]
    runs = [folder / "configuration.yaml" for folder in contestants if isinstance(folder, Path)]
    settings = engine_settings(next((run for run in runs if run.is_file()), None), engines, seed)
    show_status(f"playing on {settings.env_settings.env_path or 'the editor'}")
    from tau_trainer.evaluation.matches import standings
    from tau_trainer.metrics.games import lines
    from tau_trainer.runs.session import on_interrupt
    from tau_trainer.training.matching import match

    asked = threading.Event()
    with on_interrupt(asked.set):
        found = match(settings, contestants, games, deterministic=deterministic, stopped=asked.is_set, say=show_status)
    totals = standings(found)
    if json:
        show_json(
            {
                "deterministic": deterministic,
                "matches": [
                    {"first": first, "second": second, **results.record} for (first, second), results in found.items()
                ],
                "standings": [total.record for total in totals],
            }
        )
        return 0
    how = "most likely actions" if deterministic else "actions drawn"
    show_lines(lines(list(found.values()), f"match, {how}"))
    if len(players) > 2:
        show_lines(["", *lines(totals, f"player, all games, {how}")])
    return 0


def _found(player: str, results_dir: str) -> str | Path:
    """A player's name, or the path of its policy. Raises SettingsError if there is none."""
    path = Path(player)
    if path.suffix == ".onnx" or (path / "manifest.json").is_file():
        return path
    if player == "random" or (":" in player and not path.exists()):
        return player
    return run_folder(player, results_dir)
