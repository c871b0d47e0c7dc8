"""What Lightning's Trainer costs: the same updates of the same run by our own loop and under Lightning, in turns.

    python -m tools.bench.lightning [CONFIG] [--updates 60] [--pairs 7]

Both write what they always write: our loop its log and TensorBoard scalars, Lightning a CSV log of every epoch. Start,
checkpoints and evaluation are left out on both sides. Each pair is measured one after the other, the order changing
from pair to pair; the ratio of a pair is what a busy machine leaves alone.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from typing_extensions import override

from tau_trainer.lightning import TauDataModule, TauLightningModule
from tau_trainer.metrics import MetricsHub
from tau_trainer.metrics.jsonl import JsonLines
from tau_trainer.metrics.tensorboard import TensorBoard
from tau_trainer.settings.batched import BatchedSettings, load_batched
from tau_trainer.training.batched.run import BatchedRun
from tau_trainer.training.run_folder import RunFolder

_EPOCH = 10
"""Updates between two points of every curve."""
_WARM = 3
"""Updates before the clock starts."""


class Clock(Callback):
    """When the updates that count began and ended."""

    def __init__(self) -> None:
        self.begun = self.ended = 0.0

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step == _WARM:
            self.begun = time.perf_counter()

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.ended = time.perf_counter()


def ours(settings: BatchedSettings, updates: int, place: Path) -> float:
    """Seconds an update."""
    with MetricsHub([JsonLines(place / "log.jsonl"), TensorBoard(place)]) as hub:
        run = BatchedRun(settings, RunFolder(place), hub)
        begun = 0.0
        while run.seats[0].updates < updates:
            if run.seats[0].updates == _WARM:
                begun = time.perf_counter()
            run.advance()
            if run.seats[0].updates % _EPOCH == 0:
                run.flush()
        return (time.perf_counter() - begun) / (updates - _WARM)


def theirs(settings: BatchedSettings, updates: int, place: Path) -> float:
    """Seconds an update."""
    module, clock = TauLightningModule(settings), Clock()
    trainer = Trainer(
        max_epochs=updates // _EPOCH,
        accelerator="cpu" if settings.device == "cpu" else "gpu",
        devices=1,
        logger=CSVLogger(place),
        log_every_n_steps=_EPOCH,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[clock],
    )
    trainer.fit(module, TauDataModule(module, batches=_EPOCH))
    return (clock.ended - clock.begun) / (updates - _WARM)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="?", default="cartpole_batch")
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    updates = given.updates // _EPOCH * _EPOCH
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning|typing_extensions")
    torch.set_num_threads(1)
    overrides = {"seed": 1, "compile": "off", "max_steps": 10**9, "torch_settings.device": given.device}
    settings = load_batched(given.config, overrides)
    sides = {"our loop": ours, "Lightning": theirs}
    found: dict[str, list[float]] = {name: [] for name in sides}
    for pair in range(given.pairs):
        for name in list(sides)[:: 1 if pair % 2 == 0 else -1]:
            with tempfile.TemporaryDirectory() as place:
                found[name].append(sides[name](settings, updates, Path(place)) * 1e3)
        one, other = (found[name][-1] for name in sides)
        print(f"pair {pair + 1}: our loop {one:.2f} ms an update, Lightning {other:.2f}, {other / one - 1:+.1%}")
    ratios = [other / one for one, other in zip(*found.values(), strict=True)]
    middle, low, high = statistics.median(ratios) - 1, min(ratios) - 1, max(ratios) - 1
    print(f"{given.config}, {updates} updates: Lightning takes {middle:+.1%} (median; {low:+.1%} to {high:+.1%})")


if __name__ == "__main__":
    main()
