"""Runs that have ended: their policies, evaluated or exported again. Imports torch only to load a policy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.specs import BehaviorSpec
from tau_trainer.training import behavior_json
from tau_trainer.training.checkpoint_index import learner_names
from tau_trainer.training.checkpoints import Checkpoint, latest_checkpoint
from tau_trainer.training.run_folder import RunFolder, atomic_write_json
from tau_trainer.training.task import Evaluation, task_of

if TYPE_CHECKING:
    from tau_trainer.models import Policy


def _open(run: Path) -> tuple[RunFolder, RunSettings]:
    folder = RunFolder(run, resumed=True)
    if not folder.configuration.is_file():
        raise SettingsError(f"there is no run in '{run}'; give the folder that training made, such as results/tau3")
    return folder, load_settings(folder.configuration)


def _newest(folder: RunFolder) -> Iterator[Checkpoint]:
    """The newest whole checkpoint of every learner. Raises CheckpointError if there is none."""
    found = [latest_checkpoint(folder.checkpoints, name).checkpoint for name in learner_names(folder.checkpoints)]
    whole = [checkpoint for checkpoint in found if checkpoint is not None]
    if not whole:
        raise CheckpointError(f"'{folder.path}' holds no whole checkpoint; train it first, or go on with --resume")
    yield from whole


def load_policy(checkpoint: Checkpoint, settings: RunSettings) -> tuple[Policy, BehaviorSpec]:
    """The policy of a checkpoint and the behavior it acts for. Raises CheckpointError."""
    from tau_trainer.algorithms import Setup, make_algorithm

    try:
        learner = checkpoint.manifest["learner"]
        spec = behavior_json.from_json(learner["behavior"])
        settings_of = settings.of_behavior(spec.short_name)
        algorithm = make_algorithm(Setup(spec, settings_of, seed=0, reward_width=learner["reward_components"]))
        algorithm.load(checkpoint.tensors, learner["algorithm"])
    except (CheckpointError, SettingsError, KeyError, ValueError, RuntimeError) as error:
        raise CheckpointError(
            f"'{checkpoint.path}' does not fit the settings ({error}); use those of the run's own configuration.yaml, "
            "or begin a new run with another --run-id"
        ) from error
    return algorithm.snapshot(), spec


def evaluate_run(run: Path) -> Evaluation:
    """Evaluate the best policy of a run on its task's held-out rows; evaluation.json gets the new scores.

    Raises SettingsError for a folder without such a run, CheckpointError, DataError.
    """
    folder, settings = _open(run)
    task = task_of(settings)
    if task is None:
        raise SettingsError(f"'{run}' has no task, so there are no held-out rows to evaluate it on")
    best: tuple[str, Evaluation] | None = None
    for checkpoint in _newest(folder):
        policy, _ = load_policy(checkpoint, settings)
        evaluation = task.evaluate(policy)
        if best is None or evaluation.accuracy > best[1].accuracy:
            best = (checkpoint.name, evaluation)
    assert best is not None
    _update_evaluation(folder, *best)
    return best[1]


def _update_evaluation(folder: RunFolder, policy: str, evaluation: Evaluation) -> None:
    """New scores; what only the run itself knew (speed, wall time, pairs) stays."""
    atomic_write_json(folder.evaluation, {**_evaluated(folder), **evaluation.to_dict(), "policy": policy})


def _evaluated(folder: RunFolder) -> dict[str, Any]:
    """What evaluation.json says so far; nothing where there is none."""
    return json.loads(folder.evaluation.read_text("utf-8")) if folder.evaluation.is_file() else {}


def export_run(run: Path, output: Path | None = None) -> list[Path]:
    """Export the newest checkpoint of every policy of a run as ONNX; ``output``: another file or folder.

    Raises SettingsError, CheckpointError, ExportError.
    """
    folder, settings = _open(run)
    checkpoints = list(_newest(folder))
    if output is not None and output.suffix == ".onnx" and len(checkpoints) > 1:
        raise SettingsError(f"'{run}' has {len(checkpoints)} policies; give --output a folder instead of a file")
    from tau_trainer.export import export_onnx

    best = _evaluated(folder).get("policy")
    written = []
    for checkpoint in checkpoints:
        policy, spec = load_policy(checkpoint, settings)
        # Of independent policies the best one stands under the behavior's own name too, as at the end of a run.
        for name in dict.fromkeys([checkpoint.name, *([spec.short_name] if checkpoint.name == best else [])]):
            path = folder.onnx(name)
            if output is not None:
                path = output if output.suffix == ".onnx" else output / path.name
            written.append(export_onnx(policy, spec, path))
    return written
