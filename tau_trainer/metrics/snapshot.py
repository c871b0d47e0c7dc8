"""The state of a run at one moment, and at its end: the data of the live table and the last panel."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tau_trainer.metrics.games import Games
from tau_trainer.metrics.summary import UNIT


class PairState(enum.StrEnum):
    """State of a pair; users read the value."""

    IDLE = "Idle"
    """It waits for the semaphore."""
    PREPARING = "Preparing"
    """Its engine starts and connects."""
    TRAINING = "Training"
    PLAYING = "Playing"
    """Acting without learning."""
    EVALUATING = "Evaluating"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELLED = "Cancelled"

    @property
    def ended(self) -> bool:
        """True if no other state follows."""
        return self in (PairState.COMPLETED, PairState.FAILED, PairState.CANCELLED)


@dataclass(frozen=True, slots=True)
class PairMetrics:
    """Progress of one AgentTrainerPair."""

    id: int
    """Number of the pair, from 0."""
    state: PairState
    decisions: int = 0
    """Decisions of its agents, including those before a resume."""
    mean_reward: float | None = None
    """Mean reward of a decision (if a task counts those) or of an episode, in its last summary that has one."""
    success_rate: float | None = None
    """Share of positive binary rewards in its last summary, 0 to 1; None: no binary reward is computed, or none yet."""
    decisions_per_second: float = 0.0
    """Current speed; 0 if it is not training, and in a report."""
    error: str | None = None
    """One sentence, if the pair failed."""
    episodes: int = 0
    restarts: int = 0
    """Number of restarts of its engine."""
    validation_accuracy: float | None = None
    """Accuracy of its policy at its end, 0 to 1; None before that, and without an evaluation."""
    mean_group_reward: float | None = None
    """Mean reward of agents' groups in an episode; None if groups get none."""
    node: str = ""
    """Machine of the cluster that it plays on; empty: the trainer's."""


@dataclass(frozen=True, slots=True)
class BehaviorSnapshot:
    """Current state of one behavior's training."""

    name: str
    step: int = 0
    """Decisions of this behavior, including those before a resume."""
    max_steps: int = 0
    """Step at which training ends; 0: no limit."""
    episodes: int = 0
    mean_reward: float | None = None
    """Mean reward of agents, without their groups', in the episodes of the window; None: none was completed."""
    mean_length: float | None = None
    """Mean number of decisions of these episodes; None: unknown."""
    mean_group_reward: float | None = None
    """Mean reward of their groups in these episodes; None: groups get none."""
    window: str = "summary"
    """Source of the means: the last ``summary`` in which an episode ended, or the last ``evaluation``."""
    window_episodes: int = 0
    """Number of episodes that ended in it; 0: unknown."""
    steps_per_decision: float | None = None
    """Gradient steps for each decision of the last summary; None: it learns from no replay memory."""
    elo: float | None = None
    """Elo rating of the newest policy, as in ML-Agents; None: no self-play."""
    games: tuple[Games, ...] = ()
    """Its results against each opponent of self-play, of all its policies together."""


@dataclass(frozen=True, slots=True)
class BaselineScore:
    """Score of a baseline on the same rows: a policy that ignores the prompt, or a supervised learner."""

    reward: float
    accuracy: float
    """Share of rows decoded to the right answer, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of the machine by the trainer's own process, without engines."""

    cpu_cores: float
    """Busy cores, averaged over recent seconds."""
    cores: int | None = None
    """Number of cores that it may use; None: unknown."""
    memory_bytes: int | None = None
    """Resident memory; None: unknown (Windows)."""


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """Current state of a run: all data of the live table."""

    run_id: str
    command: str
    """``parallel``, ``learn`` or ``batch``."""
    subject: str = ""
    """Source of the experience, in a word or two: the data, or the environment."""
    seed: int | None = None
    elapsed_s: float = 0.0
    decisions: int = 0
    """Decisions of all pairs together."""
    unit: str = UNIT
    """See :attr:`RunReport.unit`."""
    max_decisions: int = 0
    """Decisions at which the run ends; 0: no limit."""
    decisions_per_second: float = 0.0
    eta_s: float | None = None
    """Seconds until the run ends, at its current speed; None: unknown."""
    policy_version: int = 0
    """Number of updates so far."""
    policy_age: float = 0.0
    """Mean number of versions by which the acting policy is behind the learner's newest."""
    held_seconds: float = 0.0
    """Seconds that observations waited because the policy's age was at its limit."""
    update_seconds: float = 0.0
    """Seconds spent in updates."""
    time_shares: Mapping[str, float] = field(default_factory=dict)
    """Shares of the time so far by name, 0 to 1: ``game``, ``acting``, ``waiting``, ``learning``. Learning may run at
    the same time as the others."""
    usage: Usage | None = None
    pairs: tuple[PairMetrics, ...] = ()
    columns: tuple[str, ...] = ()
    """Columns of the table of pairs that the run's task adds: ``success``."""
    behaviors: tuple[BehaviorSnapshot, ...] = ()
    validation_accuracy: float | None = None
    """Accuracy of the newest policy, 0 to 1; None: not evaluated."""
    baselines: Mapping[str, BaselineScore] | None = None
    """Scores of the baselines on the same rows, by name; None: the task has none."""
    lessons: tuple[str, ...] = ()
    """A text for each environment parameter with a curriculum: ``height: lesson 2 of 4, Tall``."""
    figures: tuple[str, ...] = ()
    """Further figures as texts, if the run has any: speeds of actors and learning, age of actors' weights."""
    message: str | None = None
    """One line for the user ("waiting for the engine: press Play")."""
    learning: bool = True
    """False if a saved run is only played."""

    @property
    def progress(self) -> float | None:
        """Finished share of the run, 0 to 1; None if it has no limit."""
        return min(self.decisions / self.max_decisions, 1.0) if self.max_decisions > 0 else None


@dataclass(frozen=True, slots=True)
class RunReport:
    """The central report of a run: the work of every pair, and the result. The last panel shows it."""

    run_id: str
    folder: Path
    command: str
    """``parallel``, ``learn`` or ``batch``."""
    outcome: str
    """``completed``, ``cancelled``, ``played`` (without learning) or ``failed``."""
    decisions: int
    wall_seconds: float
    decisions_per_second: float
    """Speed over the time in which pairs were training."""
    pairs: tuple[PairMetrics, ...] = ()
    evaluation: Mapping[str, Any] | None = None
    """The content of evaluation.json; None if the task has no evaluation."""
    verdict: str | None = None
    """Whether the policy beats the baselines, and which policy it is, in words."""
    baselines: Mapping[str, BaselineScore] = field(default_factory=dict)
    """Scores of the baselines on the rows of the evaluation."""
    behaviors: tuple[BehaviorSnapshot, ...] = ()
    models: tuple[Path, ...] = ()
    """Exported ONNX files; with independent policies, the best one's first."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """Paths by name: ``policy``, ``checkpoints``, ``curve``, ..."""
    errors: tuple[str, ...] = ()
    """One sentence for each failed pair, and for each other error or failure to save."""
    unit: str = UNIT
    """Unit of :attr:`decisions`; ``gradient steps`` for learning from recordings."""

    @property
    def exit_code(self) -> int:
        """0: success; 1: some pairs failed, or something could not be saved; 2: no pair finished."""
        if self.outcome == "failed":
            return 2
        return int(bool(self.errors) or any(pair.state is PairState.FAILED for pair in self.pairs))

    def score(self, name: str) -> float | None:
        """``reward``, ``accuracy``, ... of the evaluation; None without an evaluation."""
        return (self.evaluation or {}).get(name)
