"""``tau-train plot``: plot reward and losses of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from tau_trainer.cli.flags import output_to, valued
from tau_trainer.cli.messages import set_up_logging, show_lines, show_status
from tau_trainer.cli.options import Debug, Force, ResultsDir
from tau_trainer.cli.running import check_least, run_folders, writable
from tau_trainer.errors import SettingsError

PLOT_NAME = "plot.png"


def plot_command(
    runs: Annotated[
        list[str],
        Parameter(help="A run's id, or the path of its folder. Runs that differ only in seed share a band."),
    ],
    /,
    *,
    what: Annotated[Literal["reward", "loss", "both"], Parameter(help="Values to plot. [default: reward]")] = "reward",
    x: Annotated[
        Literal["decisions", "time"], Parameter(help="Unit of the horizontal axis. [default: decisions]")
    ] = "decisions",
    smooth: Annotated[int, valued("Number of points to average. [default: 1, no averaging]", "N")] = 1,
    output: Annotated[
        Path | None, output_to("File to write. [default: plot.png in the run's folder]", "FILE", "--out")
    ] = None,
    force: Force = False,
    results_dir: ResultsDir = "results",
    debug: Debug = False,
) -> int:
    """Plot reward and losses of runs.

    Runs that differ only in their seed share one line with a band; every other run has its own line.
    """
    set_up_logging(debug=debug)
    folders = run_folders(runs, results_dir, output, "picture")
    check_least(1, smooth=smooth)
    if output is not None and (output.is_dir() or output.suffix.lower() != ".png"):
        raise SettingsError(f"--output {output}: must be a file that ends in .png")
    target = folders[0] / PLOT_NAME if output is None else writable(output, force)
    show_status(f"reading {', '.join(map(str, folders))}")
    from tau_trainer.metrics.plot import save_figure
    from tau_trainer.report.picture import draw_runs

    save_figure(draw_runs(folders, what, x, smooth), target)
    show_lines([f"written: {target}"])
    return 0
