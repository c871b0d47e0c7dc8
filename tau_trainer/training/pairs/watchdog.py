"""Detects stalls: if nothing moves for too long, it reports which part waits for which."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from tau_trainer.errors import StalledError
from tau_trainer.training.learning.loop import UpdateLoop
from tau_trainer.training.pairs.pair import Pair

_LOOK_S = 1.0


def who_waits(pairs: Sequence[Pair], loops: Sequence[UpdateLoop]) -> str:
    """One clause for every active pair and every learner that has work."""
    clauses = [f"pair {pair.id} waits for {pair.environment.waits_for or 'its learner'}" for pair in pairs]
    clauses += [f"learner '{loop.learner.name}' is in an update" for loop in loops if loop.bound.outstanding]
    return "; ".join(clauses) or "no pair is active"


async def watch(
    pairs: Callable[[], Sequence[Pair]],
    loops: Callable[[], Sequence[UpdateLoop]],
    stall_s: float,
    look_s: float = _LOOK_S,
) -> None:
    """Run during training; raises StalledError if nothing at all has moved for ``stall_s`` seconds.

    An exchange, an update, a restart, and a new state of a pair are movement. If all pairs wait for a person, or for an
    engine to connect, nothing has to move.
    """
    seen, since = _progress(pairs(), loops()), time.monotonic()
    while True:
        await asyncio.sleep(look_s)
        active, progress = pairs(), _progress(pairs(), loops())
        if progress != seen or (active and all(pair.absent for pair in active)):
            seen, since = progress, time.monotonic()
        elif time.monotonic() - since > stall_s:
            raise StalledError(
                f"nothing has moved for {stall_s:g} s: {who_waits(pairs(), loops())}; "
                "see run_logs in the run's folder, or raise --timeout-wait if the game is this slow"
            )


def _progress(pairs: Sequence[Pair], loops: Sequence[UpdateLoop]) -> tuple[object, ...]:
    """A value that changes as soon as anything has moved."""
    moved = [(pair.id, pair.state, pair.environment.exchanges, pair.environment.restarts) for pair in pairs]
    return (*moved, *(loop.learner.policy.version for loop in loops))
