"""Where an algorithm learns: in a thread of this process, or in a process of its own.

A handle's methods block; they are called from one worker thread at a time. What differs is who holds the interpreter's
lock while an update computes: a thread shares it with the event loop, a process (:mod:`.learner_process`) does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tau_trainer.algorithms import Algorithm, OnBatch, Publish, State
from tau_trainer.columns import Arrays
from tau_trainer.memory import Work
from tau_trainer.models import Policy


class LearnerHandle(Protocol):
    """The learning side of an algorithm."""

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

    def load(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        """Go on from a checkpoint. Raises CheckpointError, LearnerError."""


class LocalLearner:
    """Learns in the thread that calls."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self._policy = algorithm.snapshot()

    def submit(self, work: Work, progress: float, publish: Publish | None) -> dict[str, float]:
        """Learn, here and now."""
        try:
            stats = self._algorithm.update(work.data, progress, publish)
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

    def load(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._algorithm.load(arrays, facts)
        self._policy = self._algorithm.snapshot()
