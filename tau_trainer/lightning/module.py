"""A Lightning module with the policies of a batched environment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from lightning import LightningModule
from lightning.pytorch.core.optimizer import LightningOptimizer
from typing_extensions import override

from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.memory import TensorRollout
from tau_trainer.metrics import keys
from tau_trainer.settings import RunSettings, load_batched, resolve_seed
from tau_trainer.settings.document import Document
from tau_trainer.settings.gathering import check_trainable
from tau_trainer.settings.loading import interpret
from tau_trainer.settings.outlook import untrainable
from tau_trainer.specs import Json
from tau_trainer.training.batched.playing import Playing
from tau_trainer.training.batched.policies import PolicyEntry

_STATE = "tau_trainer"
"""Key of this package's data in a checkpoint."""


class TauLightningModule(LightningModule):
    """Plays and learns like ``tau-train batch``, with the same numbers, under Lightning's Trainer.

    A *batch* is the experience of all copies since the last one. In a *training step*, the policies with enough
    experience learn from it. ``global_step`` counts the updates of all policies. Each policy has this package's
    optimizer, so optimization is manual: set clipping, accumulation and learning rates in the policies'
    ``hyperparameters``. Schedules end with the Trainer.

    Args:
        settings: a file for ``tau-train batch``, the name of a shipped one, or its settings.
        overrides: values that replace settings, by dotted key.

    Raises:
        SettingsError: the settings are invalid.
    """

    def __init__(self, settings: str | Path | Json | RunSettings, overrides: Json | None = None) -> None:
        super().__init__()
        self.settings = resolve_seed(_settings(settings, overrides or {}))
        self.save_hyperparameters({"settings": self.settings.model_dump(mode="json")})
        self.automatic_optimization = False
        self.playing = Playing(self.settings)
        self.learning = self.playing.learning
        self.policies = torch.nn.ModuleList([entry.learner.algorithm.module for entry in self.learning])
        """The networks that learn, so that Lightning counts their parameters and saves them under their own names."""
        self._updates = 0

    @override
    def setup(self, stage: str) -> None:
        """Refuse Trainer options that would change the training. Raises SettingsError."""
        trainer = self.trainer
        if trainer.world_size > 1:
            raise SettingsError(
                "Trainer(devices=...) would train every copy of the policies separately; use one device here, or "
                "tau-train batch --devices"
            )
        if trainer.precision != "32-true":
            raise SettingsError(f"Trainer(precision='{trainer.precision}') is not supported for policies; omit it")
        here, there = self.playing.env.device, trainer.strategy.root_device
        if (here.type, here.index or 0) != (there.type, there.index or 0):
            raise SettingsError(
                f"the environment is on {here} and the Trainer on {there}; choose Trainer(accelerator='{here.type}'), "
                f"or torch_settings.device {there.type}"
            )

    @override
    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        return [_Update(module) for module in self.policies]

    @override
    def training_step(self, batch: Mapping[str, TensorRollout], batch_idx: int) -> None:
        """Update the policies whose rollout is complete."""
        steps = dict(zip((entry.name for entry in self.learning), self._steps(), strict=True))
        total = self.trainer.estimated_stepping_batches
        self._updates += 1
        progress = min(self._updates / total, 1.0) if total != float("inf") else self.playing.progress
        for entry, update in self.playing.due(batch, progress):
            steps[entry.name](update)

    def _steps(self) -> list[Callable[[Callable[[], Any]], Any]]:
        given = self.optimizers(use_pl_optimizer=True)
        several = cast("Iterable[LightningOptimizer]", given if isinstance(given, list) else [given])
        return [lambda update, optimizer=optimizer: optimizer.step(closure=update) for optimizer in several]  # type: ignore[misc]

    def _log(self, entry: PolicyEntry, values: Json, *, shown: bool = False) -> None:
        """Log values under this package's names; if several policies learn, with the policy's name as prefix."""
        first = f"{entry.name}/" if len(self.learning) > 1 else ""
        self.log_dict(
            {first + name: value for name, value in values.items()},
            prog_bar=shown,
        )

    @override
    def on_train_epoch_end(self) -> None:
        """Log means of updates, returns and lengths; if no episode ended, the last known values.

        It does not log each update, because Lightning takes a millisecond for every ten numbers.
        """
        self.playing.count_episodes()
        for entry in self.learning:
            summary = self.playing.shared.hub.flush(entry.name, entry.learner.decisions)
            self._log(entry, {name: statistics.mean for name, statistics in summary.statistics.items()})
            if entry.mean_return is not None:
                self._log(entry, {keys.CUMULATIVE_REWARD: entry.mean_return}, shown=True)
                self._log(entry, {keys.EPISODE_LENGTH: entry.mean_length})

    @override
    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Save everything for an exact resume: learners, copies, open episodes; only tensors and plain values."""
        checkpoint[_STATE] = {**self.playing.state(), "module_updates": self._updates}

    @override
    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Continue from a checkpoint. Raises CheckpointError if it belongs to other settings."""
        if _STATE not in checkpoint:
            raise CheckpointError("the checkpoint was not written by a TauLightningModule; name one that was")
        self.playing.load(checkpoint[_STATE])
        self._updates = checkpoint[_STATE]["module_updates"]


class _Update(torch.optim.Optimizer):
    """An update of a policy for Lightning's count; the learner has its own optimizer."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__(module.parameters(), {})

    @override
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        assert closure is not None
        closure()


def _settings(given: str | Path | Json | RunSettings, overrides: Json) -> RunSettings:
    if isinstance(given, (str, Path)):
        return load_batched(given, overrides)
    if overrides:
        raise SettingsError("overrides are only for a file or a name; change the settings themselves")
    if not isinstance(given, RunSettings):
        given, _ = interpret(Document("settings", dict(given)), {}, False, {}, batched=True)
    check_trainable(untrainable(given))
    return given
