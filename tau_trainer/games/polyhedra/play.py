"""``tau-train play``: play a game turn by turn between fixed players and networks of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from tau_trainer.cli.messages import set_up_logging, show_lines
from tau_trainer.cli.options import Debug, Force, ResultsDir
from tau_trainer.cli.progress import ProgressBar
from tau_trainer.cli.running import writable
from tau_trainer.errors import SettingsError

_WHO = "A fixed player, or a run's id or folder."


def play_command(
    game: Annotated[Literal["hironaka"], Parameter(help="The polyhedra game.", metavar="GAME")],
    /,
    *,
    host: Annotated[str, Parameter(help=_WHO, metavar="NAME|RUN")],
    agent: Annotated[str, Parameter(help=_WHO, metavar="NAME|RUN")],
    dimension: Annotated[int | None, Parameter(help="Dimension of the points. [default: the network's, or 3]")] = None,
    points: Annotated[int | None, Parameter(help="Points at the start. [default: the network's, or 5]")] = None,
    max_value: Annotated[
        int | None, Parameter(help="Largest coordinate at the start. [default: the network's, or 20]")
    ] = None,
    start: Annotated[
        str | None, Parameter(help="Points to start from, such as '2,0,0 0,3,0 0,0,5'.", metavar="POINTS")
    ] = None,
    reposition: Annotated[bool, Parameter(help="Shift the smallest value of each coordinate to 0 every turn.")] = False,
    seed: Annotated[int, Parameter(help="Random seed of the start and the players. [default: 0]", metavar="N")] = 0,
    max_steps: Annotated[int, Parameter(help="Maximum turns of a game. [default: 100]", metavar="N")] = 100,
    playoff: Annotated[
        int | None,
        Parameter(help="Play game after game for this number of turns; count games.", metavar="TURNS"),
    ] = None,
    tree: Annotated[
        Path | None,
        Parameter(help="Draw the outcome of every possible reply to this host: .png or .svg.", metavar="FILE"),
    ] = None,
    force: Force = False,
    results_dir: ResultsDir = "results",
    debug: Debug = False,
) -> int:
    """Play, and print the game; returns the exit code."""
    set_up_logging(debug=debug)
    rows = None if start is None else _rows(start)
    least = {"--dimension": (dimension, 2), "--points": (points, 1), "--max-value": (max_value, 1)}
    least |= {"--max-steps": (max_steps, 1), "--playoff": (playoff, 1), "--seed": (seed, 0)}
    for flag, (value, low) in least.items():
        if value is not None and value < low:
            raise SettingsError(f"{flag} {value}: must be at least {low}")
    if tree is not None:
        from tau_trainer.games.polyhedra.drawing import picture_format

        picture_format(writable(tree, force, "--tree"))
    from tau_trainer.games.polyhedra.table import Game, Table

    table = Table(Game(host, agent, dimension, points, max_value, rows, reposition, max_steps, seed, str(results_dir)))
    if playoff is not None:
        turns = playoff
        with ProgressBar() as progress:
            [games] = table.playoff(turns, on_turn=lambda turn: progress.count("playing", turn, turns, "turns"))
        show_lines([f"host {host} against agent {agent}: {games:,} games in {playoff:,} turns"])
    else:
        show_lines(table.play())
    if tree is not None:
        show_lines([f"written: {tree} ({table.draw_tree(tree):,} positions)"])
    return 0


def _rows(text: str) -> tuple[tuple[int, ...], ...]:
    """Points from ``2,0,0 0,3,0``. Raises SettingsError."""
    try:
        rows = tuple(tuple(int(value) for value in row.split(",")) for row in text.split())
    except ValueError:
        rows = ()
    if not rows or len({len(row) for row in rows}) > 1 or len(rows[0]) < 2 or min(map(min, rows)) < 0:
        raise SettingsError(f"--start '{text}': must be points of whole numbers from 0, such as '2,0,0 0,3,0 0,0,5'")
    return rows
