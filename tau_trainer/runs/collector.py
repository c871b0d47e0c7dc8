"""The part that differs between runs: how experience is collected and learned from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from tau_trainer.metrics import BaselineScore, BehaviorSnapshot, PairMetrics
from tau_trainer.metrics.summary import UNIT
from tau_trainer.runs.store import ModelWriter
from tau_trainer.specs import Json


class Export(NamedTuple):
    """A model to write at the end of a run."""

    name: str
    """Name of the model's file."""
    write: ModelWriter
    steps: int | None
    """Steps of the policy; None if another of the models is the same policy."""
    reward: float | None = None
    """The mean reward by which the policy was chosen, or its last one; None if unknown."""


class Conclusion(NamedTuple):
    """The result of a run: its models, and the scores of its policies."""

    exports: Sequence[Export] = ()
    files: Mapping[str, Path] = {}
    """Other files by their names in the last panel."""
    failures: Sequence[str] = ()
    """A sentence for each file that could not be written."""
    evaluation: Json | None = None
    """Content of ``evaluation.json``; None if there is none."""
    verdict: str | None = None
    chosen: Mapping[str, str] = {}
    """Description of each exported policy, with its decisions and score, by name."""
    baselines: Mapping[str, BaselineScore] = {}
    lessons: Mapping[str, int] = {}
    """The last lesson of each parameter with a curriculum, from 0."""


class Collector(ABC):
    """Collects a run's experience and lets its learners learn from it.

    Call it only in the run's thread, except :meth:`interrupt`. When created, it is ready to continue from the run's
    state; it ends with the context that created it.
    """

    unit: ClassVar[str] = UNIT
    """Unit of :attr:`steps`."""
    configuration: str | None = None
    """The run's settings, if more are known than at its start."""

    @property
    @abstractmethod
    def command(self) -> str:
        """Name of the command of ``tau-train``."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """Steps so far, of all learners together, including those before the run was resumed."""

    @property
    @abstractmethod
    def max_steps(self) -> int:
        """Steps at which the run ends."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether all learners have reached their last step."""

    @property
    @abstractmethod
    def learned(self) -> bool:
        """Whether this process has learned anything."""

    @property
    @abstractmethod
    def subject(self) -> str:
        """The environment or data, in a word or two."""

    @property
    @abstractmethod
    def behaviors(self) -> tuple[BehaviorSnapshot, ...]:
        """The current state of each policy."""

    @property
    def pairs(self) -> tuple[PairMetrics, ...]:
        """The current state of each pair."""
        return ()

    @property
    def status(self) -> Json:
        """Other current fields of :class:`RunSnapshot`."""
        return {}

    @property
    def failure(self) -> Exception | None:
        """The error if all environments have failed, otherwise None."""
        return None

    @property
    def errors(self) -> Sequence[str]:
        """A sentence for each part that failed while others continued."""
        return ()

    def announce(self) -> None:
        """Tell the user what to do to start the run."""
        return

    @abstractmethod
    def advance(self) -> bool:
        """Collect and learn for a moment; returns False if everything is done or the run must end.

        Raises errors that end the run.
        """

    def interrupt(self) -> None:
        """React to a request to end the run, or to end it at once; see the run's events. Call from any thread."""
        return

    @abstractmethod
    def save(self) -> None:
        """At the end of the run, write the last statistics and checkpoints."""

    @abstractmethod
    def conclude(self) -> Conclusion:
        """Evaluate policies, and choose which to export. If the run must end at once, skip the evaluation.

        In this case nothing is exported, and ``chosen`` describes what could be.
        """
