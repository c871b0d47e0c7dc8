"""What a run looks like at one moment, and at its end: the data behind the live table and the last panel."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tau_trainer.metrics.games import Games


class PairState(enum.StrEnum):
    """State of a pair; users read the value."""

    IDLE = "Idle"
    """Made, waiting for the semaphore."""
    PREPARING = "Preparing"
    """Its engine starts and shakes hands."""
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
    """What one AgentTrainerPair has done so far."""

    id: int
    """Number of the pair, from 0."""
    state: PairState
    decisions: int = 0
    """Decisions of its agents, earlier runs that were resumed included."""
    mean_reward: float | None = None
    """Mean reward of one decision (where a task counts those) or of one episode in its last summary that has one."""
    success_rate: float | None = None
    """Share of positive binary rewards in its last summary, 0 to 1; None: no binary reward is computed, or none yet."""
    decisions_per_second: float = 0.0
    """Now; 0 where it is not training, and in a report."""
    error: str | None = None
    """One sentence, when the pair failed."""
    episodes: int = 0
    restarts: int = 0
    """How often its engine was started again."""
    validation_accuracy: float | None = None
    """Of its policy when it ended, 0 to 1; None before that, and without an evaluation."""
    mean_group_reward: float | None = None
    """Mean reward that agents' groups got in an episode; None where no group gets any."""
    node: str = ""
    """The machine of a cluster that it plays on; empty: the trainer's."""


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
    """Mean reward that agents got themselves in the episodes of the window; None: none was completed."""
    mean_length: float | None = None
    """Mean number of decisions of these episodes; None: unknown."""
    mean_group_reward: float | None = None
    """Mean reward that their groups got in them; None: no group gets any."""
    window: str = "summary"
    """What the means are of: the last ``summary`` in which an episode ended, or the last ``evaluation``."""
    window_episodes: int = 0
    """Number of episodes that ended in it; 0: unknown."""
    steps_per_decision: float | None = None
    """Gradient steps for each decision of the last summary; None: it learns from no replay memory."""
    elo: float | None = None
    """Of the newest policy, as ML-Agents rates it; None: it is not at self-play."""
    games: tuple[Games, ...] = ()
    """What it has scored against each opponent of self-play, as all its policies played."""


@dataclass(frozen=True, slots=True)
class BaselineScore:
    """What a policy is compared with gets on the same rows: one that knows nothing, or a supervised learner."""

    reward: float
    accuracy: float
    """Share of rows decoded to the right answer, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Usage:
    """How much of its machine the trainer's own process uses, without engines."""

    cpu_cores: float
    """Busy cores, averaged over recent seconds."""
    cores: int | None = None
    """Number of cores that it may use; None: unknown."""
    memory_bytes: int | None = None
    """Resident memory; None: unknown (Windows)."""


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A run now. Everything the live table shows comes from here."""

    run_id: str
    command: str
    """``parallel``, ``learn`` or ``batch``."""
    subject: str = ""
    """What is learned from, in a word or two: the data, or the environment."""
    seed: int | None = None
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
    time_shares: Mapping[str, float] = field(default_factory=dict)
    """Shares of the time so far by name, 0 to 1: ``game``, ``acting``, ``waiting``, ``learning``. Learning may run at
    the same time as the others."""
    usage: Usage | None = None
    pairs: tuple[PairMetrics, ...] = ()
    columns: tuple[str, ...] = ()
    """Columns of the table of pairs that the run's task adds: ``success``."""
    behaviors: tuple[BehaviorSnapshot, ...] = ()
    validation_accuracy: float | None = None
    """Of the newest policy, 0 to 1; None: not evaluated."""
    baselines: Mapping[str, BaselineScore] | None = None
    """What else gets how much on the same rows, by name; None: the task has none."""
    lessons: tuple[str, ...] = ()
    """Of each environment parameter with a curriculum: ``height: lesson 2 of 4, Tall``."""
    figures: tuple[str, ...] = ()
    """Speeds of actors and learning, how far behind actors' weights are, shares of time: where a run tells them."""
    message: str | None = None
    """One line for the person who watches ("waiting for the engine: press Play")."""
    learning: bool = True
    """Whether anything is learned: not where a saved run is played."""

    @property
    def progress(self) -> float | None:
        """Share of the run that is done, 0 to 1; None when it has no limit."""
        return min(self.decisions / self.max_decisions, 1.0) if self.max_decisions > 0 else None


@dataclass(frozen=True, slots=True)
class RunReport:
    """The central report of a run: what every pair did, and what came of it. The last panel shows it."""

    run_id: str
    folder: Path
    command: str
    """``parallel``, ``learn`` or ``batch``."""
    outcome: str
    """``completed``, ``cancelled``, ``played`` (without learning) or ``failed``."""
    decisions: int
    wall_seconds: float
    decisions_per_second: float
    """Over the time in which pairs were training."""
    pairs: tuple[PairMetrics, ...] = ()
    evaluation: Mapping[str, Any] | None = None
    """The content of evaluation.json; None where the task has no evaluation."""
    verdict: str | None = None
    """Does the policy beat the baselines, and which policy is it?"""
    baselines: Mapping[str, BaselineScore] = field(default_factory=dict)
    """On the rows of the evaluation."""
    behaviors: tuple[BehaviorSnapshot, ...] = ()
    models: tuple[Path, ...] = ()
    """Exported ONNX files; of independent policies the best one's first."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """What lies where: ``policy``, ``checkpoints``, ``curve``, ..."""
    errors: tuple[str, ...] = ()
    """One sentence for each pair that failed, and for what else went wrong or could not be saved."""
    unit: str = "decisions"
    """What :attr:`decisions` counts; ``gradient steps`` where recordings are learned from."""

    @property
    def exit_code(self) -> int:
        """0: all went well; 1: some pairs failed, or something could not be saved; 2: nothing came to its end."""
        if self.outcome == "failed":
            return 2
        return int(bool(self.errors) or any(pair.state is PairState.FAILED for pair in self.pairs))

    def score(self, name: str) -> float | None:
        """``reward``, ``accuracy``, ... of the evaluation; None without an evaluation."""
        return (self.evaluation or {}).get(name)
