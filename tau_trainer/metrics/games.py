"""Results of games: wins, draws and losses, and their confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tau_trainer.metrics.format import aligned, format_count, format_percent

_Z = 1.959964
"""Standard errors on either side of a mean within which 95 % of a normal distribution lie."""
HEADINGS = ("opponent", "games", "won", "drawn", "lost", "score", "95 % interval")


@dataclass(frozen=True, slots=True)
class Games:
    """Games against one opponent, seen from a policy's side."""

    opponent: str
    won: int = 0
    drawn: int = 0
    lost: int = 0
    made: int | None = None
    """Decisions of the opponent, if it is an earlier version; None: it is not."""
    behavior: str | None = None
    """Behavior of the opponent, if it is an earlier version of another behavior."""

    @property
    def played(self) -> int:
        """Number of games."""
        return self.won + self.drawn + self.lost

    @property
    def score(self) -> float | None:
        """Share of the points, 0 to 1; a draw counts half. None: no game was played."""
        return (self.won + self.drawn / 2) / self.played if self.played else None

    @property
    def interval(self) -> tuple[float, float]:
        """Interval that contains the score after very many such games, with a confidence of 95 %.

        Wilson's interval (1927) for a share. With draws it is wider than necessary, because draws spread a score less.
        """
        score, n = self.score, self.played
        if score is None:
            return 0.0, 1.0
        middle = (score + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
        half = _Z / (1 + _Z**2 / n) * math.sqrt(score * (1 - score) / n + _Z**2 / (4 * n**2))
        return max(0.0, middle - half), min(1.0, middle + half)

    def and_more(self, result: float, count: int = 1) -> Games:
        """These games and ``count`` more with one result: 1 won, 0.5 drawn, 0 lost."""
        kind = "won" if result > 0.5 else "lost" if result < 0.5 else "drawn"
        return replace(self, **{kind: getattr(self, kind) + count})

    def and_these(self, won: int, drawn: int, lost: int) -> Games:
        """These games and more against the same opponent."""
        return replace(self, won=self.won + won, drawn=self.drawn + drawn, lost=self.lost + lost)

    @property
    def record(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {**asdict(self), "played": self.played, "score": self.score, "interval": self.interval}

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of a row, in the order of :data:`HEADINGS`."""
        low, high = self.interval
        name = self.opponent if self.behavior is None else f"{self.behavior}: {self.opponent}"
        counts = map(format_count, (self.played, self.won, self.drawn, self.lost))
        return (name, *counts, format_percent(self.score), f"{format_percent(low)} to {format_percent(high)}")


def lines(games: Sequence[Games], first: str = HEADINGS[0]) -> list[str]:
    """A table of plain text, its headings first, that of names as ``first``; empty without games."""
    return aligned([(first, *HEADINGS[1:]), *(some.cells for some in games)]) if games else []
