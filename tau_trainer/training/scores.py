"""Running scores of one pair: episodes, mean reward, success rate."""

from __future__ import annotations

import numpy as np

from tau_trainer.specs import FloatArray
from tau_trainer.training.slots import Slots

_RECENT_DECISIONS = 4000
_RECENT_EPISODES = 100


class RecentMean:
    """Mean over about the last ``memory`` values (exponential weights, corrected for the start)."""

    def __init__(self, memory: int) -> None:
        self._decay = 1.0 - 1.0 / memory
        self._sum = 0.0
        self._weight = 0.0

    def add(self, values: FloatArray) -> None:
        """Add every value of an array, as if they came one after another with their mean."""
        count = len(values)
        if count:
            keep = self._decay**count
            self._sum = self._sum * keep + float(values.mean()) * (1.0 - keep)
            self._weight = self._weight * keep + (1.0 - keep)

    @property
    def value(self) -> float | None:
        """The mean; None before the first value."""
        return self._sum / self._weight if self._weight > 0 else None


class EpisodeScores:
    """Undiscounted returns and lengths of the agents of one behavior in one engine, by slot."""

    def __init__(self) -> None:
        self.episodes = 0
        self.recent_return = RecentMean(_RECENT_EPISODES)
        self._returns = np.zeros(64, np.float64)
        self._lengths = np.zeros(64, np.int64)
        self._acted = np.zeros(64, np.bool_)

    def _fit(self, slots: Slots) -> None:
        largest = int(slots.max(initial=-1))
        if largest >= len(self._returns):
            more = max(largest + 1, 2 * len(self._returns)) - len(self._returns)
            self._returns = np.concatenate([self._returns, np.zeros(more)])
            self._lengths = np.concatenate([self._lengths, np.zeros(more, np.int64)])
            self._acted = np.concatenate([self._acted, np.zeros(more, np.bool_)])

    def acted(self, slots: Slots) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Bool [n]: whose message answers a decision of this episode (else its reward belongs to none)."""
        self._fit(slots)
        return self._acted[slots]

    def step(self, slots: Slots, reward: FloatArray) -> None:
        """Agents that decide now: ``reward`` [n] came with their observation."""
        self._fit(slots)
        self._returns[slots] += np.where(self._acted[slots], reward, 0.0)
        self._lengths[slots] += 1
        self._acted[slots] = True

    def end(self, slots: Slots, reward: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Agents whose episode ended with ``reward`` [m]: their returns and lengths in decisions, float32 [m].

        Agents that ended without a decision are left out.
        """
        self._fit(slots)
        acted = self._acted[slots]
        known = slots[acted]
        returns = (self._returns[known] + reward[acted]).astype(np.float32)
        lengths = self._lengths[known].astype(np.float32)
        self.episodes += len(known)
        self.recent_return.add(returns)
        self._returns[slots] = 0.0
        self._lengths[slots] = 0
        self._acted[slots] = False
        return returns, lengths

    def clear(self) -> None:
        """All episodes began anew."""
        self._returns.fill(0.0)
        self._lengths.fill(0)
        self._acted.fill(False)


class DecisionScores:
    """Mean reward and success rate of one pair's recent decisions."""

    def __init__(self) -> None:
        self.reward = RecentMean(_RECENT_DECISIONS)
        self.success = RecentMean(_RECENT_DECISIONS)
