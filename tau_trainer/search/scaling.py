"""How many copies of an environment, and how large a batch: sizes that are doubled while that pays, then bisected.

A size is tried by a :data:`Measure`, wherever that happens; here is only which size comes next. WarpDrive's
``auto_scale`` looks for what fits; here a size also has to be worth it, since beyond some size more copies only wait
for each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tau_trainer.errors import TauError

Failure = Literal["memory", "time", "ended", "error"]
"""There was not enough; it had not finished in time; its process has ended by itself; it said why."""
_FINE = 8
"""Bisection ends where an eighth of a size is left between what pays and what does not."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One size that was tried."""

    size: int
    rate: float = 0.0
    """Decisions a second while training; 0: it failed."""
    memory: int | None = None
    """Bytes at its peak: of the device where it has memory of its own, else of the process."""
    failure: Failure | None = None
    text: str = ""
    """Of a failure: what there is to say."""


Measure = Callable[[int], Probe]


@dataclass(slots=True)
class Scaling:
    """What was tried, in that order, and the size to take.

    Attributes:
        best: 0: none ran.
        ended: why no larger size was taken, in words.
    """

    probes: list[Probe] = field(default_factory=list)
    best: int = 0
    ended: str = ""

    @property
    def curve(self) -> list[Probe]:
        """One probe for each size, the fastest, from the smallest to the largest."""
        found: dict[int, Probe] = {}
        for probe in self.probes:
            if probe.size not in found or probe.rate > found[probe.size].rate:
                found[probe.size] = probe
        return [found[size] for size in sorted(found)]

    @property
    def rate(self) -> float:
        """Decisions a second with the size to take."""
        return max((probe.rate for probe in self.probes if probe.size == self.best), default=0.0)


def scaled(
    measure: Measure,
    first: int,
    *,
    gain: float = 0.1,
    most: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Scaling:
    """Double from ``first`` while each doubling is faster by the share ``gain``, then bisect down to an eighth.

    Where a doubling seems not to pay, both sizes are measured again, and that counts: a busy moment of the machine
    ends nothing. Where ``first`` itself is too large, it is halved until it runs. Between two doublings a size pays by
    its share of a doubling.

    Args:
        measure: tries a size.
        first: where it begins.
        gain: what a doubling has to bring.
        most: no larger size is tried.
        stopped: asked before each probe; true: keep what was found.

    Raises:
        TauError: no size runs, or the first cannot for a reason that no size changes.
    """
    result = Scaling()

    def tried(size: int) -> Probe:
        probe = measure(size)
        result.probes.append(probe)
        return probe

    low = tried(first)
    high: int | None = None
    while low.failure is not None:
        if low.failure == "error" or low.size == 1 or stopped():
            raise TauError(low.text)
        high, result.ended = low.size, _reason(low, gain)
        low = tried(max(1, low.size // 2))
    result.best = low.size
    while high is None and not stopped():
        size = low.size * 2 if most is None else min(low.size * 2, most)
        if size <= low.size:
            result.ended = f"{most:,} is the most there can be"
            break
        probe = tried(size)
        if probe.failure is None and not _pays(low, probe, gain) and not stopped():
            probe, again = tried(size), tried(low.size)
            low = low if again.failure else again
        if _pays(low, probe, gain):
            low = probe
            result.best = probe.size
        else:
            high, result.ended = size, _reason(probe, gain)
    while high is not None and high - low.size > max(1, low.size // _FINE) and not stopped():
        probe = tried((low.size + high) // 2)
        if _pays(low, probe, gain):
            low = probe
            result.best = probe.size
        else:
            high, result.ended = probe.size, _reason(probe, gain)
    if stopped():
        result.ended = "it was stopped"
    return result


def _pays(before: Probe, after: Probe, gain: float) -> bool:
    wanted = before.rate * (1.0 + gain) ** math.log2(after.size / before.size)
    return after.failure is None and after.rate >= wanted


def _reason(probe: Probe, gain: float) -> str:
    """Why ``probe`` is not taken."""
    match probe.failure:
        case None:
            return f"{probe.size:,} brings less than {gain:.0%} a doubling"
        case "memory":
            return f"{probe.size:,} does not fit into memory"
        case "time":
            return f"{probe.size:,} had not finished in time"
        case _:
            return f"{probe.size:,} fails: {probe.text}"
