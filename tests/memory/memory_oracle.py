"""RolloutMemory's contract once more, with one Python object a record and no arrays: slow and easy to believe."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(eq=False)
class Record:
    """One decision. ``marker`` is its observation; ``following`` the same agent's next decision."""

    marker: float
    row: int
    step: int
    masked: bool
    version: int
    reward: list[float] | None = None
    following: Record | None = None
    terminated: bool = False
    final: float | None = None


@dataclass
class OracleMemory:
    """Same calls as RolloutMemory, for one number as observation and all streams' rewards side by side."""

    horizon: int
    records: list[Record] = field(default_factory=list)
    open: dict[int, Record] = field(default_factory=dict)

    def append(self, row: int, reward: list[float], marker: float, masked: bool, version: int) -> None:
        previous = self.open.get(row)
        step = 0 if previous is None else (previous.step + 1) % self.horizon
        record = Record(marker, row, step, masked, version)
        if previous is not None:
            previous.reward, previous.following = reward, record
        self.records.append(record)
        self.open[row] = record

    def end(self, row: int, reward: list[float], marker: float, truncated: bool) -> None:
        record = self.open.pop(row, None)
        if record is not None:
            record.reward, record.terminated = reward, not truncated
            record.final = marker if truncated else None

    def abandon(self, row: int) -> None:
        self.open.pop(row, None)

    def clear(self) -> None:
        self.records, self.open = [], {}

    def take(self) -> list[Record]:
        taken = [record for record in self.records if record.reward is not None]
        self.records = []
        for row in sorted(self.open):
            old = self.open[row]
            self.records.append(Record(old.marker, row, old.step, old.masked, old.version))
            self.open[row] = self.records[-1]
        return taken


def value_of(marker: float, component: int) -> float:
    """Any function of the observation serves as a critic."""
    return math.sin(marker + component)


def advantages(
    taken: list[Record], horizon: int, gamma: float, lambd: float, components: int
) -> dict[Record, list[float]]:
    """Generalised advantage estimation by recursion from the newest record to the oldest."""
    known: dict[Record, list[float]] = {}
    for record in reversed(taken):
        row: list[float] = []
        for component in range(components):
            following, after = record.following, 0.0
            if following is not None:
                after = value_of(following.marker, component)
            elif record.final is not None:
                after = value_of(record.final, component)
            assert record.reward is not None
            result = record.reward[component] + gamma * after - value_of(record.marker, component)
            if following in known and record.step != horizon - 1:
                assert following is not None
                result += gamma * lambd * known[following][component]
            row.append(result)
        known[record] = row
    return known
