"""Groups of a rollout: agents that decided together, and returns that continue after an agent's last decision.

Agents that decide at the same moment in the same group are a *set*. All its agents count, even if the outcome of a
decision is not known yet: the observation and the action are known. An agent without a group is a set by itself.

In a group, rewards belong to all agents, so an agent that leaves early is credited with later rewards (Cohen et al.
2021, section 4.1): its last decision has the return of another agent that decided with it and stayed, its *heir*. That
needs no later moment of both, so agents may decide at different rates and die in between.

For networks with a memory, agents' decisions are *sequences*, and those that share sets must be learned from together:
a *block* is a limited number of consecutive sets of a group, and every sequence is within one block.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import GROUP, MOMENT, Rows
from tau_trainer.memory.trajectories import Rollout
from tau_trainer.specs import IndexArray, IntArray, Observations

_GOES_ON, _ENDS_WITH_ALL, _CUT, _LEFT = 3, 2, 1, 0
"""How well a transition knows the later rewards of its group."""


def together(moment: NDArray[np.int64], group: IntArray) -> IndexArray:
    """Number the sets of agents that decided together, from 0, for ``k`` decisions.

    Args:
        moment: [k], see :data:`~tau_trainer.columns.MOMENT`.
        group: [k], see :data:`~tau_trainer.columns.GROUP`; an agent without one decides alone.

    Returns:
        [k]: the set of each decision, by moment and group; agents without a group have a set each.
    """
    alone = np.where(group == 0, 1 + np.arange(len(group)), 0)
    _, joint = np.unique(np.stack((moment, alone, group), axis=1), axis=0, return_inverse=True)
    return np.asarray(joint, np.intp).reshape(-1)


class Groups:
    """The sets of a rollout whose memory keeps moments and groups.

    *Entities* are all ``D`` decisions of the log in order of arrival, whether they are transitions or not, followed by
    the ``F`` last observations that are bootstrapped from, which are sets of their own.

    Args:
        rollout: the rollout.
        longest: number of consecutive sets in a block; None: there are no blocks.

    Attributes:
        decisions: ``D``.
        sets: ``S``.
        joint: int [D + F], the set of each entity.
        entity: int [N], the entity of each transition.
        block: int [D], with blocks: the block number of each decision.
        turn: int [D + F], with blocks: the place of each entity if all are ordered by block, agent and time; last
            observations come at the end.
        fresh: bool [D + F], with blocks: whether a sequence starts with it.
    """

    block: Rows
    turn: Rows
    fresh: NDArray[np.bool_]

    def __init__(self, rollout: Rollout, longest: int | None = None) -> None:
        self._rollout = rollout
        self.entity: Rows = rollout.records - 1
        moment, group = rollout.whole(MOMENT.name), rollout.whole(GROUP.name)
        decided = together(moment[1:], group[1:])
        if longest is not None:
            decided = self._in_blocks(decided, longest)
        self.decisions, first = len(decided), int(decided.max(initial=-1)) + 1
        self._set: Rows = decided[self.entity]  # [N]
        moment, group = rollout.bootstrap_moments, rollout.column(GROUP.name)
        # Separate real ends from those that a limit cut in the same moment.
        seen_last = together(2 * moment[self._finals] + self._ended[self.last], group[self.last])
        self.joint: Rows = np.concatenate((decided, first + seen_last))
        self.sets = first + int(seen_last.max(initial=-1)) + 1
        if longest is not None:
            self.turn = np.concatenate((self.turn, np.arange(len(decided), len(self.joint))))
            self.fresh = np.concatenate((self.fresh, np.ones(len(seen_last), np.bool_)))

    def _in_blocks(self, decided: Rows, longest: int) -> Rows:
        """The set of each decision [D], renumbered so that the sets of a block follow one another."""
        row, group, moment, before = (
            self._rollout.whole(name)[1:] for name in ("row", GROUP.name, MOMENT.name, "previous")
        )
        group = np.where(group == 0, -1 - row, group)  # an agent without a group is one of its own
        _, first = np.unique(decided, return_index=True)
        order = np.lexsort((moment[first], group[first]))
        decided = np.argsort(order)[decided]
        # If no agent continues from an earlier decision, a new block starts.
        followers = np.flatnonzero((before > 0) & (group[before - 1] == group))
        going_on = np.zeros(len(order) + 1, np.intp)
        np.add.at(going_on, decided[before[followers] - 1] + 1, 1)
        np.add.at(going_on, decided[followers] + 1, -1)
        begins, places = np.cumsum(going_on[:-1]) == 0, np.arange(len(order))
        begins |= (places - np.maximum.accumulate(np.where(begins, places, 0))) % longest == 0
        self.block = np.cumsum(begins)[decided]
        order = np.lexsort((row, self.block))  # stable: an agent's decisions keep their order
        self.turn = np.argsort(order)
        self.fresh = np.ones(len(order), np.bool_)
        goes_on = (before[order[1:]] == order[:-1] + 1) & (self.block[order[1:]] == self.block[order[:-1]])
        self.fresh[order[1:]] = ~goes_on
        return decided

    @cached_property
    def heir(self) -> Rows:
        """[N], the transition whose return each one has: its own, or that of an agent that stays longer."""
        rollout = self._rollout
        rank = np.full(len(rollout), _ENDS_WITH_ALL)
        rank[rollout.truncated] = _CUT
        rank[rollout.left] = _LEFT
        rank[self._followed] = _GOES_ON
        order = np.lexsort((rank, self._set))
        best = np.zeros(self.decisions, np.intp)
        best[self._set[order]] = order  # the last one written is the best of its set
        best = best[self._set]
        inherits = (rank == _LEFT) & (rank[best] > _LEFT)
        inherits |= (rank == _CUT) & (rank[best] == _GOES_ON)
        return np.where(inherits, best, np.arange(len(rollout)))

    @cached_property
    def after(self) -> Rows:
        """[N], the set after each transition; ``sets``: there is none, or the heir has it."""
        return np.where(self._ended, self.sets, self.beyond)

    @cached_property
    def beyond(self) -> Rows:
        """The same, but with all ends treated as limits, if the memory keeps ``ends``."""
        after = np.full(len(self._rollout), self.sets)
        after[self._followed] = self.joint[self._successor[self._followed] - 1]
        after[self.last] = self.joint[self.decisions :]
        return after

    @cached_property
    def next(self) -> Rows:
        """[N]: the transition whose return follows each one's rewards; any valid one if there is none."""
        return self.heir[self._rollout.next]

    def observations(self) -> Observations:
        """One [D + F, *shape] for each sensor."""
        rollout, finals = self._rollout, self._finals
        last = [sensor[finals] for sensor in rollout.bootstrap_observations]
        return tuple(np.concatenate((rollout.whole(f"obs_{i}")[1:], sensor)) for i, sensor in enumerate(last))

    def summed(self, rewards: NDArray[Any]) -> NDArray[Any]:
        """[N, R]: for each transition, the sum of rewards of all that decided with it and whose outcome is known."""
        total = np.zeros((self.sets, rewards.shape[1]), np.float64)
        np.add.at(total, self._set, rewards)
        return total[self._set]

    @cached_property
    def _successor(self) -> Rows:
        return self._rollout.successor[self._rollout.records]

    @cached_property
    def _followed(self) -> NDArray[np.bool_]:
        """Bool [N]: whether the agent decided again."""
        followed: NDArray[np.bool_] = self._successor > 0
        return followed

    @cached_property
    def last(self) -> Rows:
        """[F]: transitions that are bootstrapped from their agent's last observation."""
        rollout = self._rollout
        alone = self.heir == np.arange(len(rollout))
        ended = rollout.truncated | rollout.left | (self._ended & (rollout.bootstrap >= 0))
        return np.flatnonzero(ended & alone & ~self._followed)

    @cached_property
    def _ended(self) -> NDArray[np.bool_]:
        """Bool [N]: whether it is a real end, of the agent and its whole group."""
        ended: NDArray[np.bool_] = self._rollout.terminated & ~self._rollout.left
        return ended

    @cached_property
    def _finals(self) -> Rows:
        """[F]: indices of those observations among the rollout's bootstrap observations."""
        return self._rollout.bootstrap[self.last]
