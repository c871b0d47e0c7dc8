"""Where the first weights of a new run come from: ``--initialize-from RUN``, or a behavior's ``init_path``."""

from __future__ import annotations

from pathlib import Path

from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.runs.checkpoint_index import learner_names
from tau_trainer.runs.checkpoints import Checkpoint, latest_checkpoint, load_checkpoint
from tau_trainer.runs.folder import RunFolder
from tau_trainer.settings import RunSettings
from tau_trainer.settings.problems import did_you_mean


class Origins:
    """Finds the checkpoint that a learner begins from. Reads nothing but names until one is asked for."""

    def __init__(self, settings: RunSettings) -> None:
        """Raises SettingsError where what is named does not exist."""
        results, run = Path(settings.checkpoint_settings.results_dir), settings.checkpoint_settings.initialize_from
        self.run = run
        self._folder: Path | None = None
        if run:
            self._folder = RunFolder(results / run, resumed=True).checkpoints
            if not learner_names(self._folder):
                known = sorted(path.name for path in results.iterdir() if path.is_dir()) if results.is_dir() else []
                if run in known:
                    raise SettingsError(f"--initialize-from {run}: that run in '{results}' saved nothing")
                raise SettingsError(f"--initialize-from {run}: no run of this name in '{results}'; {_near(run, known)}")
        self._paths = {
            name: self._place(name, trainer.init_path)
            for name, trainer in settings.behaviors.items()
            if trainer.init_path
        }

    def _place(self, behavior: str, given: str) -> Path:
        """The folder that an ``init_path`` means; a bare name lies inside the run of ``--initialize-from``."""
        said, path = f"behaviors.{behavior}.init_path {given}", Path(given)
        if path.suffix in (".pt", ".onnx"):
            raise SettingsError(
                f"{said}: weights are read from this program's own checkpoints, not from a {path.suffix} file; "
                "name a folder such as results/ID/checkpoints/Behavior-100000"
            )
        if self._folder is not None and len(path.parts) == 1:
            path = self._folder / path
        if not path.is_dir():
            raise SettingsError(f"{said}: there is no checkpoint '{path}'; name the folder of one")
        return path

    def of(self, learner: str, behavior: str) -> Checkpoint | None:
        """The checkpoint for a learner of ``behavior`` (its short name); None: it begins from nothing.

        Raises CheckpointError for one that cannot be read.
        """
        if behavior in self._paths:
            return load_checkpoint(self._paths[behavior])
        if self._folder is None:
            return None
        for name in dict.fromkeys((learner, behavior)):
            found = latest_checkpoint(self._folder, name)
            if found.checkpoint is not None:
                return found.checkpoint
            if found.warnings:
                raise CheckpointError(f"--initialize-from {self.run}: {found.warnings[0]}")
        return None


def _near(run: str, known: list[str]) -> str:
    return did_you_mean(run, known) if known else "there are no runs at all"
