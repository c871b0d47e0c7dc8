"""Where an algorithm learns: in a thread of this process, or in a process of its own.

A handle's methods block; they are called from one worker thread at a time. What differs is who holds the interpreter's
lock while an update computes: a thread shares it with the event loop, a process (:mod:`.process`) does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tau_trainer.algorithms import Algorithm, OnBatch, Publish, State
from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError
from tau_trainer.memory import Work
from tau_trainer.models import Policy


class LearnerHandle(Protocol):
    """The learning side of an algorithm."""

    abreast: int
    """Updates that may be under way at a time, each submitted by a thread of its own."""

    def submit(self, work: Work, progress: float, publish: Publish | None) -> dict[str, float]:
        """Learn from ``work`` and release it; statistics by TensorBoard name. See :meth:`Algorithm.update`.

        Raises:
            NonFiniteError: the update met NaN; everything is as before it.
            LearnerError: the process that learns is gone.
        """

    def policy(self) -> Policy:
        """The newest whole policy; may be asked from any thread."""

    def watch(self, on_batch: OnBatch) -> None:
        """Call ``on_batch`` for the minibatches of all updates to come, in the thread that calls :meth:`submit`."""

    def state(self) -> State:
        """What a checkpoint keeps. Raises LearnerError."""

    def load(self, arrays: Arrays, facts: Mapping[str, Any], *, fresh: bool) -> None:
        """See :meth:`Algorithm.load`. Raises CheckpointError, LearnerError."""


class LocalLearner:
    """Learns in the thread that calls."""

    abreast = 1

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self._policy = algorithm.snapshot()

    def submit(self, work: Work, progress: float, publish: Publish | None) -> dict[str, float]:
        """Learn, here and now."""
        try:
            stats = self._algorithm.update(work, progress, publish)
        finally:
            work.release()
        self._policy = self._algorithm.snapshot()
        return stats

    def policy(self) -> Policy:
        """The newest whole policy."""
        return self._policy

    def watch(self, on_batch: OnBatch) -> None:
        """Call ``on_batch`` for all minibatches to come."""
        self._algorithm.on_batch = on_batch

    def state(self) -> State:
        """What a checkpoint keeps."""
        return self._algorithm.state()

    def load(self, arrays: Arrays, facts: Mapping[str, Any], *, fresh: bool) -> None:
        """Go on from a checkpoint."""
        self._algorithm.load(arrays, facts, fresh=fresh)
        self._policy = self._algorithm.snapshot()


class MemberLearner:
    """Learns with many others as one computation, which is not this object's (:class:`.PopulationTrainer`).

    Attributes:
        algorithm: what it was made with; it learns nothing by itself.
        loaded: what it goes on from and whether afresh, for those whom it joins.
        stats: of the newest update.
    """

    abreast = 1

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self.loaded: tuple[Arrays, Mapping[str, Any], bool] | None = None
        self.stats: dict[str, float] = {}
        self._snapshot: Callable[[], Policy] = algorithm.snapshot
        self._state: Callable[[], State] = algorithm.state

    def join(self, snapshot: Callable[[], Policy], state: Callable[[], State]) -> None:
        """From now on the others know its policy and its state."""
        self._snapshot, self._state, self.loaded = snapshot, state, None

    def submit(self, work: Work, progress: float, publish: Publish | None) -> dict[str, float]:
        """It has learned already."""
        return dict(self.stats)

    def policy(self) -> Policy:
        """The newest whole policy."""
        return self._snapshot()

    def watch(self, on_batch: OnBatch) -> None:
        """Minibatches are of all together, so nobody is told of them."""

    def state(self) -> State:
        """What a checkpoint keeps."""
        return self._state()

    def load(self, arrays: Arrays, facts: Mapping[str, Any], *, fresh: bool) -> None:
        """Go on from a checkpoint. Raises CheckpointError."""
        if not fresh and "population" not in facts:
            raise CheckpointError(
                "it is of pairs with engines, and goes on with the --env that it had; --initialize-from begins a "
                "population with what they learned"
            )
        self.algorithm.load(arrays, facts, fresh=fresh)
        self.loaded = arrays, facts, fresh
