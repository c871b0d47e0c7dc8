"""The engine's own count of what it played, for benchmarks that must not trust the trainer's count."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tau_trainer.specs import StepBatch


class Report:
    """Appends a JSON line every ``interval`` seconds, and one at the end, to a file.

    Keys: ``time`` (Unix time in seconds), ``decisions``, ``exchanges`` and ``episodes`` (totals), ``mean_return``
    (mean over the episodes that ended since the last line; null if none did).
    """

    def __init__(self, path: Path, agents: int, interval: float = 1.0) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._returns = np.zeros(agents)
        self._decisions = self._exchanges = self._episodes = 0
        self._ended: list[float] = []
        self._interval = interval
        self._due = time.monotonic() + interval

    def close(self) -> None:
        """Write the last line."""
        self._write()
        self._file.close()

    def reset(self) -> None:
        """All running episodes were dropped: forget their rewards. Counts one exchange."""
        self._returns[:] = 0.0
        self._exchanges += 1

    def add(self, decisions: int, batches: Sequence[StepBatch]) -> None:
        """One exchange was answered with actions for ``decisions`` agents, and led to ``batches``."""
        self._exchanges += 1
        self._decisions += decisions
        for ended in (batch.terminals for batch in batches):
            if len(ended):
                self._returns[ended.agent_ids] += ended.reward
                self._ended.extend(self._returns[ended.agent_ids].tolist())
                self._returns[ended.agent_ids] = 0.0
                self._episodes += len(ended)
        for batch in batches:
            self._returns[batch.agent_ids] += batch.reward
        if time.monotonic() >= self._due:
            self._write()

    def _write(self) -> None:
        line = {
            "time": time.time(),
            "decisions": self._decisions,
            "exchanges": self._exchanges,
            "episodes": self._episodes,
            "mean_return": sum(self._ended) / len(self._ended) if self._ended else None,
        }
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        self._ended.clear()
        self._due = time.monotonic() + self._interval
