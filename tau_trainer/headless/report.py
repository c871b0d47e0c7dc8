"""The engine's own count of decisions and episodes, for benchmarks that must not trust the trainer's count."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tau_trainer.specs import StepBatch, Terminals


class Report:
    """Appends a JSON line to a file every ``interval`` seconds, and a last one at the end.

    Keys: ``time`` (Unix time in seconds), ``decisions``, ``exchanges`` and ``episodes`` (totals), ``mean_return``
    (mean over the episodes that ended since the last line; null if none did).

    If ``episodes`` is true, the file ``<path>.episodes`` gets a line for each episode when it ends: ``behavior``,
    ``begun`` and ``ended`` (decisions of all agents of that behavior up to the start and the end of the episode),
    ``return``, ``time``. An agent's episode starts at the count at which its previous one ended.
    """

    def __init__(
        self, path: Path, agents: int, interval: float = 1.0, *, behaviors: int = 1, episodes: bool = False
    ) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._each = Path(f"{path}.episodes").open("a", encoding="utf-8", buffering=1) if episodes else None  # noqa: SIM115
        self._returns = np.zeros(agents)
        self._decisions = np.zeros(behaviors, np.int64)
        self._begun = np.zeros((agents, behaviors), np.int64)
        self._exchanges = self._episodes = 0
        self._ended: list[float] = []
        self._interval = interval
        self._due = time.monotonic() + interval

    def close(self) -> None:
        """Write the last line."""
        self._write()
        self._file.close()
        if self._each is not None:
            self._each.close()

    def reset(self) -> None:
        """Drop the rewards of all running episodes, after the trainer reset the scene. Counts one exchange."""
        self._returns[:] = 0.0
        self._begun[:] = self._decisions
        self._exchanges += 1

    def add(self, asked: Sequence[int], batches: Sequence[StepBatch]) -> None:
        """Count one exchange: the trainer sent actions, and the scene answered with ``batches``.

        ``asked``: number of agents with an action, by behavior; ``batches``: one for each behavior, in the same order.
        """
        self._exchanges += 1
        self._decisions += asked
        for behavior, batch in enumerate(batches):
            if len(batch.terminals):
                self._end(behavior, batch.behavior, batch.terminals)
        for batch in batches:
            self._returns[batch.agent_ids] += batch.reward
        if time.monotonic() >= self._due:
            self._write()

    def _end(self, behavior: int, name: str, ended: Terminals) -> None:
        ids = ended.agent_ids
        self._returns[ids] += ended.reward
        returns = self._returns[ids].tolist()
        if self._each is not None:
            line = {"behavior": name, "ended": int(self._decisions[behavior]), "time": time.time()}
            for begun, value in zip(self._begun[ids, behavior].tolist(), returns, strict=True):
                self._each.write(json.dumps({**line, "begun": begun, "return": value}) + "\n")
        self._ended.extend(returns)
        self._returns[ids] = 0.0
        self._begun[ids] = self._decisions
        self._episodes += len(ended)

    def _write(self) -> None:
        line = {
            "time": time.time(),
            "decisions": int(self._decisions.sum()),
            "exchanges": self._exchanges,
            "episodes": self._episodes,
            "mean_return": sum(self._ended) / len(self._ended) if self._ended else None,
        }
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        self._ended.clear()
        self._due = time.monotonic() + self._interval
