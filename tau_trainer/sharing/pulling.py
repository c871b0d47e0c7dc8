"""Pulls a repository to a run's folder that can be resumed, with as little trust as possible.

Only files of a run are fetched. Weights are safetensors and JSON, checked against their hashes, never unpickled. Only
settings that :mod:`.allowed` lists are kept; all others are left out before they are interpreted.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tau_trainer.errors import HubError, SettingsError, TauError
from tau_trainer.files import STAGED_SUFFIX, atomic_write_text, reason, rename, safe_name
from tau_trainer.runs.checkpoint_index import learner_names
from tau_trainer.runs.checkpoints import load_checkpoint
from tau_trainer.runs.folder import RunFolder
from tau_trainer.sharing.contents import escapes, is_of_a_run
from tau_trainer.sharing.remote import Repository
from tau_trainer.sharing.sifting import own_settings


@dataclass(frozen=True, slots=True)
class Pulled:
    """A run pulled from the Hub."""

    folder: Path
    commit: str
    """The commit that was pulled, for ``--revision``."""
    notes: tuple[str, ...] = ()
    """A sentence for each change."""


def pull(
    repository: Repository,
    results_dir: Path,
    run_id: str | None = None,
    revision: str | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Pulled:
    """Restore the run in ``repository`` as ``results_dir/run_id``; ``run_id`` None: the repository's name.

    It is fetched under another name, checked, and renamed, so the folder is either complete or absent. ``say`` receives
    the progress.

    Raises SettingsError if the folder exists, HubError if the repository is not a run or cannot be trusted,
    CheckpointError if the weights are damaged.
    """
    name = run_id or repository.name.rpartition("/")[2]
    if name != safe_name(name):
        raise SettingsError(f"--run-id {name}: is not a valid folder name on every system; try {safe_name(name)}")
    target = results_dir / name
    if target.exists():
        raise SettingsError(
            f"'{target}' already exists and is not overwritten; choose another --run-id for the pulled run"
        )
    listing = repository.listing(revision)
    bad = [path for path in listing.sizes if escapes(path)]
    if bad:
        raise HubError(
            f"{repository.name} has the file {bad[0]!r}, which would be outside of its folder; it is not pulled"
        )
    wanted = sorted(path for path in listing.sizes if is_of_a_run(path))
    if "configuration.yaml" not in wanted or not any(path.startswith("checkpoints/") for path in wanted):
        raise HubError(
            f"{repository.name} is not a run of Tau Trainer: it has no configuration.yaml or no checkpoints/; if you "
            "need a model for Unity, download it from its page"
        )
    size = sum(listing.sizes[path] for path in wanted)
    say(f"pulling {len(wanted)} files ({size / 1e6:,.1f} MB) of {repository.name} at {listing.commit[:12]}")
    staged = results_dir / f".{name}.{uuid.uuid4().hex}{STAGED_SUFFIX}"
    try:
        staged.mkdir(parents=True)
        for path in wanted:
            repository.fetch(path, listing.commit, staged)
        shutil.rmtree(staged / ".cache", ignore_errors=True)
        notes = [*_checked(staged, repository.name, name, results_dir)]
        rename(staged, target)
    except OSError as error:
        raise TauError(f"Cannot write to '{results_dir}' ({reason(error)}); choose another --results-dir.") from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    left_out = [path for path in listing.sizes if not is_of_a_run(path) and path != ".gitattributes"]
    if left_out:
        notes.append(f"not pulled, because runs have no such files: {', '.join(sorted(left_out)[:5])}")
    return Pulled(target, listing.commit, tuple(notes))


def _checked(folder: Path, repository: str, run_id: str, results_dir: Path) -> list[str]:
    """Check every file that will be read, and adapt the settings; returns a sentence for each change."""
    run = RunFolder(folder, resumed=True)
    for path in sorted(run.checkpoints.iterdir()):
        load_checkpoint(path)
    if not learner_names(run.checkpoints):
        raise HubError(f"{repository} has no checkpoint to resume from")
    try:
        text, notes = own_settings(run.configuration, {"run_id": run_id, "results_dir": str(results_dir)})
    except SettingsError as error:
        said = "; ".join(error.problems).replace(f"{folder}{os.sep}", "")
        raise HubError(f"{repository}: its configuration.yaml cannot be read: {said}") from error
    atomic_write_text(run.configuration, text)
    return notes
