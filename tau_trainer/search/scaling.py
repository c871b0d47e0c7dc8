"""Searches the number of copies of an environment, or the batch size: doubles it while that pays, then bisects.

A :data:`Measure` tries each size; this module only chooses the next size. WarpDrive's ``auto_scale`` finds the largest
size that fits; here a size must also be worth it, because beyond some size more copies only wait for each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tau_trainer.errors import TauError

Failure = Literal["memory", "time", "ended", "error"]
"""Out of memory; not finished in time; its process ended by itself; an error with a message."""
_FINE = 8
"""Bisection ends if an eighth of a size is left between a size that pays and one that does not."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One size that was tried."""

    size: int
    rate: float = 0.0
    """Decisions per second of training; 0 if it failed."""
    memory: int | None = None
    """Peak memory in bytes: of the device if it has its own memory, otherwise of the process."""
    failure: Failure | None = None
    text: str = ""
    """Message of a failure."""


Measure = Callable[[int], Probe]


@dataclass(slots=True)
class Scaling:
    """The probes in order, and the chosen size.

    Attributes:
        best: the chosen size; 0 if none ran.
        ended: why no larger size was chosen, in words.
    """

    probes: list[Probe] = field(default_factory=list)
    best: int = 0
    ended: str = ""

    @property
    def curve(self) -> list[Probe]:
        """The fastest probe of each size, from the smallest to the largest size."""
        found: dict[int, Probe] = {}
        for probe in self.probes:
            if probe.size not in found or probe.rate > found[probe.size].rate:
                found[probe.size] = probe
        return [found[size] for size in sorted(found)]

    @property
    def rate(self) -> float:
        """Decisions per second with the chosen size."""
        return max((probe.rate for probe in self.probes if probe.size == self.best), default=0.0)

    def judge(self, low: Probe, probe: Probe, high: int | None, gain: float) -> tuple[Probe, int | None]:
        """The largest size that pays, and the smallest that does not (None: none yet), after one more probe."""
        if _pays(low, probe, gain):
            self.best = probe.size
            return probe, high
        self.ended = _reason(probe, gain)
        return low, probe.size


def scaled(
    measure: Measure,
    first: int,
    *,
    gain: float = 0.1,
    most: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Scaling:
    """Double from ``first`` while each doubling is faster by the share ``gain``, then bisect down to an eighth.

    If a doubling seems not to pay, both sizes are measured again and the second result counts, so that a busy moment of
    the machine does not end the search. If ``first`` is too large, it is halved until it runs. A size between two
    doublings must gain its share of a doubling.

    Args:
        measure: tries a size.
        first: first size.
        gain: minimum gain of a doubling, as a share.
        most: maximum size.
        stopped: called before each probe; if it returns True, the search ends with its results so far.

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
            result.ended = f"{most:,} is the maximum"
            break
        probe = tried(size)
        if probe.failure is None and not _pays(low, probe, gain) and not stopped():
            probe, again = tried(size), tried(low.size)
            low = low if again.failure else again
        low, high = result.judge(low, probe, high, gain)
    while high is not None and high - low.size > max(1, low.size // _FINE) and not stopped():
        low, high = result.judge(low, tried((low.size + high) // 2), high, gain)
    if stopped():
        result.ended = "it was stopped"
    return result


def _pays(before: Probe, after: Probe, gain: float) -> bool:
    wanted = before.rate * (1.0 + gain) ** math.log2(after.size / before.size)
    return after.failure is None and after.rate >= wanted


def _reason(probe: Probe, gain: float) -> str:
    """Why ``probe`` is not chosen."""
    match probe.failure:
        case None:
            return f"{probe.size:,} gains less than {gain:.0%} per doubling"
        case "memory":
            return f"{probe.size:,} does not fit into memory"
        case "time":
            return f"{probe.size:,} did not finish in time"
        case _:
            return f"{probe.size:,} failed: {probe.text}"
