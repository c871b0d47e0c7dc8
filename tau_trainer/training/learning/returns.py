"""``criterion`` over ``trial_count`` episodes: ends the training of a behavior before its max_steps.

Each learner checks the episodes of all agents that feed it, in all environments, in the order in which they end. A
learner that has reached its criterion is done as if it had reached max_steps: it continues to act but stops learning,
and a run ends when all learners are done. Checkpoints keep its newest returns, so a resumed run continues the count.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from tau_trainer.settings import TrainerSettings


class EpisodeReturns:
    """Undiscounted returns, of agent and group together, of the newest ``trial_count`` episodes of one learner.

    If episodes are counted in batches, as on tensors, it keeps the fewest newest batches that hold ``trial_count``
    episodes.

    Attributes:
        count: number of episodes that it keeps.
        ended: number of all episodes since it was made.
    """

    def __init__(self, settings: TrainerSettings) -> None:
        self.count = self.ended = 0
        self._settings = settings
        self._newest = deque[tuple[int, float]]()
        """Batches of episodes: their number, and their mean return."""

    def add(self, returns: Iterable[float]) -> bool:
        """Count episodes that ended, in this order; True if the criterion is reached. Later ones are left out."""
        return any(self.add_mean(1, value) for value in returns)

    def add_mean(self, episodes: int, mean: float) -> bool:
        """Count ``episodes`` that ended together; True if the criterion is reached."""
        if math.isfinite(mean):
            self._newest.append((episodes, mean))
            self.count += episodes
            self.ended += episodes
            while self.count - self._newest[0][0] >= self._settings.trial_count:
                self.count -= self._newest.popleft()[0]
        return self._settings.criterion is not None and self.reached

    @property
    def mean(self) -> float | None:
        """Mean over ``trial_count`` episodes; None while there are fewer."""
        return self.mean_of(self._settings.trial_count)

    def mean_of(self, most: int) -> float | None:
        """Mean over the newest ``most`` episodes, or ``trial_count``; None while there are fewer.

        Callable from any thread.
        """
        most, count, parts = min(most, self._settings.trial_count), 0, list[float]()
        for episodes, mean in reversed(tuple(self._newest)):
            if count < most:
                count += episodes
                parts.append(episodes * mean)
        return math.fsum(parts) / count if count >= most else None

    @property
    def reached(self) -> bool:
        """Whether the criterion is reached."""
        criterion, mean = self._settings.criterion, self.mean
        return criterion is not None and mean is not None and mean >= criterion

    def sentence(self, learner: str, decisions: int) -> str:
        """The message that ``learner`` has reached its criterion after this number of decisions."""
        return (
            f"'{learner}' has reached its criterion after {decisions:,} decisions: the mean reward of its newest "
            f"{self.count:,} episodes is {self.mean:g} (criterion: {self._settings.criterion:g})"
        )

    def state(self) -> list[Any]:
        """The state that a checkpoint keeps: a return of one episode, or a number of episodes with their mean."""
        return [mean if episodes == 1 else [episodes, mean] for episodes, mean in tuple(self._newest)]

    def load(self, newest: Sequence[Any]) -> None:
        """Restore :meth:`state`, from a run that may have had another ``trial_count``."""
        self._newest.clear()
        self.count = 0
        for known in newest:
            self.add_mean(*((1, known) if isinstance(known, float | int) else known))
