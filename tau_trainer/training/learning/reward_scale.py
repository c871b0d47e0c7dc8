"""Warns once if a reward signal drowns the environment's own reward."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tau_trainer.columns import EXTRINSIC
from tau_trainer.metrics import keys
from tau_trainer.metrics.summary import Statistics

MOST = 10.0
"""Largest allowed ratio of a signal's reward per episode, its strength included, to the environment's."""


class RewardScaleCheck:
    """Checks the rewards of episodes from each stream, summary by summary.

    Args:
        streams: names of the reward streams.
    """

    def __init__(self, streams: Iterable[str]) -> None:
        self._watched = [stream for stream in streams if stream != EXTRINSIC]

    def found(self, statistics: Mapping[str, Statistics]) -> list[str]:
        """A sentence for each signal that is too large for the first time in this summary."""
        sizes = {name: statistics.get(keys.return_size(name)) for name in (*self._watched, EXTRINSIC)}
        extrinsic = sizes.pop(EXTRINSIC)
        sentences = []
        for name, size in sizes.items():
            # As long as nothing was earned, another signal has to guide learning.
            if size is None or extrinsic is None or not extrinsic.mean or size.mean <= MOST * extrinsic.mean:
                continue
            self._watched.remove(name)
            sentences.append(
                f"the reward signal {name} drowns the environment's own: {size.mean:,.3g} an episode compared with "
                f"{extrinsic.mean:,.3g}, in absolute numbers; lower its strength"
            )
        return sentences
