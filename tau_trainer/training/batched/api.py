"""A batched run: the collector of its experience, on all requested devices."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tau_trainer.metrics import RunReport, TerminalMode
from tau_trainer.runs.collector import Collector
from tau_trainer.runs.run import Run
from tau_trainer.settings import RunSettings
from tau_trainer.shown import shown
from tau_trainer.training.elsewhere import check_room, connected

if TYPE_CHECKING:
    from tau_trainer.training.learning.group import Ranked

_FOLLOW = "tau_trainer.training.batched.playing:follow"


def train_batched(
    settings: RunSettings, terminal: TerminalMode = "auto", command_line: Sequence[str] | None = None
) -> RunReport:
    """Train the policies of a batched environment: :func:`tau_trainer.train`, under an earlier name."""
    from tau_trainer.training.api import train

    return train(settings, terminal=terminal, command_line=command_line)


@contextmanager
def collector_of(settings: RunSettings, run: Run) -> Iterator[Collector]:
    """The collector that plays and learns."""
    played = settings.played
    run.say(f"{played.num_envs:,} copies of {played.name} on {settings.device}, seed {settings.seed}")
    with run.abandonable():
        import torch

        from tau_trainer.training.batched.ranks import gathered
        from tau_trainer.training.batched.run import collector_type

    kind = collector_type(played.name)
    kind.check(settings)
    asked = {"settings": settings.model_dump(mode="json")}
    torch.set_num_threads(1)  # applies to this thread only
    with _others(settings, run) as others, gathered(_FOLLOW, asked, others, _leave) as ranks:
        yield kind(settings.on(others.devices()[0]), run, ranks)


@contextmanager
def _others(settings: RunSettings, run: Run) -> Iterator[Ranked]:
    """The other ranks: on this machine, or on a cluster. Raises ClusterError."""
    from tau_trainer.training.learning.group import Ranked

    others = Ranked(settings.devices, settings.device, run.folder.path / "run_logs")
    if settings.cluster is None:
        yield others
        return
    count = settings.devices - 1
    with connected(settings.cluster, run.say) as cluster:
        check_room(cluster.room, count, f"{count} more ranks", f"{cluster.described}; lower --devices")
        cluster.check(None)
        place = cluster.place(0, 0)
        try:
            yield replace(others, place=place, host=cluster.address)
        finally:
            place.close()


def _leave(reason: str) -> None:
    """End this process: rank 0 waits for a dead rank and cannot be woken in any other way."""
    sys.stderr.write(f"error: {shown(reason)}\n")
    sys.stderr.flush()
    os._exit(2)
