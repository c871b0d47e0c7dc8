"""When a behavior has learned enough before its max_steps are over: ``criterion`` over ``trial_count`` episodes.

Each learner looks at the episodes of all agents that feed it, in all environments, in the order in which they end. One
that has reached its criterion is done as if it had had its max_steps: it acts on and learns no more, and a run ends
once all learners are done. Its newest returns are in checkpoints, so that a resumed run counts on.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from tau_trainer.settings import TrainerSettings
from tau_trainer.settings.batched import PolicySettings


class EpisodeReturns:
    """Undiscounted returns, of agent and group together, of the newest ``trial_count`` episodes of one learner.

    Where episodes are counted several at once, as on tensors, it looks at as few such counts, the newest last, as hold
    so many episodes.

    Attributes:
        count: episodes that it looks at.
        ended: all episodes since it was made.
    """

    def __init__(self, settings: TrainerSettings | PolicySettings) -> None:
        self.count = self.ended = 0
        self._settings = settings
        self._newest = deque[tuple[int, float]]()
        """Episodes that were counted together, and their mean return."""

    def add(self, returns: Iterable[float]) -> bool:
        """Episodes ended, in this order; whether the criterion is reached. Those after that are left out."""
        return any(self.add_mean(1, value) for value in returns)

    def add_mean(self, episodes: int, mean: float) -> bool:
        """So many episodes ended together; whether the criterion is reached."""
        if math.isfinite(mean):
            self._newest.append((episodes, mean))
            self.count += episodes
            self.ended += episodes
            while self.count - self._newest[0][0] >= self._settings.trial_count:
                self.count -= self._newest.popleft()[0]
        return self._settings.criterion is not None and self.reached

    @property
    def mean(self) -> float | None:
        """Over ``trial_count`` episodes; None while there were fewer."""
        return self.mean_of(self._settings.trial_count)

    def mean_of(self, most: int) -> float | None:
        """Over the newest ``most`` episodes, or ``trial_count``; None while there are fewer. Any thread may ask."""
        most, count, parts = min(most, self._settings.trial_count), 0, list[float]()
        for episodes, mean in reversed(tuple(self._newest)):
            if count < most:
                count += episodes
                parts.append(episodes * mean)
        return math.fsum(parts) / count if count >= most else None

    @property
    def reached(self) -> bool:
        """Whether the criterion is."""
        criterion, mean = self._settings.criterion, self.mean
        return criterion is not None and mean is not None and mean >= criterion

    def sentence(self, learner: str, decisions: int) -> str:
        """That ``learner`` has reached it, after so many decisions."""
        return (
            f"'{learner}' has learned enough after {decisions:,} decisions: the mean reward of its newest "
            f"{self.count:,} episodes is {self.mean:g}, and {self._settings.criterion:g} was asked for"
        )

    def state(self) -> list[Any]:
        """What a checkpoint keeps: a return by itself, or how many episodes have the mean return beside it."""
        return [mean if episodes == 1 else [episodes, mean] for episodes, mean in tuple(self._newest)]

    def load(self, newest: Sequence[Any]) -> None:
        """Go on from :meth:`state`, of a run that may have had another ``trial_count``."""
        self._newest.clear()
        self.count = 0
        for known in newest:
            self.add_mean(*((1, known) if isinstance(known, float | int) else known))
