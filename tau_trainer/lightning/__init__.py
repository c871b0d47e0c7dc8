"""Batched environments under Lightning's Trainer: the extra ``tau-trainer[lightning]``.

>>> from lightning import Trainer
>>> from tau_trainer.lightning import TauDataModule, TauLightningModule
>>> module = TauLightningModule("cartpole_batch")  # doctest: +SKIP
>>> Trainer(max_epochs=10).fit(module, TauDataModule(module))  # doctest: +SKIP
"""

from __future__ import annotations

try:
    import lightning as _lightning
except ModuleNotFoundError as error:
    from tau_trainer.errors import SettingsError

    raise SettingsError(
        "tau_trainer.lightning needs Lightning, which is not installed; pip install 'tau-trainer[lightning]'"
    ) from error
from tau_trainer.lightning.callbacks import PerformanceCallback, ResetCallback
from tau_trainer.lightning.data import TauDataModule
from tau_trainer.lightning.module import TauLightningModule

__all__ = ["PerformanceCallback", "ResetCallback", "TauDataModule", "TauLightningModule"]
assert _lightning
