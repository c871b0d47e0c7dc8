"""Tests whether a policy is significantly better than another on the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tau_trainer.specs import BoolArray

SIGNIFICANCE = 0.05
"""Significance level: a difference with a larger p-value counts as none."""

Verdict = Literal["beats", "equals", "below"]


@dataclass(frozen=True, slots=True)
class Standing:
    """Comparison of a policy with a rival by McNemar's exact test: a sign test on the rows where they differ."""

    won: int
    """Number of rows where only the policy is right."""
    lost: int
    """Number of rows where only the rival is right."""

    @classmethod
    def of(cls, right: BoolArray, rival: BoolArray) -> Standing:
        """``right``, ``rival``: bool [n], the same rows."""
        return cls(int((right & ~rival).sum()), int((rival & ~right).sum()))

    @property
    def p_value(self) -> float:
        """Probability that two equally good policies differ at least this much, 0 to 1; two-sided."""
        rows = self.won + self.lost
        ways, tail = 1, 0  # each binomial coefficient from the last: with 16,000 rows 500 times as fast as `math.comb`
        for lucky in range(min(self.won, self.lost) + 1):
            tail += ways
            ways = ways * (rows - lucky) // (lucky + 1)
        return min(1.0, tail / (1 << rows) * 2)

    @property
    def verdict(self) -> Verdict:
        """``equals``: the difference is not significant."""
        if self.p_value >= SIGNIFICANCE:
            return "equals"
        return "beats" if self.won > self.lost else "below"

    def sentence(self) -> str:
        """The basis of the verdict, in a few words."""
        if not self.won + self.lost:
            return "right about the same rows"
        return f"alone right about {self.won} rows against {self.lost}, p = {self.p_value:.2g}"
