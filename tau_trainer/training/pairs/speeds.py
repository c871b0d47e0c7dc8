"""How fast pairs and their run go, between two looks."""

from __future__ import annotations

from collections.abc import Sequence

from tau_trainer.metrics import RateMeter

_RUN_HALF_LIFE_S = 15.0
"""Longer than a pair's, so that the change from one pair to the next does not look like a stop."""


class Speeds:
    """Decisions a second that this process makes, of each pair and of the whole run; each look starts at the last.

    Args:
        run: decisions of the whole run before, pairs that are gone included.
        pairs: decisions of each pair before.
    """

    def __init__(self, run: int, pairs: Sequence[int]) -> None:
        self._begin, self._first = run, list(pairs)
        self._run: RateMeter | None = None
        self._pairs = [RateMeter() for _ in pairs]

    def of_run(self, decisions: int) -> float:
        """Of the whole run, over pairs that wait for their turn and engines that start."""
        if self._run is None and decisions > self._begin:  # how long the first engines took says nothing
            self._run, self._begin = RateMeter(_RUN_HALF_LIFE_S), decisions
        if self._run is None:
            return 0.0
        self._run.add(decisions - self._begin - self._run.total)
        return self._run.rate()

    def of_pair(self, pair: int, decisions: int) -> float:
        """Of a pair."""
        meter = self._pairs[pair]
        meter.add(decisions - self._first[pair] - meter.total)
        return meter.rate()
