"""The first weights of a new run: ``--initialize-from RUN``, or a behavior's ``init_path``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.metrics.history import INDEPENDENT
from tau_trainer.runs.checkpoint_index import learner_names
from tau_trainer.runs.checkpoints import Checkpoint, latest_checkpoint, load_checkpoint
from tau_trainer.runs.folder import RunFolder
from tau_trainer.settings import RunSettings
from tau_trainer.settings.problems import did_you_mean


class InitialWeights:
    """Finds the checkpoint that a learner starts from. Reads only names until one is requested."""

    def __init__(self, settings: RunSettings) -> None:
        """Raises SettingsError if the run or path does not exist, or has no behavior of the settings."""
        results = Path(settings.checkpoint_settings.results_dir)
        run = settings.checkpoint_settings.initialize_from
        self.run = run
        self._folder: Path | None = None
        self._saved: Sequence[str] = ()
        if run:
            self._folder = RunFolder(results / run, resumed=True).checkpoints
            self._saved = sorted(learner_names(self._folder))
            if not self._saved:
                known = sorted(path.name for path in results.iterdir() if path.is_dir()) if results.is_dir() else []
                if run in known:
                    raise SettingsError(f"--initialize-from {run}: this run in '{results}' has saved nothing")
                raise SettingsError(f"--initialize-from {run}: no run of this name in '{results}'; {_near(run, known)}")
        self._paths = {
            name: self._place(name, trainer.init_path)
            for name, trainer in settings.behaviors.items()
            if trainer.init_path
        }
        if settings.behaviors and settings.default_settings is None:  # otherwise any behavior may appear
            alike = {match["behavior"] for match in map(INDEPENDENT.fullmatch, self._saved) if match}
            self.check({name: name for name in settings.behaviors}, also=alike)

    def check(self, learners: Mapping[str, str], also: Collection[str] = ()) -> None:
        """Raises SettingsError if the run has nothing for any of ``learners``, whose behaviors are the values.

        ``also``: behaviors that count as saved.
        """
        there = {*self._paths, *self._saved, *also}
        if self.run and not any(learner in there or behavior in there for learner, behavior in learners.items()):
            raise SettingsError(
                f"--initialize-from {self.run}: that run has saved {', '.join(self._saved)}, but this one learns "
                f"{', '.join(learners)}, so there is nothing to start from; name a run with the same behavior, or "
                "leave this flag out"
            )

    def _place(self, behavior: str, given: str) -> Path:
        """The folder of an ``init_path``; a name without a path is in the run of ``--initialize-from``."""
        said, path = f"behaviors.{behavior}.init_path {given}", Path(given)
        if path.suffix in (".pt", ".onnx"):
            raise SettingsError(
                f"{said}: weights are read only from Tau Trainer's checkpoints, not from a {path.suffix} file; "
                "name a folder such as results/ID/checkpoints/Behavior-100000"
            )
        if self._folder is not None and len(path.parts) == 1:
            path = self._folder / path
        if not path.is_dir():
            raise SettingsError(f"{said}: there is no checkpoint '{path}'; name a checkpoint's folder")
        return path

    def of(self, learner: str, behavior: str) -> Checkpoint | None:
        """The checkpoint for a learner of ``behavior`` (its short name); None: it starts from scratch.

        Raises CheckpointError if the checkpoint cannot be read.
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
    return did_you_mean(run, known) if known else "there are no runs"
