"""``tau-train status``: watch a run in another process or on another machine."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tau_trainer.cli.messages import set_up_logging, show_lines, show_status
from tau_trainer.cli.options import Debug, Json, ResultsDir
from tau_trainer.cli.running import run_folder
from tau_trainer.errors import SettingsError
from tau_trainer.shown import shown

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tau_trainer.metrics.status import Status

_LOOK_S = 1.0


def status_command(
    run: Annotated[str | None, Parameter(help="A run's id, or the path of its folder. [default: the newest]")] = None,
    /,
    *,
    watch: Annotated[bool, Parameter(negative="", help="Update until the run ends or you press Ctrl-C.")] = False,
    json: Json = False,
    results_dir: ResultsDir = "results",
    debug: Debug = False,
) -> int:
    """Watch a run in another process or on another machine.

    Shows the run's live table from any machine that can read its folder: pairs, speed, the age of policies, what the
    run waits for. With --watch, it updates until the run ends.
    """
    set_up_logging(debug=debug)
    from tau_trainer.metrics.status import read_status

    path = _file(run, results_dir)
    status = read_status(path)
    if json:
        from dataclasses import asdict

        from tau_trainer.metrics.jsonl import to_line

        show_lines([to_line({**asdict(status), "sentence": status.sentence(time.time())}).rstrip()])
        return 0
    from rich.live import Live

    from tau_trainer.console import Console

    console = Console()
    if not watch or status.outcome is not None:
        console.print(_shown(status))
        return 0
    show_status(f"watching {path.parent}; press Ctrl-C to stop watching (the run continues)")
    with contextlib.suppress(KeyboardInterrupt), Live(_shown(status), console=console, auto_refresh=False) as live:
        while status.outcome is None:
            time.sleep(_LOOK_S)
            status = read_status(path)
            live.update(_shown(status), refresh=True)
    return 0


def _file(run: str | None, results_dir: str) -> Path:
    """The run's status file. Raises SettingsError if there is none."""
    from tau_trainer.metrics.status import FILE_NAME

    if run is None:
        found = sorted(Path(results_dir).glob(f"*/{FILE_NAME}"), key=lambda path: path.stat().st_mtime)
        if not found:
            raise SettingsError(f"no run in {results_dir} has a status; start a run, or name another --results-dir")
        return found[-1]
    path = run_folder(run, results_dir) / FILE_NAME
    if not path.is_file():
        raise SettingsError(f"{run}: this run has no status yet; runs of earlier versions never have one")
    return path


def _shown(status: Status) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from tau_trainer.metrics.table import RunView

    return Group(RunView(status.run, {}), Text(shown(status.sentence(time.time()))))
