"""The end of a run: last checkpoint, evaluation, models, curve, and the central report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tau_trainer.errors import TauError
from tau_trainer.evaluation.candidates import Candidate, best_of, make_candidate
from tau_trainer.export import export_onnx
from tau_trainer.metrics import PairState, RunReport, plot_learning_curve
from tau_trainer.training.callbacks import EvaluationInfo
from tau_trainer.training.learner import Learner
from tau_trainer.training.run import TrainingRun
from tau_trainer.training.run_folder import RunFolder, atomic_write_json
from tau_trainer.training.snapshots import pair_metrics
from tau_trainer.training.states import told

_MOST_LISTED = 8
"""Policies that the last panel names."""


async def save(run: TrainingRun) -> list[str]:
    """Validate the last policies, write the last summaries and checkpoints, and say who never had enough to learn from.

    Returns a sentence for each learner that could not be saved.
    """
    for learner in run.learners:
        await _validate_last(run, learner)
        learner.flush()
        if learner.policy.version == 0:
            run.hub.warning(
                f"'{learner.name}' was never updated: {learner.decisions:,} decisions did not fill "
                f"{learner.algorithm.missing}; raise max_steps or lower buffer_size"
            )
    better = [learner for learner in run.learners if run.checkpointer.better(learner)]
    if run.plan.deterministic and better:
        better = run.learners  # they are one moment
    for learner in run.learners:
        if learner not in better:
            text = f"'{learner.name}' is no better than in its newest checkpoint, which stays that (save_best_only)"
            run.hub.event("checkpoint", behavior=learner.name, step=learner.decisions, message=text)
    if better:
        await run.checkpointer.save(better, run.pairs, models=not run.at_once)
    return list(dict.fromkeys(run.checkpointer.failures.values()))


async def _validate_last(run: TrainingRun, learner: Learner) -> None:
    """What is saved and exported is the best of all, the last among them. What goes wrong here costs no run."""
    if run.at_once or run.examiner is None:
        return
    try:
        run.hub.add_all(learner.name, await learner.run_in_thread(learner.validate_last))
    except Exception as error:
        run.hub.warning(f"the last policy of '{learner.name}' was not validated: {type(error).__name__}: {error}")


async def evaluate_policies(run: TrainingRun) -> list[Candidate]:
    """Every learner's policies, with their scores where the task has an evaluation."""
    examiner = None if run.at_once else run.examiner
    wanted = run.plan.settings.checkpoint_settings.export
    candidates = []
    for learner in run.learners:
        work = partial(make_candidate, learner.name, learner.spec, learner.last, learner.best, wanted, examiner)
        told = learner.name, learner.policy.version, learner.decisions
        if examiner is not None:
            run.callbacks.tell("on_evaluation_begin", EvaluationInfo(*told))
        candidates.append(await learner.run_in_thread(work))
        if examiner is not None:
            found = candidates[-1].evaluation
            scores = {} if found is None else {"accuracy": found.accuracy, "reward": found.reward}
            run.callbacks.tell("on_evaluation_end", EvaluationInfo(*told, scores))
    return candidates


async def export_policies(
    run: TrainingRun, folder: RunFolder, candidates: Sequence[Candidate]
) -> tuple[list[Path], list[str]]:
    """Every policy under its learner's name; of independent ones the best under the behavior's name too, first.

    Returns the files, and a sentence for each that could not be written.
    """
    candidates = [one for one in candidates if run.pool.learners[one.name].algorithm.exports]
    wanted = [(one, one.name) for one in candidates]
    best = best_of(candidates)
    if best is not None and not run.plan.shared:
        wanted.insert(0, (best, best.spec.short_name))
    models, errors = list[Path](), list[str]()
    for one, name in () if run.at_once else wanted:
        try:
            work = partial(export_onnx, one.policy, one.spec, folder.onnx(name))
            models.append(await run.pool.learners[one.name].run_in_thread(work))
        except TauError as error:
            errors.append(str(error))
    return models, errors


