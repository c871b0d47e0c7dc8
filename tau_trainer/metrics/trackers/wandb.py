"""Weights & Biases (extra ``[wandb]``): a run of the project that ``WANDB_PROJECT`` names."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from tau_trainer.errors import SettingsError
from tau_trainer.metrics.trackers.tracker import PROJECT, Tracker


class WeightsAndBiases(Tracker):
    """Scalars over each behavior's own step, settings as configuration, models and the files next to them.

    With ``WANDB_MODE=offline``, everything stays in the run's folder, for ``wandb sync``.
    """

    name: ClassVar[str] = "wandb"

    def connect(self) -> None:
        """Import the library."""
        import wandb

        self._wandb: Any = wandb
        self._tracked: Any = None
        self._behaviors = set[str]()

    def begin(self, known: str | None) -> str:
        """A run of that project, by its id."""
        # Never ask for a key here: the run uses the terminal.
        if os.environ.get("WANDB_MODE", "online") == "online" and not self._wandb.login(prompt=False):
            raise SettingsError("no login for Weights & Biases; run `wandb login`, or set WANDB_MODE=offline")
        self._tracked = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            id=known or secrets.token_hex(8),
            name=self.folder.name,
            resume="allow",
            dir=str(self.folder),
            # The run uses the terminal, and no other files of the folder are sent.
            settings=self._wandb.Settings(silent=True, console="off", disable_git=True, disable_code=True),
        )
        self._tracked.config.update(self.parameters, allow_val_change=True)
        return str(self._tracked.id)

    def write(self, values: Mapping[str, float], behavior: str, step: int, time: float) -> None:
        """Send a row with the behavior's step as its axis: the library's own axis counts rows and cannot go back."""
        axis = f"{behavior}/step"
        if behavior not in self._behaviors:
            self._behaviors.add(behavior)
            self._tracked.define_metric(axis)
            self._tracked.define_metric(f"{behavior}/*", step_metric=axis)
        self._tracked.log({**values, axis: step, "_timestamp": time})

    def end(self, outcome: str, files: list[Path]) -> None:
        """Files, and the run's exit code."""
        if files:
            artifact = self._wandb.Artifact(f"run-{self._tracked.id}", type="run")
            for file in files:
                artifact.add_file(str(file), name=file.name)
            self._tracked.log_artifact(artifact)
        self._tracked.finish(exit_code=int(outcome == "failed"))
