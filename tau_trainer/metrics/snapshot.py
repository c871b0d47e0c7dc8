"""What a run looks like at one moment, and at its end: the data behind the live table and the last panel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class PairSnapshot:
    """One AgentTrainerPair now."""

    id: int
    """Number of the pair, from 0."""
    state: str
    """Name of its AgentTrainer's state: Idle, Preparing, Training, Evaluating, Completed, Failed, Cancelled."""
    decisions: int = 0
    """Decisions its agents have made in this run."""
    mean_reward: float | None = None
    """Mean reward (of a decision where the task counts those, else of an episode); None: no reward yet."""
    success_rate: float | None = None
    """Share of positive binary rewards, 0 to 1; None: no binary reward is computed, or none yet."""
    decisions_per_second: float = 0.0
    error: str | None = None
    """One sentence, when the pair failed."""


@dataclass(frozen=True, slots=True)
class BehaviorSnapshot:
    """One behavior's training now."""

    name: str
    step: int = 0
    """Decisions of this behavior, earlier runs that were resumed included."""
    max_steps: int = 0
    """Where training ends; 0: no limit."""
    episodes: int = 0
    mean_reward: float | None = None
    """Mean cumulative reward of recent episodes; None: none was completed."""


@dataclass(frozen=True, slots=True)
class BaselineScore:
    """What a policy that knows nothing (or, for ``ridge``, supervised regression) gets on the held-out rows."""

    reward: float
    accuracy: float
    """Share of rows decoded to the right answer, 0 to 1."""


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A run now. Everything the live table shows comes from here."""

    run_id: str
    command: str
    """``parallel`` or ``learn``."""
    elapsed_s: float = 0.0
    decisions: int = 0
    """Decisions of all pairs together."""
    max_decisions: int = 0
    """Where the run ends; 0: no limit."""
    decisions_per_second: float = 0.0
    eta_s: float | None = None
    """Seconds until the run ends at its present speed; None: unknown."""
    policy_version: int = 0
    """Number of updates so far."""
    policy_age: float = 0.0
    """Mean number of versions by which the acting policy is behind the learner's newest."""
    held_seconds: float = 0.0
    """Seconds for which a finished observation waited because the age was at its bound."""
    update_seconds: float = 0.0
    """Seconds spent in updates."""
    pairs: tuple[PairSnapshot, ...] = ()
    columns: tuple[str, ...] = ()
    """Columns of the table of pairs that the run's task adds: ``success``."""
    behaviors: tuple[BehaviorSnapshot, ...] = ()
    accuracy: float | None = None
    """Decoded accuracy on held-out rows, newest evaluation, 0 to 1; None: not evaluated."""
    baselines: Mapping[str, BaselineScore] | None = None
    """Keys ``zeros``, ``constant``, ``majority``, ``ridge``; None: the task has none."""
    message: str | None = None
    """One line for the person who watches ("waiting for the engine: press Play")."""

    @property
    def progress(self) -> float | None:
        """Share of the run that is done, 0 to 1; None when it has no limit."""
        return min(self.decisions / self.max_decisions, 1.0) if self.max_decisions > 0 else None


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended: the last panel."""

    run_id: str
    command: str
    outcome: str
    """``completed``, ``cancelled`` or ``failed``."""
    decisions: int
    wall_seconds: float
    decisions_per_second: float
    verdict: str | None = None
    """One sentence: does the policy beat the baselines?"""
    reward: float | None = None
    """Mean reward on held-out rows, deterministic action."""
    accuracy: float | None = None
    """Decoded accuracy on held-out rows, 0 to 1."""
    accuracy_train: float | None = None
    baselines: Mapping[str, BaselineScore] = field(default_factory=dict)
    behaviors: tuple[BehaviorSnapshot, ...] = ()
    files: Mapping[str, Path] = field(default_factory=dict)
    """What lies where: ``policy``, ``checkpoints``, ``curve``, ..."""
    errors: tuple[str, ...] = ()
    """One sentence for each pair that failed."""
