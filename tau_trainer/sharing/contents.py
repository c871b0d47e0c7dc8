"""Selects the files of a run to share: those that are needed to view it and to resume it, and no others.

It lists allowed files, not forbidden ones: engines' logs, locks and all other files in the folder are not shared.
"""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tau_trainer.errors import CheckpointError, SettingsError, TauError
from tau_trainer.files import reason, safe_name
from tau_trainer.metrics.history import History
from tau_trainer.metrics.plot import draw
from tau_trainer.report import REPORT_NAME, RunRecord, render
from tau_trainer.runs.checkpoint_index import learner_names
from tau_trainer.runs.checkpoint_sets import latest_set
from tau_trainer.runs.checkpoints import MANIFEST, TENSORS, Checkpoint
from tau_trainer.runs.folder import RunFolder
from tau_trainer.sharing.card import CARD_NAME, model_card
from tau_trainer.shown import shown

_KEPT_AT_HOME = ("working_directory",)
"""Private facts about the machine in run.json."""
_FILES = re.compile(
    rf"""
    {re.escape(CARD_NAME)} | {re.escape(REPORT_NAME)} | learning_curve\.png | configuration\.yaml
    | run\.json | evaluation\.json | log\.jsonl | run_logs/(timers|training_status)\.json
    | ([^/]+/)? [^/]+\.onnx
    | [^/]+/events\.out\.tfevents\.[^/]+
    | checkpoints/[^/]+-\d+(\.\d+)?/({re.escape(MANIFEST)}|{re.escape(TENSORS)})
    """,
    re.VERBOSE,
)


def is_of_a_run(path: str) -> bool:
    """Whether a file with this path, with forward slashes, belongs to a shared run."""
    parts = path.split("/")
    return _FILES.fullmatch(path) is not None and all(safe_name(part) == part == shown(part) for part in parts)


def escapes(path: str) -> bool:
    """Whether a path may lead out of its target folder."""
    return "\\" in path or ":" in path or any(part in ("", ".", "..") for part in path.split("/"))


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of a repository."""

    files: Mapping[str, Path | bytes] = field(default_factory=dict)
    """A file or its content, by path in the repository."""
    revealing: tuple[str, ...] = ()
    """Settings that name a path of this machine."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(len(file) if isinstance(file, bytes) else file.stat().st_size for file in self.files.values())


def contents_of(folder: Path, repository: str) -> Contents:
    """The content of ``repository`` for the run in ``folder``, with the newest complete checkpoint of each learner.

    Raises SettingsError if the run is being trained, CheckpointError if there is no complete checkpoint, TauError if
    the folder is not a run.
    """
    run = RunFolder(folder, resumed=True)
    if run.being_trained:
        raise SettingsError(f"the run in '{folder}' is being trained; wait for its end, or end it")
    record = RunRecord.load(folder)
    files: dict[str, Path | bytes] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not path.is_symlink() and is_of_a_run(name) and not name.startswith("checkpoints/"):
            files[name] = path
    for checkpoint in _resumable(run):
        for name in (MANIFEST, TENSORS):
            files[f"checkpoints/{checkpoint.path.name}/{name}"] = checkpoint.path / name
    if run.run_json.name in files and record.provenance:
        kept = {key: value for key, value in record.provenance.items() if key not in _KEPT_AT_HOME}
        files[run.run_json.name] = json.dumps(kept, indent=2).encode() + b"\n"
    if run.learning_curve.name not in files:
        picture = io.BytesIO()
        draw(History.load(folder)).savefig(picture, format="png")
        files[run.learning_curve.name] = picture.getvalue()
    files[REPORT_NAME] = render([record]).encode()
    models = sorted(name for name in files if name.endswith(".onnx") and "/" not in name)
    files[CARD_NAME] = model_card(record, repository, models).encode()
    paths = (
        place
        for place, setting in record.configuration.settings.items()
        if isinstance(setting.value, str) and Path(setting.value).is_absolute()
    )
    return Contents(dict(sorted(files.items())), tuple(paths))


def _resumable(run: RunFolder) -> list[Checkpoint]:
    """The checkpoints that the run would resume from: those of its newest complete moment."""
    whole = latest_set(run.checkpoints)
    missing = set(learner_names(run.checkpoints)) - whole.checkpoints.keys()
    if not whole.checkpoints or (missing and whole.warnings):
        why = " ".join(whole.warnings) or "nothing was saved"
        raise CheckpointError(f"'{run.path}' has no complete checkpoint to share: {why}")
    return [*whole.checkpoints.values()]


def write_contents(contents: Contents, folder: Path) -> None:
    """Write the contents to a new or empty folder. Raises SettingsError, TauError."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise SettingsError(f"--dry-run {folder}: is not an empty folder; name one that does not exist")
    try:
        for name, content in contents.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                shutil.copyfile(content, path)
    except OSError as error:
        raise TauError(f"Cannot write to '{folder}' ({reason(error)}); choose another folder.") from error
