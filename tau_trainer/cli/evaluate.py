"""``tau-train evaluate``: a finished run's policy on test rows, beside its baselines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from tau_trainer.cli.messages import set_up_logging, show_json, show_lines, show_status
from tau_trainer.cli.options import OUTPUT
from tau_trainer.errors import SettingsError

if TYPE_CHECKING:
    from tau_trainer.evaluation.candidates import Evaluation

Run = Annotated[str, Parameter(help="A run's id, or the path of its folder.")]
ResultsDir = Annotated[str, Parameter(help="Folder that holds the runs. [default: results]", metavar="DIR")]
Export = Annotated[
    Literal["best", "last"] | None,
    Parameter(help="The best policy by validation, where there is one, or the last. [default: as the run's settings]"),
]
Json = Annotated[bool, Parameter(group=OUTPUT, help="One JSON object on stdout, for machines.")]
Debug = Annotated[bool, Parameter(group=OUTPUT, help="Show tracebacks.")]


def evaluate_command(
    run: Run,
    /,
    *,
    export: Export = None,
    results_dir: ResultsDir = "results",
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Evaluate and show the result; returns the exit code."""
    set_up_logging(debug=debug)
    folder = run_folder(run, Path(results_dir))
    show_status(f"evaluating {folder}")
    from tau_trainer.training.stored import evaluate_copies, evaluate_run

    scores = evaluate_copies(folder, export)
    if scores is not None:
        if json:
            show_json(scores)
        else:
            rows = [(policy, key, value) for policy, found in scores.items() for key, value in found.items()]
            show_lines(f"{policy:<12} {key}  {value:.4g}" for policy, key, value in rows)
        return 0
    result = evaluate_run(folder, export)
    if json:
        show_json(result.to_dict())
    elif result.evaluation is not None:
        show_lines([*table(result.evaluation), result.sentence()])
    return 0


def table(result: Evaluation) -> list[str]:
    """The policy between its baselines, worst first, and the verdict."""
    scores = {name: (entry.reward, entry.accuracy) for name, entry in result.baselines.items()}
    scores["the policy"] = (result.reward, result.accuracy)
    rows = sorted(scores.items(), key=lambda row: (row[1][1], row[1][0]))
    lines = [f"{name:<12} {reward:>+8.3f} {accuracy:>9.1%}" for name, (reward, accuracy) in rows]
    return [f"{'test rows':<12} {'reward':>8} {'accuracy':>9}", *lines, "", result.sentence()]


def run_folder(run: str, results_dir: Path, *marks: str) -> Path:
    """The folder of the run that is called so. Raises SettingsError, with the nearest name, where there is none.

    ``marks``: files any of which tells a run's folder too, as configuration.yaml does.
    """
    from tau_trainer.settings.problems import did_you_mean

    for folder in (results_dir / run, Path(run)):
        if any((folder / mark).is_file() for mark in ("configuration.yaml", *marks)):
            return folder
    known = sorted(path.parent.name for path in results_dir.glob("*/configuration.yaml"))
    hint = did_you_mean(run, known) if known else "train one with `tau-train parallel`"
    raise SettingsError(f"{run}: no run of this name in {results_dir}; {hint}")
