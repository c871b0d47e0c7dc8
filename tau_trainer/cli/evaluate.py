"""``tau-train evaluate``: a finished run's policy on held-out rows, beside its baselines."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from tau_trainer.cli.messages import show_json, show_lines
from tau_trainer.cli.options import OUTPUT, OutputFlags
from tau_trainer.cli.running import prepare
from tau_trainer.errors import SettingsError

Run = Annotated[str, Parameter(help="A run's id, or the path of its folder.")]
ResultsDir = Annotated[str, Parameter(help="Folder that holds the runs. [default: results]", metavar="DIR")]
Debug = Annotated[bool, Parameter(group=OUTPUT, help="Log everything; show tracebacks.")]


def evaluate(
    run: Run,
    /,
    *,
    results_dir: ResultsDir = "results",
    json: Annotated[bool, Parameter(group=OUTPUT, help="One JSON object on stdout, for machines.")] = False,
    debug: Debug = False,
) -> int:
    """Evaluate and show the result; returns the exit code."""
    prepare(OutputFlags(debug=debug))
    folder = run_folder(run, Path(results_dir))
    from tau_trainer.training import evaluate_run

    result = evaluate_run(folder)
    if json:
        show_json(_plain(result))
    else:
        show_lines([result.sentence()])
    return 0


def run_folder(run: str, results_dir: Path) -> Path:
    """The folder of the run that is called so. Raises SettingsError, with the nearest name, where there is none."""
    from tau_trainer.settings.problems import did_you_mean

    for folder in (results_dir / run, Path(run)):
        if (folder / "configuration.yaml").is_file():
            return folder
    known = sorted(path.parent.name for path in results_dir.glob("*/configuration.yaml"))
    hint = did_you_mean(run, known) if known else "train one with `tau-train parallel`"
    raise SettingsError(f"{run}: no run of this name in {results_dir}; {hint}")


def _plain(value: Any) -> Any:
    """Numbers, texts, lists and mappings only."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {entry.name: _plain(getattr(value, entry.name)) for entry in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, Path):
        return str(value)
    return value.tolist() if hasattr(value, "tolist") else value
