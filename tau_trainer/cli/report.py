"""``tau-train report``: one HTML file about a run, or about several runs of one thing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tau_trainer.cli.evaluate import Debug, ResultsDir, run_folder
from tau_trainer.cli.messages import set_up_logging, show_lines, show_status
from tau_trainer.cli.running import Force, Output, writable
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
    """Write the report and say where it is; returns the exit code."""
    set_up_logging(debug=debug)
    folders = [run_folder(run, Path(results_dir), "log.jsonl") for run in runs]
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise SettingsError(f"{' '.join(runs)}: names a run twice; name each once")
    if output is None and len(folders) > 1:
        raise SettingsError("a report of several runs belongs into none of their folders; say where with --output FILE")
    if output is not None and output.is_dir():
        raise SettingsError(f"--output {output}: is a folder; name a file such as {output / 'report.html'}")
    from tau_trainer.report import REPORT_NAME, RunRecord, render

    target = folders[0] / REPORT_NAME if output is None else writable(output, force)
    show_status(f"reading {', '.join(map(str, folders))}")
    text = render([RunRecord.load(folder) for folder in folders])
    atomic_write_text(target, text)
    show_lines([f"written: {target} ({len(text.encode()) / 1000:,.0f} kB)"])
    return 0
