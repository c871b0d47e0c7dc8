"""A batched run: what gathers its experience, on all devices that it asks for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tau_trainer.metrics import RunReport, TerminalMode
from tau_trainer.runs.collector import Collector
from tau_trainer.runs.run import Run
from tau_trainer.settings.batched import BatchedSettings

_FOLLOW = "tau_trainer.training.batched.playing:follow"


def train_batched(
    settings: BatchedSettings, terminal: TerminalMode = "auto", command_line: Sequence[str] | None = None
) -> RunReport:
    """Train the policies of a batched environment: :func:`tau_trainer.train`, under an earlier name."""
    from tau_trainer.training.api import train

    return train(settings, terminal=terminal, command_line=command_line)


@contextmanager
def collector_of(settings: BatchedSettings, run: Run) -> Iterator[Collector]:
    """What plays and learns."""
    played = settings.environment
    run.say(f"{played.num_envs:,} copies of {played.name} on {settings.device}, seed {settings.seed}")
    import torch

    from tau_trainer.training.batched import hironaka
    from tau_trainer.training.batched.ranks import device_of, gathered
    from tau_trainer.training.batched.run import CopiesCollector

    kind = hironaka.HironakaCollector if played.name == "hironaka" else CopiesCollector
    if kind is not CopiesCollector:
        hironaka.check(settings)  # before other ranks are asked
    device = device_of(0, settings.devices, torch.device(settings.device))
    asked = {"settings": settings.model_dump(mode="json")}
    torch.set_num_threads(1)  # of this thread
    with gathered(_FOLLOW, asked, settings.devices, device, run.folder.path / "run_logs", _leave) as ranks:
        yield kind(settings.on(str(device)), run, ranks)


def _leave(reason: str) -> None:
    """Where rank 0 waits for a dead rank and cannot be woken: nobody else can end it."""
    sys.stderr.write(f"error: {reason}\n")
    sys.stderr.flush()
    os._exit(2)
