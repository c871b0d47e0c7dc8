"""Checks whether a run can be resumed or played as requested, before any of its files is touched."""

from __future__ import annotations

from typing import Any, NotRequired

from pydantic import StrictFloat, StrictInt, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from tau_trainer.errors import CheckpointError, RunFinishedError
from tau_trainer.runs.checkpoint_index import learner_names
from tau_trainer.runs.checkpoint_sets import latest_set
from tau_trainer.runs.checkpoints import Checkpoint, latest_checkpoint
from tau_trainer.runs.folder import RunFolder
from tau_trainer.training.learning.returns import EpisodeReturns
from tau_trainer.training.plan import RunPlan
from tau_trainer.training.stored import load_policy


class _Learner(TypedDict):
    decisions: StrictInt
    recent_returns: NotRequired[list[StrictFloat]]


class _Manifest(TypedDict):
    """The fields read from a manifest before a run is resumed.

    Its author may be a stranger; older ones have fewer fields.
    """

    learner: _Learner
    pairs: dict[int, StrictInt]
    generation: StrictInt
    task: NotRequired[dict[str, Any]]
    lessons: NotRequired[dict[str, Any]]
    self_play: NotRequired[dict[str, Any]]


_READABLE = TypeAdapter(_Manifest)


def check_resume(folder: RunFolder, plan: RunPlan) -> None:
    """Check everything that resuming needs, except the engines.

    Raises:
        CheckpointError: nothing was saved, all of it is damaged, or it does not fit the requested settings.
        RunFinishedError: the run has already reached max_steps.
    """
    checkpoints = _whole(folder)
    for checkpoint in checkpoints:
        *_, spec = load_policy(checkpoint, plan.settings)
        _check_manifest(checkpoint)
        _check_sharing(checkpoint, plan, shared=checkpoint.name == spec.short_name)
        _check_task(checkpoint, plan)
    if plan.inference:
        return
    if enough := [checkpoint.name for checkpoint in checkpoints if _learned_enough(checkpoint, plan)]:
        if _finished(checkpoints, plan):
            raise RunFinishedError(
                f"'{enough[0]}' in '{folder.path}' has already reached its criterion, so there was nothing to do; "
                f"raise --criterion to continue, or write the run's models again with: tau-train export {folder.path}"
            )
    elif _finished(checkpoints, plan):
        raise RunFinishedError(
            f"the run in '{folder.path}' has already reached max_steps, so there was nothing to do; raise --max-steps "
            f"to continue, or write its models again with: tau-train export {folder.path}"
        )


def _whole(folder: RunFolder) -> list[Checkpoint]:
    """The checkpoints from which the run continues."""
    whole = latest_set(folder.checkpoints)
    for name in learner_names(folder.checkpoints):
        latest = None if name in whole.checkpoints else latest_checkpoint(folder.checkpoints, name)
        if latest is not None and latest.checkpoint is None:
            raise CheckpointError(
                f"no checkpoint of '{name}' can be read: {' '.join(latest.warnings)} "
                "Restore one from a copy, or start the run again with --force."
            )
    if not whole.checkpoints:
        where = "a checkpoint of all its policies was complete" if whole.passed else "anything was saved"
        said = f"{' '.join(whole.warnings)} Restore it from a copy, or " if whole.warnings else ""
        raise CheckpointError(
            f"the run in '{folder.path}' ended before {where}, so there is nothing to resume; "
            f"{said}start it again with --force"
        )
    return [*whole.checkpoints.values()]


def _check_manifest(checkpoint: Checkpoint) -> None:
    try:
        _READABLE.validate_python(checkpoint.manifest)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise CheckpointError(
            f"'{checkpoint.path}': '{where}' in its manifest cannot be read ({first['msg']}); restore the checkpoint "
            "from a copy, or start the run again with --force"
        ) from None


def _check_sharing(checkpoint: Checkpoint, plan: RunPlan, *, shared: bool) -> None:
    if shared != plan.shared:
        kinds = {True: "one policy for all pairs (shared)", False: "a policy for each pair (independent)"}
        raise CheckpointError(
            f"'{checkpoint.path}' is of a run with {kinds[shared]}, but you ask for {kinds[plan.shared]}; resume "
            f"it with --policy {'shared' if shared else 'independent'}, or start a new run with another --run-id"
        )


def _check_task(checkpoint: Checkpoint, plan: RunPlan) -> None:
    asked = plan.task.identity if plan.task is not None else {}
    for what, known in checkpoint.manifest.get("task", {}).items():  # older checkpoints have no "task"
        if asked.get(what, known) != known:
            raise CheckpointError(
                f"'{checkpoint.path}' learned from another {what} (or from one that was read differently); "
                "resume it with the one that it started with, or start a new run with another --run-id"
            )


def _finished(checkpoints: list[Checkpoint], plan: RunPlan) -> bool:
    if not plan.shared and len(checkpoints) < plan.pairs:
        return False  # a new pair has not trained yet
    return all(
        _learned_enough(checkpoint, plan)
        or checkpoint.manifest["learner"]["decisions"] >= plan.max_steps(_behavior(checkpoint))
        for checkpoint in checkpoints
    )


def _learned_enough(checkpoint: Checkpoint, plan: RunPlan) -> bool:
    returns = EpisodeReturns(plan.settings.of_behavior(_behavior(checkpoint)))
    returns.load(checkpoint.manifest["learner"].get("recent_returns", ()))  # older checkpoints have none
    return returns.reached


def _behavior(checkpoint: Checkpoint) -> str:
    name: str = checkpoint.manifest["learner"]["behavior"]["name"]
    return name.split("?")[0]
