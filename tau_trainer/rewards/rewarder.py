"""Who pays the agents: the contract, and the engine's own reward."""

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
    """float32 ``[n, R]``: what is learned from. ``R`` is the number of action components or 1."""
    mean: FloatArray
    """float32 ``[n]``: the same as one number per agent, before any window; for a formula exactly its value. NaN where
    the message answers no decision."""
    success: FloatArray | None
    """float32 ``[n]``: 1 where all components succeeded, else 0; NaN where it is open (an outcome before the end, a
    message that answers no decision). ``None`` if it is open for everyone, or nothing says what success is."""
    aggregated: FloatArray | None
    """float32 ``[n]``: aggregate of the agent's window of binary rewards, NaN and ``None`` as in ``success``."""


class Rewarder(Protocol):
    """Pays the agents of one behavior in one environment. Rows are the caller's numbers for its agents."""

    width: int
    """``R``, numbers in one reward."""

    def decided(self, rows: Rows, actions: Actions, obs: Observations) -> RewardResult | None:
        """Agents act; what is to be scored, where the reward is known already."""

    def answered(
        self, rows: Rows, engine_reward: FloatArray, *, acted: BoolArray, ended: bool
    ) -> tuple[FloatArray, RewardResult | None]:
        """The agents' next messages: rewards [n, R] of their decisions before, and what is to be scored now.

        Args:
            rows: whose messages these are.
            engine_reward: float32 [n], as it was sent.
            acted: bool [n], whether a message answers a decision; the first of an episode answers none.
            ended: whether the episodes of all these agents end with it.
        """

    def clear(self) -> None:
        """All agents are new."""


class EngineReward:
    """The engine's reward as it was sent: nothing is judged, nothing is scored."""

    width = 1

    def decided(self, rows: Rows, actions: Actions, obs: Observations) -> RewardResult | None:
        """Nothing is known yet."""
        return None

    def answered(
        self, rows: Rows, engine_reward: FloatArray, *, acted: BoolArray, ended: bool
    ) -> tuple[FloatArray, RewardResult | None]:
        """Raises NonFiniteError for a reward that is no number."""
        check_finite(engine_reward[:, None], "engine's reward")
        return engine_reward[:, None], None

    def clear(self) -> None:
        """There is nothing to forget."""


def check_finite(values: NDArray[np.floating[Any]], name: str) -> None:
    """Raises NonFiniteError that names the first of ``n`` agents whose ``values`` [n, ...] are no numbers."""
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
        raise NonFiniteError(f"The {name} of agent {row + 1} of {len(values)} in this step is not finite.")
