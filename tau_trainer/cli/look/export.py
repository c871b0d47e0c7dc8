"""``tau-train export``: a run's policy as ONNX with the tensor names that the plugin in the game expects."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from tau_trainer.cli.flags import output_to
from tau_trainer.cli.messages import set_up_logging, show_lines, show_status
from tau_trainer.cli.options import Debug, Export, ResultsDir, Run
from tau_trainer.cli.running import run_folder
from tau_trainer.errors import SettingsError


def export_command(
    run: Run,
    /,
    *,
    output: Annotated[str | None, output_to("File or folder to write to. [default: the run's folder]", "PATH")] = None,
    export: Export = None,
    form: Annotated[
        Literal["unity", "godot"] | None,
        Parameter(
            name="--format",
            help="Tensor names of ML-Agents (Unity, Unreal), or of Godot RL Agents. [default: as the game's engine]",
        ),
    ] = None,
    results_dir: ResultsDir = "results",
    debug: Debug = False,
) -> int:
    """Write a run's policy as ONNX for Unity.

    The command compares the file with the network, using onnxruntime, before it returns.
    """
    set_up_logging(debug=debug)
    folder = run_folder(run, results_dir)
    target = None if output is None else Path(output)
    if target is not None and not target.is_dir() and not target.parent.is_dir():
        raise SettingsError(f"--output {output}: the folder {target.parent} does not exist; make it first")
    show_status(f"exporting {folder}")
    from tau_trainer.training.stored import export_run

    show_lines(f"written and checked: {path} ({which})" for path, which in export_run(folder, target, export, form))
    return 0
