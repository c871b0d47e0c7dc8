"""Hindsight experience replay (Andrychowicz et al. 2017): achieved goals are treated as if they had been desired.

Nothing is stored twice: rows get another goal when they are drawn, and with it another reward and another end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tau_trainer.columns import Rows
from tau_trainer.memory.episodes import Strategy
from tau_trainer.memory.replay import Replay
from tau_trainer.specs import BoolArray, Float64Array, FloatArray

ACHIEVED = "achieved"
"""Column of a replay memory: the achieved goal after a row's action, float32 [G]."""

RewardDone = Callable[[FloatArray, FloatArray], tuple[FloatArray, BoolArray]]
"""Maps achieved and desired goals, float32 [n, G] each, to rewards, float32 [n], and real ends, bool [n]."""


@dataclass(frozen=True, slots=True)
class Hindsight:
    """A view of a replay memory that knows its episodes, and has vectors ``input_0`` and :data:`ACHIEVED`.

    A new goal is one that was achieved by an action of the same episode: with ``future``, the row's own or a later one,
    including the last. Rows of an open episode keep their goal.
    """

    strategy: Strategy
    share: float
    """Share of the drawn rows that get another goal; the others keep theirs."""
    goal: slice
    """Columns of the goal in the vectors."""
    stream: int
    """The column of ``rewards`` to change."""
    paid: Callable[[FloatArray], FloatArray]
    """Maps the rule's rewards, float32 [n], to learned ones."""
    rule: RewardDone

    def relabel(
        self, rewards: FloatArray, terminated: BoolArray, ahead: Rows, replay: Replay, chances: Float64Array
    ) -> tuple[Rows, FloatArray]:
        """Change rewards and ends of ``n`` stretches of one episode each.

        Args:
            rewards: float32 [n, h, S], changed in place.
            terminated: bool [n, h], changed in place.
            ahead: places [n, h] of consecutive rows; -1 after the last one, where rewards have no meaning.
            replay: the memory of these places.
            chances: float64 [2, n] in [0, 1): decide whether each stretch gets another goal, and which.

        Returns:
            Indices of the stretches that got one, [m], and their goals, float32 [m, G], to write into all their inputs.
        """
        assert replay.episodes is not None
        starts, length = ahead[:, 0], ahead.shape[1]  # [n]
        # Only ended episodes: for open ones, the goals to come are unknown.
        chosen = np.flatnonzero((chances[0] < self.share) & replay.episodes.ended(starts))
        picked = replay.episodes.pick(starts[chosen], self.strategy, chances[1, chosen])  # [m]
        goals: FloatArray = replay.column(ACHIEVED, picked)
        if not len(chosen):
            return chosen, goals
        places = np.maximum(ahead[chosen], 0).ravel()  # [m h]; -1 reads place 0, which the caller masks
        achieved = replay.column(ACHIEVED, places)  # [m h, G]
        # An end for another reason than the goal, such as a fall, is an end with any goal.
        ended = replay.column("terminated", places)
        if ended.any():
            ended[ended] = ~self.rule(achieved[ended], replay.column("input_0", places[ended])[:, self.goal])[1]
        # Each goal for all h rows of its stretch.
        reward, reached = self.rule(achieved, np.repeat(goals, length, axis=0))
        rewards[chosen, :, self.stream] = self.paid(reward).reshape(-1, length)
        terminated[chosen] = (reached | ended).reshape(-1, length)
        return chosen, goals
