"""``tau-train evaluate``: a finished run's policy on test rows, next to its baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tau_trainer.cli.messages import set_up_logging, show_json, show_lines, show_status
from tau_trainer.cli.options import Debug, Export, Json, ResultsDir, Run
from tau_trainer.cli.running import run_folder

if TYPE_CHECKING:
    from tau_trainer.evaluation.candidates import Evaluation


def evaluate_command(
    run: Run,
    /,
    *,
    export: Export = None,
    results_dir: ResultsDir = "results",
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Evaluate a finished run on test rows.

    Plays every row once with the deterministic action. Compares reward and decoded accuracy with baselines that use no
    input (zeros, the best constant, the majority answer) and with supervised learners (ridge, nearest neighbour, a
    logistic classifier).
    """
    set_up_logging(debug=debug)
    folder = run_folder(run, results_dir)
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
    """The policy and its baselines, worst first, and the verdict."""
    scores = {name: (entry.reward, entry.accuracy) for name, entry in result.baselines.items()}
    scores["the policy"] = (result.reward, result.accuracy)
    rows = sorted(scores.items(), key=lambda row: (row[1][1], row[1][0]))
    lines = [f"{name:<12} {reward:>+8.3f} {accuracy:>9.1%}" for name, (reward, accuracy) in rows]
    return [f"{'test rows':<12} {'reward':>8} {'accuracy':>9}", *lines, "", result.sentence()]
