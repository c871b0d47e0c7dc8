"""What the command line and Python call: a batched run in the foreground."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tau_trainer.errors import SettingsError
from tau_trainer.metrics import Event, MetricsHub, RunReport, TerminalMode, Timer, terminal_recorder
from tau_trainer.settings import check_device
from tau_trainer.settings.batched import BatchedSettings, dump_batched, plain_batched, resolve_batched_seed
from tau_trainer.training.api import on_interrupt
from tau_trainer.training.manager import kept_recorders, lasting
from tau_trainer.training.provenance import provenance
from tau_trainer.training.run_folder import RunFolder, atomic_write_json, atomic_write_text


def train_batched(
    settings: BatchedSettings, terminal: TerminalMode = "auto", command_line: Sequence[str] | None = None
) -> RunReport:
    """Train the policies of a batched environment, and show how it goes; Ctrl-C ends it after what it is at, and saves.

    Raises:
        TauError: nothing could be learned; nothing is left behind.
    """
    settings = resolve_batched_seed(settings)
    check_device(settings)
    chosen = settings.checkpoint_settings
    folder = RunFolder.create(Path(chosen.results_dir), chosen.run_id, resume=chosen.resume, force=chosen.force)
    hub: MetricsHub | None = None
    try:
        shown, timers = terminal_recorder(terminal), Timer()
        own = settings.environment
        if shown is not None:
            text = f"{chosen.run_id}: {own.num_envs:,} copies of {own.name} on {settings.device}, seed {settings.seed}"
            shown.on_event(Event("starting", 0.0, {"message": text}))
        kept = kept_recorders(folder, settings, timers, command_line)
        hub = MetricsHub([*kept, *([] if shown is None else [shown])], timers=timers)
        import torch

        from tau_trainer.training.batched import hironaka
        from tau_trainer.training.batched.run import BatchedRun
        from tau_trainer.training.ranks import device_of, gathered

        if own.name == "hironaka":
            hironaka.check(settings)  # before other ranks are asked
        device = device_of(0, settings.devices, torch.device(settings.device))
        asked = {"settings": plain_batched(settings)}
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with gathered(_FOLLOW, asked, settings.devices, device, folder.path / "run_logs", _leave) as ranks:
                kind = hironaka.HironakaRun if own.name == "hironaka" else BatchedRun
                run = kind(settings.on(str(device)), folder, hub, ranks)
                atomic_write_text(folder.configuration, dump_batched(lasting(settings)))
                atomic_write_json(folder.run_json, provenance(settings.seed, command_line))
                first = run.decisions
                with on_interrupt(run.stop):
                    run.run()
                    if run.decisions == first:
                        text = "the run ended before anything was learned, so nothing is kept"
                        raise run.error or SettingsError(text)
                    folder.commit()
                    return run.finish()
        finally:
            torch.set_num_threads(threads)
    except BaseException:
        if hub is not None:
            hub.close()
            hub = None
        folder.discard()
        raise
    finally:
        if hub is not None:
            hub.close()
        folder.release()


_FOLLOW = "tau_trainer.training.batched.playing:follow"


def _leave(reason: str) -> None:
    """Where rank 0 waits for a dead rank and cannot be woken: nobody else can end it."""
    sys.stderr.write(f"error: {reason}\n")
    sys.stderr.flush()
    os._exit(2)
