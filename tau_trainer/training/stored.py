"""Finished runs: evaluate or export their policies again. Imports torch only to load a policy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.evaluation.candidates import Candidate, ScoredPolicy, best_of, make_candidate, stored_best
from tau_trainer.files import parse_json
from tau_trainer.metrics import MetricsHub
from tau_trainer.runs.checkpoint_index import learner_names
from tau_trainer.runs.checkpoints import Checkpoint, latest_checkpoint
from tau_trainer.runs.folder import RunFolder, atomic_write_json
from tau_trainer.settings import ExportChoice, RunSettings, load_batched, load_settings
from tau_trainer.settings.document import read_document
from tau_trainer.settings.problems import check_chosen
from tau_trainer.settings.tasks import EvaluationSettings, is_batched
from tau_trainer.specs import BehaviorSpec
from tau_trainer.training import behavior_json
from tau_trainer.training.task import Task, task_of

if TYPE_CHECKING:
    from tau_trainer.models import Policy
    from tau_trainer.training.batched.run import CopiesCollector


def _open(run: Path) -> tuple[RunFolder, RunSettings]:
    folder = RunFolder(run, resumed=True)
    if not folder.configuration.is_file():
        raise SettingsError(f"there is no run in '{run}'; name a folder that training wrote, such as results/tau3")
    if _batched(folder):
        raise SettingsError(
            f"the run in '{run}' is of a batched environment, and its policies play only there; watch them with: "
            f"tau-train batch --inference --results-dir {run.parent} --run-id {run.name}"
        )
    return folder, load_settings(folder.configuration)


def _batched(folder: RunFolder) -> bool:
    return folder.configuration.is_file() and is_batched(read_document(folder.configuration).data)


def _newest(folder: RunFolder) -> Iterator[Checkpoint]:
    """The latest whole checkpoint of every learner. Raises CheckpointError if there is none."""
    found = [latest_checkpoint(folder.checkpoints, name).checkpoint for name in learner_names(folder.checkpoints)]
    whole = [checkpoint for checkpoint in found if checkpoint is not None]
    if not whole:
        raise CheckpointError(f"'{folder.path}' has no complete checkpoint; train it, or continue it with --resume")
    yield from whole


def load_policy(
    checkpoint: Checkpoint, settings: RunSettings
) -> tuple[ScoredPolicy, ScoredPolicy | None, BehaviorSpec]:
    """The last policy of a checkpoint, its best one, and the behavior they act for. Raises CheckpointError."""
    from tau_trainer.algorithms import Setup, make_algorithm
    from tau_trainer.training.learning.parameters_only import whole

    try:
        learner = checkpoint.manifest["learner"]
        spec = behavior_json.from_json(learner["behavior"])
        settings_of = settings.of_behavior(spec.short_name)
        algorithm = make_algorithm(
            Setup(spec, settings_of, seed=0, reward_width=learner["reward_components"], learns=False)
        )
        tensors, learner = whole(checkpoint.tensors, learner, algorithm.state)
        algorithm.load(tensors, learner["algorithm"], fresh=False)
        best = stored_best(algorithm, tensors, learner)
    except (CheckpointError, SettingsError, LookupError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        # The manifest may be a stranger's, so it can contain anything.
        raise CheckpointError(
            f"'{checkpoint.path}' does not fit the settings ({error}); use those of the run's own configuration.yaml, "
            "or start a new run with another --run-id"
        ) from error
    return ScoredPolicy(algorithm.snapshot(), learner["decisions"]), best, spec


def stored_policies(run: Path, settings: RunSettings) -> dict[str, Policy]:
    """The policy of each behavior of a run, by short name: the one that its settings choose to export.

    Raises SettingsError, CheckpointError.
    """
    found: dict[str, Policy] = {}
    for checkpoint in _newest(_open(run)[0]):
        last, best, spec = load_policy(checkpoint, settings)
        wanted = best if best is not None and settings.checkpoint_settings.export == "best" else last
        found.setdefault(spec.short_name, wanted.policy)
    return found


def _candidates(
    folder: RunFolder, settings: RunSettings, export: ExportChoice | None, task: Task | None
) -> list[Candidate]:
    """One candidate per learner, from its latest checkpoint. Raises CheckpointError."""
    wanted = export or settings.checkpoint_settings.export
    found = []
    for checkpoint in _newest(folder):
        last, best, spec = load_policy(checkpoint, settings)
        found.append(make_candidate(checkpoint.name, spec, last, best, wanted, task))
    return found


def candidates_of_run(run: Path) -> list[Candidate]:
    """The policies of a run, chosen by its settings: one per learner, from its latest checkpoint.

    Raises SettingsError for a folder without a run, CheckpointError.
    """
    return _candidates(*_open(run), None, None)


def evaluate_run(run: Path, export: ExportChoice | None = None) -> Candidate:
    """Evaluate the policy of a run on its task's test rows, and write the new scores to evaluation.json.

    ``export``: the best or the last policy; None uses the run's settings.

    Raises SettingsError for a folder without such a run, CheckpointError, DataError.
    """
    folder, settings = _open(run)
    task = task_of(settings)
    if task is None:
        raise SettingsError(
            f"'{run}' has no task, so there are no test rows to evaluate it on; play it and see its rewards with: "
            f"tau-train learn --inference --results-dir {run.parent} --run-id {run.name}"
        )
    best = best_of(_candidates(folder, settings, export, task))
    assert best is not None
    # Keep the facts that only the run itself knew (speed, wall time, pairs).
    atomic_write_json(folder.evaluation, {**_evaluated(folder), **best.to_dict()})
    return best


@contextlib.contextmanager
def _copies(folder: RunFolder) -> Iterator[CopiesCollector]:
    """The collector of a batched run, with its newest policies. Raises SettingsError, CheckpointError."""
    from tau_trainer.runs.run import Run
    from tau_trainer.training.batched.run import collector_type

    next(_newest(folder))  # before a collector looks, which would say how to resume
    settings = load_batched(folder.configuration)
    check_chosen(settings, "environment")
    changes: dict[str, object] = {"compile": "off"}
    if not settings.evaluation.episodes:  # the run itself had none
        changes["evaluation"] = settings.evaluation.model_copy(update={"episodes": EvaluationSettings().episodes})
    settings = settings.on("cpu").model_copy(update=changes)
    with MetricsHub() as hub:
        yield collector_type(settings.played.name)(settings, Run(folder, hub, settings.seed, plays=True))


def _last_alone(export: ExportChoice | None) -> None:
    """Raises SettingsError if ``export`` asks for the best policy: a batched run keeps only its last."""
    if export == "best":
        raise SettingsError("--export best: a batched run keeps only its last policies; remove this option")


def evaluate_copies(run: Path, export: ExportChoice | None = None) -> dict[str, dict[str, float]] | None:
    """Scores of a batched run's policies in copies of its environment, by policy and metric key.

    Returns:
        None: it is another kind of run.

    Raises SettingsError, CheckpointError.
    """
    folder = RunFolder(run, resumed=True)
    if not _batched(folder):
        return None
    _last_alone(export)
    with _copies(folder) as copies:
        return copies.scores(lambda: False)


def _evaluated(folder: RunFolder) -> dict[str, Any]:
    """The current content of evaluation.json; empty if there is no readable file."""
    with contextlib.suppress(OSError, ValueError):
        found = parse_json(folder.evaluation.read_bytes())
        return found if isinstance(found, dict) else {}
    return {}


def export_run(
    run: Path,
    output: Path | None = None,
    export: ExportChoice | None = None,
    form: Literal["unity", "godot"] | None = None,
) -> list[tuple[Path, str]]:
    """Export the latest checkpoint of every learner of a run as ONNX.

    Args:
        run: its folder.
        output: another file or folder to write to.
        export: the best or the last policy; None uses the run's settings.
        form: the form of the files; see :func:`~tau_trainer.export.export_onnx`.

    Returns:
        The files, and which policy each holds, in words.

    Raises SettingsError, CheckpointError, ExportError.
    """
    chosen: list[tuple[str, Policy, str]] = []
    """Name of the file, policy, and which one it is."""
    folder = RunFolder(run, resumed=True)
    if _batched(folder):
        _last_alone(export)
        with _copies(folder) as copies:
            chosen += [(each.name, each.handle.policy(), "the last policy") for each in copies.saved]
    else:
        candidates = _candidates(*_open(run), export, None)
        first = _evaluated(folder).get("policy")
        for candidate in candidates:
            # The best of independent policies is also written under the behavior's own name, as at the end of a run.
            also = [candidate.spec.short_name] if candidate.name == first else []
            names = dict.fromkeys([candidate.name, *also])
            chosen += [(name, candidate.policy, candidate.which) for name in names]
    policies = len({id(policy) for _, policy, _ in chosen})
    if output is not None and output.suffix == ".onnx" and policies > 1:
        raise SettingsError(f"'{run}' has {policies} policies; give --output a folder instead of a file")
    from tau_trainer.export import export_onnx

    written = []
    for name, policy, which in chosen:
        path = folder.onnx(name)
        if output is not None:
            path = output if output.suffix == ".onnx" else output / path.name
        written.append((export_onnx(policy, policy.spec, path, form), which))
    return written
