"""Hindsight experience replay (Andrychowicz et al. 2017): what was reached is looked at as if it had been wanted.

Nothing is stored twice: rows get another goal as they are drawn, and with it another reward and another end.
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
"""Column of a replay memory: what was reached with a row's action, float32 [G]."""

RewardDone = Callable[[FloatArray, FloatArray], tuple[FloatArray, BoolArray]]
"""From what was reached and what was wanted, float32 [n, G] each, to rewards, float32 [n], and real ends, bool [n]."""


@dataclass(frozen=True, slots=True)
class Hindsight:
    """A view of a replay memory that knows its episodes, and has vectors ``input_0`` and :data:`ACHIEVED`.

    A goal comes from what was reached with an action of the same episode: with ``future``, the row's own or a later
    one, the last included. Rows of an episode that goes on keep their goal.
    """

    strategy: Strategy
    share: float
    """Of the rows that are drawn: so many get another goal, the others keep theirs."""
    goal: slice
    """Where it stands in the vectors."""
    stream: int
    """Which column of ``rewards`` it is about."""
    paid: Callable[[FloatArray], FloatArray]
    """From what the rule says, float32 [n], to what is learned from."""
    rule: RewardDone

    def relabel(
        self, rewards: FloatArray, terminated: BoolArray, ahead: Rows, replay: Replay, chances: Float64Array
    ) -> tuple[Rows, FloatArray]:
        """Change what was paid and what ended in ``n`` stretches of one episode each.

        Args:
            rewards: float32 [n, h, S], changed in place.
            terminated: bool [n, h], changed in place.
            ahead: places [n, h] of consecutive rows; -1 where there are no more, and what is paid there means nothing.
            replay: that they are in.
            chances: float64 [2, n] in [0, 1): whether each stretch gets another goal, and which.

        Returns:
            Which of them got one, [m], and their goals, float32 [m, G], which are to be seen in all their inputs.
        """
        assert replay.episodes is not None
        starts, length = ahead[:, 0], ahead.shape[1]  # [n]
        # Only ended episodes: of others it is not known what will be reached.
        chosen = np.flatnonzero((chances[0] < self.share) & replay.episodes.ended(starts))
        picked = replay.episodes.pick(starts[chosen], self.strategy, chances[1, chosen])  # [m]
        goals: FloatArray = replay.column(ACHIEVED, picked)
        if not len(chosen):
            return chosen, goals
        places = np.maximum(ahead[chosen], 0).ravel()  # [m h]; -1 reads place 0, which the caller masks
        achieved = replay.column(ACHIEVED, places)  # [m h, G]
        # An end that was none of the goal's, such as a fall, is one whatever the goal.
        ended = replay.column("terminated", places)
        if ended.any():
            ended[ended] = ~self.rule(achieved[ended], replay.column("input_0", places[ended])[:, self.goal])[1]
        # Each goal for all h rows of its stretch.
        reward, reached = self.rule(achieved, np.repeat(goals, length, axis=0))
        rewards[chosen, :, self.stream] = self.paid(reward).reshape(-1, length)
        terminated[chosen] = (reached | ended).reshape(-1, length)
        return chosen, goals
