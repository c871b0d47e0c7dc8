"""``--devices N``: the other processes of a data-parallel run, and their failures.

Rank 0 is the run itself: it writes, prints, and handles Ctrl-C. The others are its children, on loopback, and end with
it. Each writes only to the other ranks and to its log.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from tau_trainer.algorithms.ranks import Ranks, found_at, meeting_place
from tau_trainer.errors import LearnerError, TauError
from tau_trainer.remote.here import Here
from tau_trainer.remote.process import Parent, Process, Target
from tau_trainer.training.learning.group import Ranked

_POLL_S = 0.2
_PATIENCE_S = 5.0
"""Time for rank 0 to return from a sum with a dead rank: gloo aborts it, NCCL may not."""


@contextlib.contextmanager
def gathered(work: str, asked: Mapping[str, Any], ranked: Ranked, lost: Callable[[str], None]) -> Iterator[Ranks]:
    """Start the other ranks, and join them as rank 0.

    Args:
        work: ``module:function`` that the others call with their :class:`Ranks`, their device, and ``asked``.
        asked: JSON values.
        ranked: their number and place.
        lost: called with a sentence, from another thread, if a rank has died and rank 0 cannot be woken; it should not
            return.

    Raises:
        LearnerError: a rank has died.
        SettingsError: there are not enough GPUs.
    """
    count, host, devices = ranked.count, ranked.host, ranked.devices()
    if count == 1:
        yield Ranks()
        return
    launched: list[Process] = []
    met = False
    watch = _Watch(launched, lost)
    store = meeting_place(host, count)
    try:
        for rank in range(1, count):
            joins = {"rank": rank, "count": count, "host": host, "port": store.port, "device": devices[rank]}
            name, log = f"rank {rank} of {count}", ranked.logs / f"Rank-{rank}.log"
            joins |= {"work": work, "asked": dict(asked), "address": host}
            place = ranked.place or Here()
            launched.append(place.launch(Target(__name__, joins, name, LearnerError, log, several=count > 2)))
        watch.start()
        ranks = Ranks.joined(0, count, store, torch.device(devices[0]), host)
        ranks.death, met = lambda: watch.reason(_PATIENCE_S), True
        yield ranks
    except TauError:
        raise
    except Exception as error:
        reason = watch.reason(_PATIENCE_S)
        if reason is None and not met:
            text = str(error).partition("\n")[0]
            reason = (
                f"the {count} ranks cannot reach each other; the others know this one as {host} ({text}); let these "
                "machines connect to each other on every port, or name their network in GLOO_SOCKET_IFNAME on each"
            )
        if reason is not None:
            raise LearnerError(reason) from error
        raise
    finally:
        watch.over.set()
        for process in launched:
            process.stop()
        for process in launched:
            process.end()
        with contextlib.suppress(Exception):  # errors of a dead rank
            Ranks.leave()


class _Watch(threading.Thread):
    """Notices in time that a rank has died."""

    def __init__(self, others: list[Process], lost: Callable[[str], None]) -> None:
        super().__init__(name="ranks", daemon=True)
        self.over = threading.Event()
        self._others, self._lost = others, lost

    def run(self) -> None:
        while not self.over.wait(_POLL_S):
            reason = self.reason()
            if reason is not None:
                if not self.over.wait(_PATIENCE_S):
                    self._lost(reason)
                return

    def reason(self, wait_s: float = 0.0) -> str | None:
        """The rank that has died, and how; None if none dies within ``wait_s`` seconds."""
        until = time.monotonic() + wait_s
        while True:
            for process in self._others:
                if process.exit_code is not None:
                    return (
                        f"{process.called} ended {process.how()}; the run ends; continue it from its last checkpoint "
                        "with --resume"
                    )
            if time.monotonic() >= until:
                return None
            time.sleep(_POLL_S / 4)


def work(parent: Parent) -> None:
    """Run one of the other ranks."""
    parent.listen()  # ends this process when rank 0 disconnects or stops
    joins = parent.arguments
    store = found_at(joins["host"], joins["port"], joins["count"])
    device = torch.device(joins["device"])
    ranks = Ranks.joined(joins["rank"], joins["count"], store, device, joins["address"])
    module, _, name = joins["work"].partition(":")
    getattr(importlib.import_module(module), name)(ranks, device, joins["asked"])
    threading.Event().wait()  # rank 0 ends this process; ending earlier would look like a death
