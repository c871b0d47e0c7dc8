"""Rollouts as the data of Lightning's training loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from lightning import LightningDataModule
from typing_extensions import override

from tau_trainer.lightning.module import TauLightningModule
from tau_trainer.memory import TensorRollout
from tau_trainer.training.batched.playing import Playing


class TauDataModule(LightningDataModule):
    """Plays the copies of a module's environment with its current policies.

    Args:
        module: the module that learns.
        batches: batches per epoch. Returns are logged and callbacks run once per epoch, so an epoch should cover an
            episode.
    """

    def __init__(self, module: TauLightningModule, batches: int = 10) -> None:
        super().__init__()
        self._playing, self._batches = module.playing, batches

    @override
    def train_dataloader(self) -> _Rollouts:
        return _Rollouts(self._playing, self._batches)

    @override
    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """Return the batch unchanged: it is already on the device."""
        return batch


class _Rollouts:
    """One epoch. Its length is known, so that Lightning does not fetch a batch in advance."""

    def __init__(self, playing: Playing, batches: int) -> None:
        self._playing, self._batches = playing, batches

    def __len__(self) -> int:
        return self._batches

    def __iter__(self) -> Iterator[Mapping[str, TensorRollout]]:
        for _ in range(self._batches):
            yield self._playing.play()
