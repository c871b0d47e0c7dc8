"""The contract of a rewarder, which pays the agents, and the engine's own reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import Rows
from tau_trainer.errors import NonFiniteError
from tau_trainer.specs import Actions, BoolArray, FloatArray, Observations


@dataclass(frozen=True, slots=True)
class RewardResult:
    """Rewards of one step of ``n`` agents."""

    reward: FloatArray
    """float32 ``[n, R]``: the reward to learn from. ``R`` is the number of action components or 1."""
    mean: FloatArray
    """float32 ``[n]``: the same as one number per agent, before any window; for a formula, exactly its value.

    NaN if the message answers no decision.
    """
    success: FloatArray | None
    """float32 ``[n]``: 1 if all components succeeded, otherwise 0.

    NaN if it is open (an outcome before the end, a message that answers no decision). ``None`` if it is open for all
    agents, or there is no predicate.
    """
    aggregated: FloatArray | None
    """float32 ``[n]``: aggregate of the agent's window of binary rewards, NaN and ``None`` as in ``success``."""


class Rewarder(Protocol):
    """Pays the agents of one behavior in one environment. Rows are the caller's numbers for its agents."""

    width: int
    """``R``, numbers in one reward."""

    def decided(self, rows: Rows, actions: Actions, obs: Observations) -> RewardResult | None:
        """Agents act: returns the result to score, if the reward is known already."""

    def answered(
        self, rows: Rows, engine_reward: FloatArray, *, acted: BoolArray, ended: bool
    ) -> tuple[FloatArray, RewardResult | None]:
        """The agents' next messages: rewards [n, R] of their previous decisions, and the result to score now.

        Args:
            rows: rows of the messages' agents.
            engine_reward: float32 [n], as the engine sent it.
            acted: bool [n], whether a message answers a decision; the first of an episode does not.
            ended: whether the episodes of all these agents end with it.
        """

    def clear(self) -> None:
        """Forget all agents: the next ones are new."""


class EngineReward:
    """The engine's reward as it was sent, without a predicate or a score."""

    width = 1

    def decided(self, rows: Rows, actions: Actions, obs: Observations) -> RewardResult | None:
        """Return None: the reward is not known yet."""
        return None

    def answered(
        self, rows: Rows, engine_reward: FloatArray, *, acted: BoolArray, ended: bool
    ) -> tuple[FloatArray, RewardResult | None]:
        """Raises NonFiniteError for a reward that is not a finite number."""
        check_finite(engine_reward[:, None], "engine's reward")
        return engine_reward[:, None], None

    def clear(self) -> None:
        """Do nothing: there is no state."""


def check_finite(values: NDArray[np.floating[Any]], name: str) -> None:
    """Raises NonFiniteError that names the first of ``n`` agents whose ``values`` [n, ...] are not finite."""
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
        raise NonFiniteError(f"The {name} of agent {row + 1} of {len(values)} in this step is not finite.")
