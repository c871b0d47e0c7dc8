"""Callbacks for Lightning's Trainer."""

from __future__ import annotations

from lightning import Callback, LightningModule, Trainer
from typing_extensions import override

from tau_trainer.lightning.module import TauLightningModule
from tau_trainer.training.batched.playing import Playing


class ResetCallback(Callback):
    """Resets all copies when a fit starts without a checkpoint, and optionally every few epochs.

    Args:
        every_n_epochs: number of epochs between resets; None: reset only at the start.
    """

    def __init__(self, every_n_epochs: int | None = None) -> None:
        self._every = every_n_epochs

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.ckpt_path is None:
            _playing(pl_module).begin_anew()

    @override
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._every is not None and (trainer.current_epoch + 1) % self._every == 0:
            _playing(pl_module).begin_anew()


class PerformanceCallback(Callback):
    """Logs environment and agent steps per second, and the time shares of acting, stepping and learning, per epoch."""

    @override
    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        _playing(pl_module).restart_clock()

    @override
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        pl_module.log_dict(_playing(pl_module).speeds(), batch_size=1)


def _playing(module: LightningModule) -> Playing:
    if not isinstance(module, TauLightningModule):
        raise TypeError(
            f"a {type(module).__name__} has no batched environment; this callback is for TauLightningModule"
        )
    return module.playing
