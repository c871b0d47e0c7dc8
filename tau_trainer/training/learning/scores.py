"""Rewards in the newest summaries: the figures by which a run is reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tau_trainer.metrics import Summary, keys


class LastRewards:
    """Rewards of one learner in the newest summaries: the figures of a run, at any moment and at its end.

    Their window is that of ML-Agents' console, and the final report of a run agrees with its last line. A summary in
    which no episode ended changes nothing.
    """

    def __init__(self) -> None:
        self._overall: dict[str, tuple[int, float]] = {}
        self._pairs: dict[str, dict[str, float]] = {}

    def take(self, summary: Summary) -> None:
        """Keep the values of ``summary``."""
        for key in (*keys.EPISODE_REWARDS, keys.EPISODE_LENGTH):
            statistics = summary.statistics.get(key)
            if statistics is not None and statistics.count:
                self._overall[key] = statistics.count, statistics.mean
        for pair, said in summary.pairs.items():
            self._pairs.setdefault(pair, {}).update(
                {key: statistics.value for key, statistics in said.items() if statistics.count}
            )

    @property
    def episodes(self) -> int:
        """Number of episodes behind :attr:`mean`."""
        return self._overall.get(keys.CUMULATIVE_REWARD, (0, 0.0))[0]

    @property
    def mean(self) -> float | None:
        """Mean of the agents' own rewards in an episode; None before the first summary that has one."""
        return self.mean_of(keys.CUMULATIVE_REWARD)

    def mean_of(self, key: str) -> float | None:
        """Mean over the episodes of ``key``: a reward, or their length; None before the first summary that has one."""
        known = self._overall.get(key)
        return None if known is None else known[1]

    def of_pair(self, pair: int, key: str) -> float | None:
        """The newest value of ``key`` for one pair; None if no summary had one."""
        return self._pairs.get(str(pair), {}).get(key)

    def state(self) -> dict[str, tuple[int, float]]:
        """The state that a checkpoint keeps: the figures of the learner, not those of each pair."""
        return dict(self._overall)

    def load(self, known: Mapping[str, Sequence[float]]) -> None:
        """Restore :meth:`state`."""
        self._overall = {key: (int(count), float(mean)) for key, (count, mean) in known.items()}
