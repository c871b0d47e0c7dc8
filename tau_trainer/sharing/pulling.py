"""From a repository to a run's folder that training can go on from, with as little trust as that needs.

Only files that a run consists of are fetched. Weights are safetensors and JSON, checked against their hashes, never
unpickled. Of the settings stays what :mod:`.allowed` lists; all else is left out before anything of it is looked at.
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
    """A run that came from the Hub."""

    folder: Path
    commit: str
    """Where it came from, for ``--revision``."""
    notes: tuple[str, ...] = ()
    """A sentence for each thing that is not as it was there."""


def pull(
    repository: Repository,
    results_dir: Path,
    run_id: str | None = None,
    revision: str | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Pulled:
    """Restore the run in ``repository`` as ``results_dir/run_id``; ``run_id`` None: as the repository is called.

    Whole or not at all: it is fetched under another name, checked, and renamed. ``say`` is told what is fetched.

    Raises SettingsError for a folder that is taken, HubError for a repository that is no run or cannot be trusted,
    CheckpointError for damaged weights.
    """
    name = run_id or repository.name.rpartition("/")[2]
    if name != safe_name(name):
        raise SettingsError(f"--run-id {name}: cannot be a folder's name on every system; try {safe_name(name)}")
    target = results_dir / name
    if target.exists():
        raise SettingsError(f"'{target}' exists already, and stays as it is; give the pulled run another --run-id")
    listing = repository.listing(revision)
    bad = [path for path in listing.sizes if escapes(path)]
    if bad:
        raise HubError(f"{repository.name} names the file {bad[0]!r}, which would lie outside of it; it is not pulled")
    wanted = sorted(path for path in listing.sizes if is_of_a_run(path))
    if "configuration.yaml" not in wanted or not any(path.startswith("checkpoints/") for path in wanted):
        raise HubError(
            f"{repository.name} is no run of Tau Trainer: it lacks configuration.yaml or checkpoints/; get a model for "
            "Unity from its page"
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
        notes.append(f"left there, as no run has such files: {', '.join(sorted(left_out)[:5])}")
    return Pulled(target, listing.commit, tuple(notes))


def _checked(folder: Path, repository: str, run_id: str, results_dir: Path) -> list[str]:
    """Check every file that will be read, make the settings ours; a sentence for each change."""
    run = RunFolder(folder, resumed=True)
    for path in sorted(run.checkpoints.iterdir()):
        load_checkpoint(path)
    if not learner_names(run.checkpoints):
        raise HubError(f"{repository} holds no checkpoint that can be gone on from")
    try:
        text, notes = own_settings(run.configuration, {"run_id": run_id, "results_dir": str(results_dir)})
    except SettingsError as error:
        said = "; ".join(error.problems).replace(f"{folder}{os.sep}", "")
        raise HubError(f"{repository}: its configuration.yaml cannot be read: {said}") from error
    atomic_write_text(run.configuration, text)
    return notes
