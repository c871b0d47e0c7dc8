"""The life of an AgentTrainer, and what a run hands back when it is over."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tau_trainer.errors import TauError


class PairState(enum.Enum):
    """Where an AgentTrainer stands; the value is what users read."""

    IDLE = "Idle"
    """Made, waiting for the semaphore."""
    PREPARING = "Preparing"
    """Its engine starts and shakes hands."""
    TRAINING = "Training"
    EVALUATING = "Evaluating"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELLED = "Cancelled"

    @property
    def ended(self) -> bool:
        """Whether nothing follows."""
        return self in (PairState.COMPLETED, PairState.FAILED, PairState.CANCELLED)


_NEXT: dict[PairState, tuple[PairState, ...]] = {
    PairState.IDLE: (PairState.PREPARING, PairState.CANCELLED, PairState.FAILED),
    PairState.PREPARING: (PairState.TRAINING, PairState.CANCELLED, PairState.FAILED),
    PairState.TRAINING: (PairState.EVALUATING, PairState.COMPLETED, PairState.CANCELLED, PairState.FAILED),
    PairState.EVALUATING: (PairState.COMPLETED, PairState.CANCELLED, PairState.FAILED),
    PairState.COMPLETED: (),
    PairState.FAILED: (),
    PairState.CANCELLED: (),
}


def allowed(before: PairState, after: PairState) -> bool:
    """Whether an AgentTrainer may go from ``before`` to ``after``."""
    return after in _NEXT[before]


@dataclass(frozen=True, slots=True)
class PairMetrics:
    """What one pair has done so far."""

    id: int
    state: PairState
    decisions: int
    """Decisions of its agents, earlier runs that were resumed included."""
    episodes: int
    mean_reward: float | None
    """Recent mean reward of one decision (where a task counts those) or of one episode; None before the first."""
    success_rate: float | None
    """Recent share of successes, 0 to 1; None where no success is defined."""
    restarts: int
    """How often its engine was started again."""
    accuracy: float | None = None
    """Held-out accuracy of its policy, 0 to 1; None before an evaluation."""
    error: str | None = None


@dataclass(slots=True)
class RunReport:
    """The central report of a run: what every pair did, and what came of it."""

    run_id: str
    folder: Path
    outcome: str
    """``completed``, ``cancelled`` or ``failed``."""
    pairs: tuple[PairMetrics, ...]
    decisions: int
    wall_seconds: float
    decisions_per_second: float
    """Over the time in which pairs were training."""
    evaluation: Mapping[str, Any] | None = None
    """The content of evaluation.json; None where the task has no evaluation."""
    verdict: str | None = None
    """One sentence: does the policy beat the baselines?"""
    models: tuple[Path, ...] = ()
    """Exported ONNX files; of independent policies the best one's first."""
    errors: tuple[str, ...] = field(default=())
    """One sentence for each pair that failed."""

    @property
    def exit_code(self) -> int:
        """0: all pairs ended as they should; 1: some failed; 2: all failed, or something ended the whole run."""
        if self.outcome == "failed":
            return 2
        return int(any(pair.state is PairState.FAILED for pair in self.pairs))


def told(error: Exception) -> str:
    """An error as one sentence: a TauError's own, and for a defect of this program also what kind it is."""
    return str(error) if isinstance(error, TauError) else f"internal error: {type(error).__name__}: {error}"
