"""What differs between runs: how experience is gathered, and where it is learned from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from tau_trainer.metrics import BaselineScore, BehaviorSnapshot, PairMetrics
from tau_trainer.runs.store import ModelWriter


class Export(NamedTuple):
    """A model that is written at the end."""

    name: str
    """Of its file."""
    write: ModelWriter
    steps: int | None
    """That its policy is made from; None: another of the models is the same one."""
    reward: float | None = None
    """The mean reward that its policy was chosen by, or last seen with; None: nobody knows."""


class Conclusion(NamedTuple):
    """What came of a run: its models, and what its policies are worth."""

    exports: Sequence[Export] = ()
    files: Mapping[str, Path] = {}
    """Further files by what they are called in the last panel."""
    failures: Sequence[str] = ()
    """Sentences about what could not be written."""
    evaluation: Mapping[str, Any] | None = None
    """For ``evaluation.json``; None: nothing was evaluated that stands there."""
    verdict: str | None = None
    chosen: Mapping[str, str] = {}
    """Which policy is exported, of which decision and with which score, in words, by its name."""
    baselines: Mapping[str, BaselineScore] = {}


class Collector(ABC):
    """Gathers a run's experience and lets its learners learn from it.

    Belongs to the run's thread, but for :meth:`interrupt`. It is made ready to go on from where the run stands, and
    ends with the context that made it.
    """

    unit: ClassVar[str] = "decisions"
    """What :attr:`steps` counts."""
    configuration: str | None = None
    """Its settings, where more is known of them than when it was begun."""

    @property
    @abstractmethod
    def command(self) -> str:
        """Of ``tau-train``."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """So far, in all runs, of everything that learns together."""

    @property
    @abstractmethod
    def max_steps(self) -> int:
        """Where the run ends."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether everything has had all its steps."""

    @property
    @abstractmethod
    def learned(self) -> bool:
        """Whether anything was learned by this process."""

    @property
    @abstractmethod
    def subject(self) -> str:
        """What is learned from, in a word or two."""

    @property
    @abstractmethod
    def behaviors(self) -> tuple[BehaviorSnapshot, ...]:
        """Each policy now."""

    @property
    def pairs(self) -> tuple[PairMetrics, ...]:
        """Each pair now."""
        return ()

    @property
    def status(self) -> Mapping[str, Any]:
        """Further fields of :class:`RunSnapshot`, now."""
        return {}

    @property
    def failure(self) -> Exception | None:
        """What all that plays has failed by."""
        return None

    @property
    def errors(self) -> Sequence[str]:
        """Sentences about parts that have failed while others went on."""
        return ()

    def announce(self) -> None:
        """Say what a person has to do."""
        return

    @abstractmethod
    def advance(self) -> bool:
        """Gather and learn for a moment; False: that was the last, for all is done or the run is to end.

        Raises what the run cannot go on with.
        """

    def interrupt(self) -> None:
        """The run is to end, or to end at once: its events say so. May be called from any thread."""
        return

    @abstractmethod
    def save(self) -> None:
        """The run is over: write what was counted last, and the last checkpoints."""

    @abstractmethod
    def conclude(self) -> Conclusion:
        """Evaluate policies, and say which are exported; where the run is in a hurry, without evaluation.

        Nothing is exported then, and ``chosen`` says what could be.
        """
