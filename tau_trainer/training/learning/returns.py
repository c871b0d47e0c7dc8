"""When a behavior has learned enough before its max_steps are over: ``criterion`` over ``trial_count`` episodes.

Each learner looks at the episodes of all agents that feed it, in all environments, in the order in which they end. One
that has reached its criterion is done as if it had had its max_steps: it acts on and learns no more, and a run ends
once all learners are done. Its newest returns are in checkpoints, so that a resumed run counts on.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence

from tau_trainer.settings import TrainerSettings


class EpisodeReturns:
    """Undiscounted returns, of agent and group together, of the newest ``trial_count`` episodes of one learner."""

    def __init__(self, settings: TrainerSettings) -> None:
        self._settings = settings
        self._newest: deque[float] = deque(maxlen=settings.trial_count)

    def add(self, returns: Iterable[float]) -> bool:
        """Episodes ended, in this order; whether the criterion is reached. Those after that are left out."""
        for value in returns:
            if math.isfinite(value):
                self._newest.append(value)
            if self._settings.criterion is not None and self.reached:
                return True
        return False

    @property
    def mean(self) -> float | None:
        """Over ``trial_count`` episodes; None while there were fewer."""
        full = len(self._newest) == self._settings.trial_count
        return math.fsum(self._newest) / len(self._newest) if full else None

    @property
    def reached(self) -> bool:
        """Whether the criterion is."""
        criterion, mean = self._settings.criterion, self.mean
        return criterion is not None and mean is not None and mean >= criterion

    def state(self) -> list[float]:
        """What a checkpoint keeps."""
        return list(self._newest)

    def load(self, newest: Sequence[float]) -> None:
        """Go on from :meth:`state`, of a run that may have had another ``trial_count``."""
        self._newest.clear()
        self._newest.extend(newest)
