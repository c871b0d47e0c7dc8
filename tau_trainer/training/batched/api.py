"""What the command line and Python call: a batched run in the foreground."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tau_trainer.metrics import MetricsHub, RunReport, TerminalMode
from tau_trainer.settings import check_device
from tau_trainer.settings.batched import BatchedSettings, dump_batched, plain_batched, resolve_batched_seed
from tau_trainer.training.manager import lasting
from tau_trainer.training.run_folder import RunFolder
from tau_trainer.training.shell import Say, Shell, in_foreground


def train_batched(
    settings: BatchedSettings, terminal: TerminalMode = "auto", command_line: Sequence[str] | None = None
) -> RunReport:
    """Train the policies of a batched environment, and show how it goes; Ctrl-C ends it after what it is at, and saves.

    Raises:
        TauError: nothing could be learned; nothing is left behind.
    """
    settings = resolve_batched_seed(settings)
    check_device(settings)

    @contextmanager
    def begin(folder: RunFolder, hub: MetricsHub, _: Say) -> Iterator[Shell]:
        import torch

        from tau_trainer.training.batched import hironaka
        from tau_trainer.training.batched.run import BatchedRun
        from tau_trainer.training.ranks import device_of, gathered

        kind = hironaka.HironakaRun if settings.environment.name == "hironaka" else BatchedRun
        if kind is not BatchedRun:
            hironaka.check(settings)  # before other ranks are asked
        device = device_of(0, settings.devices, torch.device(settings.device))
        asked = {"settings": plain_batched(settings)}
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with gathered(_FOLLOW, asked, settings.devices, device, folder.path / "run_logs", _leave) as ranks:
                yield kind(settings.on(str(device)), folder, hub, ranks)
        finally:
            torch.set_num_threads(threads)

    played = settings.environment
    return in_foreground(
        settings,
        dump_batched(lasting(settings)),
        settings.seed,
        begin,
        starting=f"{played.num_envs:,} copies of {played.name} on {settings.device}, seed {settings.seed}",
        terminal=terminal,
        command_line=command_line,
    )


_FOLLOW = "tau_trainer.training.batched.playing:follow"


def _leave(reason: str) -> None:
    """Where rank 0 waits for a dead rank and cannot be woken: nobody else can end it."""
    sys.stderr.write(f"error: {reason}\n")
    sys.stderr.flush()
    os._exit(2)
