"""Handles of an algorithm that learns in a thread of this process, or in a process of its own.

A handle's methods block; they are called from one worker thread at a time. The difference is the interpreter's lock
during an update: a thread shares it with the event loop, a process (:mod:`.process`) does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tau_trainer.algorithms import Algorithm, Publish, State
from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError
from tau_trainer.memory import Work
from tau_trainer.models import Policy
from tau_trainer.specs import Json


class LearnerHandle(Protocol):
    """The learning side of an algorithm."""

    abreast: int
    """Number of updates that may run at a time, each submitted by a thread of its own."""

    def submit(self, work: Work, progress: float, publish: Publish | None) -> dict[str, float]:
        """Learn from ``work`` and release it; returns statistics by TensorBoard name. See :meth:`Algorithm.update`.

        Raises:
            NonFiniteError: the update met NaN; all state is as before it.
            LearnerError: the process that learns has ended.
        """

    def policy(self) -> Policy:
        """The newest whole policy; callable from any thread."""

    def state(self) -> State:
        """The state that a checkpoint keeps. Raises LearnerError."""

    def load(self, arrays: Arrays, metadata: Json, *, fresh: bool) -> None:
        """See :meth:`Algorithm.load`. Raises CheckpointError, LearnerError."""


class LocalLearner:
    """Learns in the calling thread."""

    abreast = 1

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self._policy = algorithm.snapshot()

    def submit(self, work: Work, progress: float, publish: Publish | None) -> dict[str, float]:
        """Learn in this thread."""
        try:
            return self._algorithm.update(work, progress, publish)
        finally:
            work.release()

    def policy(self) -> Policy:
        """The newest whole policy, copied when it is first asked for."""
        if self._policy.version != self._algorithm.version:
            self._policy = self._algorithm.snapshot()
        return self._policy

    def state(self) -> State:
        """The state that a checkpoint keeps."""
        return self._algorithm.state()

    def load(self, arrays: Arrays, metadata: Json, *, fresh: bool) -> None:
        """Restore a checkpoint."""
        self._algorithm.load(arrays, metadata, fresh=fresh)
        self._policy = self._algorithm.snapshot()


class MemberLearner:
    """Learns with many others in one computation, which :class:`.PopulationTrainer` runs.

    Attributes:
        algorithm: the algorithm it was made with, which does not learn by itself.
        loaded: the state that it starts from, and whether it is a fresh start; the population reads it when this joins.
        stats: of the newest update.
    """

    abreast = 1

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self.loaded: tuple[Arrays, Json, bool] | None = None
        self.stats: dict[str, float] = {}
        self._snapshot: Callable[[], Policy] = algorithm.snapshot
        self._state: Callable[[], State] = algorithm.state

    def join(self, snapshot: Callable[[], Policy], state: Callable[[], State]) -> None:
        """Use the population's policy and state from now on."""
        self._snapshot, self._state, self.loaded = snapshot, state, None

    def submit(self, work: Work, progress: float, publish: Publish | None) -> dict[str, float]:
        """Return the statistics: the population has learned already."""
        return dict(self.stats)

    def policy(self) -> Policy:
        """The newest whole policy."""
        return self._snapshot()

    def state(self) -> State:
        """The state that a checkpoint keeps."""
        return self._state()

    def load(self, arrays: Arrays, metadata: Json, *, fresh: bool) -> None:
        """Restore a checkpoint. Raises CheckpointError."""
        if not fresh and "population" not in metadata:
            raise CheckpointError(
                "it is of pairs with engines; resume it with the --env that it had, or start a population with what "
                "they learned: --initialize-from"
            )
        self.algorithm.load(arrays, metadata, fresh=fresh)
        self.loaded = arrays, metadata, fresh
