"""``run_logs/training_status.json``: the status of a run in ML-Agents' format.

Derived from the checkpoints' manifests, from which a run is resumed; this package never reads the file.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tau_trainer import __version__
from tau_trainer.errors import TauError
from tau_trainer.files import atomic_write_json, file_name, parse_json, reason
from tau_trainer.runs.checkpoint_index import learner_names, scan
from tau_trainer.runs.checkpoints import MANIFEST, TENSORS

if TYPE_CHECKING:
    from tau_trainer.runs.collector import Export

FILE_NAME = "training_status.json"
_FORMAT_VERSION = "0.3.0"
"""Version of ML-Agents' format."""


def write_status(run: Path, lessons: Mapping[str, int], models: Sequence[Export] = ()) -> None:
    """Write the file for the run in the folder ``run``.

    Args:
        run: the run's folder.
        lessons: the lesson of each parameter with a curriculum, from 0.
        models: policies exported at the end.

    Raises:
        TauError: the file cannot be written.
    """
    status: dict[str, dict[str, Any]] = {}
    exported = {model.name: model for model in models if model.steps is not None}
    for name in learner_names(run / "checkpoints"):
        entries = [entry for place in scan(run / "checkpoints", name) if (entry := _entry(run, place.path)) is not None]
        if not entries:
            continue
        behavior, final = entries[-1]
        if (model := exported.get(behavior)) is not None:
            same = model.steps == final["steps"]  # otherwise the checkpoint's reward is another policy's
            reward = final["reward"] if same and model.reward is None else model.reward
            final = {**final, "file_path": str(run / f"{file_name(name)}.onnx"), "steps": model.steps, "reward": reward}
        status[behavior] = {"checkpoints": [entry for _, entry in entries], "final_checkpoint": final}
    for parameter, lesson in lessons.items():
        status.setdefault(parameter, {})["lesson_num"] = lesson
    versions = {"tau_trainer_version": __version__, "torch_version": metadata.version("torch")}
    folder = run / "run_logs"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise TauError(
            f"Cannot create '{folder}' ({reason(error)}); free some space or choose another folder."
        ) from error
    atomic_write_json(folder / FILE_NAME, status | {"metadata": {"stats_format_version": _FORMAT_VERSION, **versions}})


def _entry(run: Path, checkpoint: Path) -> tuple[str, dict[str, Any]] | None:
    """Name and ML-Agents entry of a checkpoint; None if its manifest cannot be read."""
    try:
        head = parse_json((checkpoint / MANIFEST).read_bytes())
        name = str(head["name"])
        step = int(head["step"])
        created = datetime.datetime.fromisoformat(head["created"])
        reward = head["content"]["learner"].get("mean_reward")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    tensors = checkpoint / TENSORS
    model = run / file_name(name) / f"{file_name(name)}-{step}.onnx"
    return name, {
        "steps": step,
        "file_path": str(model if model.exists() else tensors),
        "reward": reward,
        "creation_time": created.timestamp(),
        "auxillary_file_paths": [str(tensors), str(checkpoint / MANIFEST)],  # the key is ML-Agents'
    }
