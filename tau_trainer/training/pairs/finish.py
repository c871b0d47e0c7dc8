"""The end of a run of pairs: last checkpoints, scores of the policies, and the choice of those to export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tau_trainer.evaluation.candidates import Candidate, best_of, make_candidate, still_rises
from tau_trainer.export import export_onnx
from tau_trainer.runs.callbacks import EvaluationInfo
from tau_trainer.runs.collector import Conclusion, Export
from tau_trainer.training.learning.learner import Learner

if TYPE_CHECKING:
    from tau_trainer.training.pairs.collector import PairsCollector


async def save(pairs: PairsCollector) -> None:
    """Validate the last policies, write the last summaries and checkpoints.

    Warn of learners that were never updated.
    """
    run, checkpointer = pairs.run, pairs.overseer.checkpointer
    for learner in pairs.learners:
        await _validate_last(pairs, learner)
        learner.flush()
        if learner.policy.version == 0:
            run.hub.warning(f"'{learner.name}' was never updated: {_why_never(learner, pairs.actors is None)}")
    _tell_of_absent(pairs)
    better = [learner for learner in pairs.learners if checkpointer.better(learner)]
    if pairs.plan.deterministic and better:
        better = pairs.learners  # all belong to one moment
    for learner in pairs.learners:
        if learner not in better:
            text = f"'{learner.name}' is no better than in its latest checkpoint, which is kept (save_best_only)"
            run.hub.event("checkpoint", behavior=learner.name, step=learner.decisions, message=text)
    better = [learner for learner in better if not checkpointer.saved(learner)]
    if better:
        await checkpointer.save(better, pairs.parallel.pairs, models=not run.hurried.is_set())


async def save_early(pairs: PairsCollector) -> None:
    """Save all learning before the last policies are played: a user who asked for the end may not wait for that."""
    checkpointer = pairs.overseer.checkpointer
    due = [learner for learner in pairs.learners if checkpointer.stale(learner) and checkpointer.better(learner)]
    await checkpointer.save(due, pairs.parallel.pairs)


def _why_never(learner: Learner, here: bool) -> str:
    """The reason why a learner was never updated, as the end of a sentence.

    ``here``: its agents act in this process.
    """
    made, missing, enough = learner.decisions, learner.algorithm.missing, learner.algorithm.rollout_size
    if skipped := learner.updates.skipped:
        met = "its only update met" if skipped == 1 else f"all its {skipped:,} updates met"
        return f"{met} NaN or infinity, and the weights were kept; the warnings say where"
    lost = learner.memory.lost if here else made - learner.progress.samples
    if lost and (made >= enough if enough else 2 * lost > made):
        return (
            f"{lost:,} of {made:,} decisions have no outcome, because their agents vanished without an end, or their "
            f"engine was lost or closed, and the others did not fill {missing}; end an agent's episode before it is "
            "removed, raise max_steps or lower buffer_size"
        )
    return f"{made:,} decisions did not fill {missing}; raise max_steps or lower buffer_size"


def _tell_of_absent(pairs: PairsCollector) -> None:
    """Warn of behaviors in the settings that no environment has shown."""
    shown = {learner.spec.short_name for learner in pairs.learners}
    absent = [f"'{name}'" for name in pairs.plan.settings.behaviors if name not in shown]
    if absent:
        met = ", ".join(f"'{name}'" for name in sorted(shown)) or "none"
        pairs.run.hub.warning(
            f"behaviors of the settings that never appeared: {', '.join(absent)}; those that did: {met}; correct or "
            "remove the names that do not match"
        )


async def _validate_last(pairs: PairsCollector, learner: Learner) -> None:
    """Validate the last policy, so that the best is chosen from all. A failure here does not end the run."""
    if pairs.run.hurried.is_set() or pairs.overseer.examiner is None:
        return
    try:
        scores = await learner.updates.in_thread(learner.judge.validate_last, learner.policy)
        pairs.run.hub.add_all(learner.name, scores)
    except Exception as error:
        name = type(error).__name__
        pairs.run.hub.warning(f"the last policy of '{learner.name}' was not validated: {name}: {error}")


async def conclude(pairs: PairsCollector) -> Conclusion:
    """Scores of the policies, and the policies to export."""
    candidates = await _evaluate(pairs)
    best = best_of(candidates)
    scores = best.evaluation if best is not None else None
    if best is None or scores is None:
        return Conclusion(_exports(pairs, candidates), chosen=_chosen(pairs, candidates))
    return Conclusion(
        _exports(pairs, candidates),
        evaluation={**best.to_dict(), "pairs": _accuracies(pairs)},
        verdict=" ".join([scores.sentence(), *_more(pairs, best.name)]),
        chosen={best.name: best.described()},
        baselines=scores.baselines,
    )


def _chosen(pairs: PairsCollector, candidates: Sequence[Candidate]) -> dict[str, str]:
    """The exported policy of each learner, in words; of independent policies, only the best is named."""
    best = best_of(candidates)
    named = candidates if pairs.plan.shared or best is None else [best]
    learners = pairs.overseer.pool.learners
    return {chosen.name: chosen.described() for chosen in named if learners[chosen.name].algorithm.exports}


def _more(pairs: PairsCollector, name: str) -> list[str]:
    """An advice if the learner of that name has made all its decisions and its accuracy still rose."""
    learner = next(learner for learner in pairs.learners if learner.name == name)
    if not (learner.progress.over and still_rises(learner.judge.accuracies)):
        return []
    twice = 2 * learner.progress.max_steps
    return [f"Validation accuracy still rose at the end, so more decisions would help: --max-steps {twice}."]


async def _evaluate(pairs: PairsCollector) -> list[Candidate]:
    """Every learner's policies, with their scores if the task has an evaluation."""
    examiner = None if pairs.run.hurried.is_set() else pairs.overseer.examiner
    wanted, tell = pairs.plan.settings.checkpoint_settings.export, pairs.run.callbacks.tell
    candidates = []
    for learner in pairs.learners:
        last, best = learner.judge.last(learner.policy), learner.judge.best
        work = partial(make_candidate, learner.name, learner.spec, last, best, wanted, examiner)
        policy = learner.name, learner.policy.version, learner.decisions
        if examiner is not None:
            tell("on_evaluation_begin", EvaluationInfo(*policy))
        candidates.append(await learner.updates.in_thread(work))
        if examiner is not None:
            found = candidates[-1].evaluation
            scores = {} if found is None else {"accuracy": found.accuracy, "reward": found.reward}
            tell("on_evaluation_end", EvaluationInfo(*policy, scores))
    return candidates


def _exports(pairs: PairsCollector, candidates: Sequence[Candidate]) -> list[Export]:
    """Every policy under its learner's name.

    The best of independent ones under the behavior's name too, as the first.
    """

    def export(candidate: Candidate, name: str) -> Export:
        scored = candidate.policies[candidate.exported]
        steps = scored.decisions if name == candidate.name else None
        return Export(name, partial(export_onnx, candidate.policy, candidate.spec), steps, scored.reward)

    learners = pairs.overseer.pool.learners
    candidates = [candidate for candidate in candidates if learners[candidate.name].algorithm.exports]
    best = best_of(candidates)
    first = [] if best is None or pairs.plan.shared else [export(best, best.spec.short_name)]
    return first + [export(candidate, candidate.name) for candidate in candidates]


def _accuracies(pairs: PairsCollector) -> Mapping[str, Any]:
    """The part of ``evaluation.json`` on every pair."""
    return {
        str(pair.id): {
            "decisions": pair.trainer.decisions,
            "validation_accuracy": pairs.overseer.accuracies.get(pair.id),
        }
        for pair in pairs.parallel.pairs
    }
