"""The end of a run: last checkpoint, evaluation, models, curve, and the central report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tau_trainer.errors import TauError
from tau_trainer.metrics import RunResult, plot_learning_curve
from tau_trainer.tau.evaluation import TauEvaluation
from tau_trainer.training.exporting import export_policy
from tau_trainer.training.learner import Learner
from tau_trainer.training.run import TrainingRun
from tau_trainer.training.run_folder import RunFolder, atomic_write_json
from tau_trainer.training.states import PairState, RunReport, told


@dataclass(frozen=True, slots=True)
class _Scored:
    learner: Learner
    evaluation: TauEvaluation | None


async def conclude(run: TrainingRun, folder: RunFolder) -> RunReport:
    """Save, evaluate and export what was learned; write evaluation.json; return the report.

    What cannot be written (a full disk, say) is a warning in the report's errors, never the loss of the rest.
    """
    errors = [f"pair {pair.id}: {pair.trainer.error}" for pair in run.pairs if pair.trainer.error]
    if run.error is not None:
        errors.append(told(run.error))
    for learner in run.learners:
        learner.flush()
    for learner in run.learners:
        if learner.policy.version == 0:
            run.hub.warning(
                f"'{learner.name}' was never updated: {learner.decisions:,} decisions did not fill its buffer of "
                f"{learner.settings.hyperparameters.buffer_size:,}; raise max_steps or lower buffer_size"
            )
    if run.learners:
        await run.checkpointer.save(run.learners, run.pairs)
    scored = [await _score(run, learner) for learner in run.learners]
    models = [] if run.hurried else await _export(run, folder, scored, errors)
    evaluation = _evaluation(run, scored)
    if evaluation is not None:
        try:
            atomic_write_json(folder.evaluation, evaluation)
        except OSError as error:
            errors.append(
                f"'{folder.evaluation}' was not written ({error.strerror}); free some space and evaluate again"
            )
    return _report(run, folder, scored, evaluation, models, errors)


async def _score(run: TrainingRun, learner: Learner) -> _Scored:
    task = run.task
    if task is None or run.hurried:
        return _Scored(learner, None)
    policy = learner.policy
    return _Scored(learner, await learner.run_in_thread(lambda: task.evaluate(policy)))


def _best(scored: Sequence[_Scored]) -> _Scored | None:
    """The policy with the highest held-out accuracy; the first where there is none."""
    known = [one for one in scored if one.evaluation is not None]
    if known:
        return max(known, key=lambda one: one.evaluation.accuracy if one.evaluation else 0.0)
    return scored[0] if scored else None


async def _export(run: TrainingRun, folder: RunFolder, scored: Sequence[_Scored], errors: list[str]) -> list[Path]:
    """Every policy under its learner's name; of independent ones the best under the behavior's name too, first."""
    wanted = [(one.learner, one.learner.name) for one in scored]
    best = _best(scored)
    if best is not None and not run.plan.shared:
        wanted.insert(0, (best.learner, best.learner.spec.short_name))
    models: list[Path] = []
    for learner, name in wanted:
        work = partial(export_policy, learner.policy, learner.spec, folder.onnx(name))
        try:
            models.append(await learner.run_in_thread(work))
        except TauError as error:
            errors.append(str(error))
    return models


def _evaluation(run: TrainingRun, scored: Sequence[_Scored]) -> dict[str, Any] | None:
    """Content of evaluation.json: the best policy's scores, the run's counts, and every pair's."""
    best = _best(scored)
    if best is None or best.evaluation is None:
        return None
    return {
        **best.evaluation.to_dict(),
        "policy": best.learner.name,
        "decisions": run.decisions,
        "decisions_per_second": _speed(run),
        "wall_seconds": round(run.elapsed_seconds, 3),
        "pairs": {
            str(pair.id): {"decisions": pair.trainer.decisions, "accuracy": run.accuracy.get(pair.id)}
            for pair in run.pairs
        },
    }


def _speed(run: TrainingRun) -> float:
    """Decisions a second of this process while pairs were running."""
    return run.new_decisions / run.training_seconds if run.training_seconds > 0 else 0.0


def _report(
    run: TrainingRun,
    folder: RunFolder,
    scored: Sequence[_Scored],
    evaluation: Mapping[str, Any] | None,
    models: Sequence[Path],
    errors: Sequence[str],
) -> RunReport:
    best = _best(scored)
    failed = [pair for pair in run.pairs if pair.trainer.state is PairState.FAILED]
    outcome = "completed"
    if run.error is not None or len(failed) == len(run.pairs):
        outcome = "failed"
    elif run.cancelled:
        outcome = "cancelled"
    return RunReport(
        run_id=run.run_id,
        folder=folder.path,
        outcome=outcome,
        pairs=tuple(
            pair.metrics(run.accuracy.get(pair.id), per_decision=run.plan.tau is not None) for pair in run.pairs
        ),
        decisions=run.decisions,
        wall_seconds=run.elapsed_seconds,
        decisions_per_second=_speed(run),
        evaluation=evaluation,
        verdict=best.evaluation.sentence() if best is not None and best.evaluation is not None else None,
        models=tuple(models),
        errors=tuple(errors),
    )


def result_of(run: TrainingRun, report: RunReport, folder: RunFolder) -> RunResult:
    """The report as the last panel shows it."""
    evaluation = report.evaluation or {}
    files = {"policy": report.models[0]} if report.models else {}
    files |= {
        name: path
        for name, path in (
            ("evaluation", folder.evaluation),
            ("curve", folder.learning_curve),
            ("checkpoints", folder.checkpoints),
            ("log", folder.log),
        )
        if path.exists()
    }
    return RunResult(
        run_id=report.run_id,
        command=run.plan.command,
        outcome=report.outcome,
        decisions=report.decisions,
        wall_seconds=report.wall_seconds,
        decisions_per_second=report.decisions_per_second,
        verdict=report.verdict,
        reward=evaluation.get("reward"),
        accuracy=evaluation.get("accuracy"),
        accuracy_train=evaluation.get("accuracy_train"),
        baselines=run.task.baselines if run.task is not None else {},
        behaviors=run.snapshot().behaviors,
        files=files,
        errors=report.errors,
    )


def draw_curve(run: TrainingRun, folder: RunFolder) -> None:
    """Draw learning_curve.png from log.jsonl; a picture that fails is a warning."""
    run.hub.drain(10.0)
    try:
        plot_learning_curve(folder.path)
    except Exception as error:  # drawing must never cost a trained policy
        run.hub.warning(f"the learning curve was not drawn: {type(error).__name__}: {error}")
