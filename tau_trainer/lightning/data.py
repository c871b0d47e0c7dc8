"""Rollouts as the data that Lightning's loop asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from lightning import LightningDataModule
from typing_extensions import override

from tau_trainer.algorithms.batched import TensorRollout
from tau_trainer.lightning.module import TauLightningModule
from tau_trainer.training.batched.playing import Playing


class TauDataModule(LightningDataModule):
    """Plays the copies of a module's environment with its policies as they are.

    Args:
        module: who learns.
        batches: in an epoch. Returns are logged, and callbacks look, once an epoch: let it be an episode long.
    """

    def __init__(self, module: TauLightningModule, batches: int = 10) -> None:
        super().__init__()
        self._playing, self._batches = module.playing, batches

    @override
    def train_dataloader(self) -> _Rollouts:
        return _Rollouts(self._playing, self._batches)

    @override
    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """It is there already."""
        return batch


class _Rollouts:
    """An epoch. Its length is known, so that Lightning asks for a batch when it wants it and not one ahead."""

    def __init__(self, playing: Playing, batches: int) -> None:
        self._playing, self._batches = playing, batches

    def __len__(self) -> int:
        return self._batches

    def __iter__(self) -> Iterator[Mapping[str, TensorRollout]]:
        for _ in range(self._batches):
            yield self._playing.play()