async def tell_of_models(run: TrainingRun, folder: RunFolder, candidates: Sequence[Candidate]) -> None:
    """Name the exported policies in training_status.json."""
    written = [one for one in candidates if folder.onnx(one.name).is_file()]
    models = {one.name: one.policies[one.exported].decisions for one in written}
    for learner in run.learners[-1:]:
        await run.checkpointer.write_status(learner, models)


def write_evaluation(
    run: TrainingRun, folder: RunFolder, candidates: Sequence[Candidate]
) -> tuple[dict[str, Any] | None, list[str]]:
    """Write evaluation.json: the best policy's scores, the run's counts, and every pair's.

    Returns its content, and a sentence if it could not be written.
    """
    best = best_of(candidates)
    if best is None or best.evaluation is None:
        return None, []
    content = {
        **best.to_dict(),
        "decisions": run.decisions,
        "decisions_per_second": _speed(run),
        "wall_seconds": round(run.elapsed_seconds, 3),
        "pairs": {
            str(pair.id): {
                "decisions": pair.trainer.decisions,
                "validation_accuracy": run.validation_accuracy.get(pair.id),
            }
            for pair in run.pairs
        },
    }
    try:
        atomic_write_json(folder.evaluation, content)
    except TauError as error:
        return content, [str(error)]
    return content, []


def _speed(run: TrainingRun) -> float:
    """Decisions a second of this process while pairs were running."""
    return run.new_decisions / run.training_seconds if run.training_seconds > 0 else 0.0


def make_report(
    run: TrainingRun,
    folder: RunFolder,
    candidates: Sequence[Candidate],
    evaluation: Mapping[str, Any] | None,
    models: Sequence[Path],
    errors: Sequence[str],
) -> RunReport:
    """The central report; ``errors``: what could not be written."""
    best = best_of(candidates)
    scores = best.evaluation if best is not None else None
    failed = [pair for pair in run.pairs if pair.trainer.state is PairState.FAILED]
    outcome = "completed"
    if run.error is not None or len(failed) == len(run.pairs):
        outcome = "failed"
    elif run.plan.inference:
        outcome = "played"
    elif run.cancelled:
        outcome = "cancelled"
    told_by_pairs = [f"pair {pair.id}: {pair.trainer.error}" for pair in run.pairs if pair.trainer.error]
    told_by_run = [told(run.error)] if run.error is not None else []
    files = {
        "evaluation": folder.evaluation,
        "curve": folder.learning_curve,
        "checkpoints": folder.checkpoints,
        "log": folder.log,
    }
    files = {name: path for name, path in files.items() if path.exists()}
    return RunReport(
        run_id=run.run_id,
        folder=folder.path,
        command=run.plan.command,
        outcome=outcome,
        decisions=run.decisions,
        wall_seconds=run.elapsed_seconds,
        decisions_per_second=_speed(run),
        pairs=tuple(pair_metrics(run, pair) for pair in run.pairs),
        evaluation=evaluation,
        verdict=f"{scores.sentence()} {best.sentence()}" if best is not None and scores is not None else None,
        baselines=scores.baselines if scores is not None else {},
        behaviors=run.snapshot().behaviors,
        models=tuple(models),
        files=_listed(models) | files,
        errors=(*told_by_pairs, *told_by_run, *errors),
    )


def _listed(models: Sequence[Path]) -> dict[str, Path]:
    """Models by what they are called in the last panel; where there are very many, the folder of those left out."""
    if len(models) < 2:
        return {"policy": models[0]} if models else {}
    named = {f"policy {path.stem}": path for path in models[:_MOST_LISTED]}
    more = len(models) - len(named)
    return named | ({f"{more} policies more": models[-1].parent} if more else {})


def draw_curve(run: TrainingRun, folder: RunFolder) -> None:
    """Draw learning_curve.png from log.jsonl; a picture that fails is a warning."""
    if run.at_once:
        return
    run.hub.drain(10.0)
    try:
        plot_learning_curve(folder.path)
    except Exception as error:  # drawing must never cost a trained policy
        run.hub.warning(f"the learning curve was not drawn: {type(error).__name__}: {error}")
