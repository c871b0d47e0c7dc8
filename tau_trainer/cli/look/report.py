"""``tau-train report``: one HTML file about a run, or about several runs of the same experiment."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from tau_trainer.cli.messages import set_up_logging, show_lines, show_status
from tau_trainer.cli.options import Debug, Force, Output, ResultsDir
from tau_trainer.cli.running import run_folders, writable
from tau_trainer.errors import SettingsError
from tau_trainer.files import atomic_write_text


def report_command(
    runs: Annotated[
        list[str], Parameter(help="A run's id, or the path of its folder; several for runs with different seeds.")
    ],
    /,
    *,
    output: Output | None = None,
    force: Force = False,
    results_dir: ResultsDir = "results",
    debug: Debug = False,
) -> int:
    """Write one HTML file about a run.

    Shows curves with bands, the evaluation next to its baselines, settings, machine, faults and checkpoints. The file
    needs no network and opens in any browser. Several runs are shown together, as seeds of the same experiment.
    """
    set_up_logging(debug=debug)
    folders = run_folders(runs, results_dir, output, "report")
    if output is not None and output.is_dir():
        raise SettingsError(f"--output {output}: this is a folder; name a file such as {output / 'report.html'}")
    from tau_trainer.report import REPORT_NAME, RunRecord, render

    target = folders[0] / REPORT_NAME if output is None else writable(output, force)
    show_status(f"reading {', '.join(map(str, folders))}")
    text = render([RunRecord.load(folder) for folder in folders])
    atomic_write_text(target, text)
    show_lines([f"written: {target} ({len(text.encode()) / 1000:,.0f} kB)"])
    return 0
