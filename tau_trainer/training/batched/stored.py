"""A finished batched run: export its models, or evaluate its policies again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from tau_trainer.export import export_onnx
from tau_trainer.metrics import MetricsHub
from tau_trainer.runs.folder import RunFolder
from tau_trainer.runs.run import Run
from tau_trainer.settings.loading import load_batched
from tau_trainer.settings.problems import check_chosen
from tau_trainer.settings.tasks import EvaluationSettings
from tau_trainer.training.batched.run import CopiesCollector, collector_type


@contextmanager
def _opened(folder: RunFolder) -> Iterator[CopiesCollector]:
    """The collector of the run, with its newest policies. Raises SettingsError, CheckpointError."""
    settings = load_batched(folder.configuration)
    check_chosen(settings, "environment")
    changes: dict[str, object] = {"compile": "off"}
    if not settings.evaluation.episodes:  # the run itself had none
        changes["evaluation"] = settings.evaluation.model_copy(update={"episodes": EvaluationSettings().episodes})
    settings = settings.on("cpu").model_copy(update=changes)
    with MetricsHub([]) as hub:
        yield collector_type(settings.played.name)(settings, Run(folder, hub, settings.seed, plays=True))


def export_batched(
    folder: RunFolder, output: Path | None, form: Literal["unity", "godot"] | None = None
) -> list[tuple[Path, str]]:
    """Export the newest policies: see :func:`tau_trainer.training.stored.export_run`."""
    written = []
    with _opened(folder) as copies:
        policies = [(entry.name, entry.learner.handle.policy(), entry.spec) for entry in copies.playing.learning]
        for name, policy, spec in policies:
            path = folder.onnx(name)
            if output is not None:
                path = output if output.suffix == ".onnx" else output / path.name
            written.append((export_onnx(policy, spec, path, form), "the last policy"))
    return written


def evaluate_batched(folder: RunFolder) -> dict[str, dict[str, float]]:
    """Scores of the newest policies, by policy and metric key: as at the end of the run."""
    with _opened(folder) as copies:
        return copies.scores(lambda: False)
