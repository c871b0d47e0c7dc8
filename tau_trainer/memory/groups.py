"""Who of a rollout decided together, and whose return goes on after an agent's last decision.

Agents that decide at the same moment in the same group are a *set*. Whoever is in it counts, also with a decision whose
outcome is not known yet: what it saw and did is. An agent without a group is a set by itself.

In a group rewards are everybody's, so who leaves it early is credited with what comes later (Cohen et al. 2021, section
4.1): its last decision has the return of a mate that decided with it and stayed, its *heir*. That needs no moment at
which both are seen again, so agents may decide at different rates and die in between.

Of networks with a memory agents' decisions are *sequences*, and those that share sets must be learned from together: a
*block* is up to so many sets of a group, one after the other, and every sequence lies within one.
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
"""How well a transition knows what its group gets later."""


def together(moment: NDArray[np.int64], group: IntArray) -> IndexArray:
    """Who decided together: numbers from 0 for ``k`` decisions, the same for agents of one group in one moment.

    Args:
        moment: [k], see :data:`~tau_trainer.columns.MOMENT`.
        group: [k], see :data:`~tau_trainer.columns.GROUP`; an agent without one decides alone.

    Returns:
        [k]: by moments, groups, and those who are alone.
    """
    alone = np.where(group == 0, 1 + np.arange(len(group)), 0)
    _, joint = np.unique(np.stack((moment, alone, group), axis=1), axis=0, return_inverse=True)
    return np.asarray(joint, np.intp).reshape(-1)


class Groups:
    """The sets of a rollout whose memory keeps moments and groups.

    *Entities* are all ``D`` decisions of the log in order of arrival, transitions or not, and behind them the ``F``
    last observations that something is bootstrapped from, which are sets of their own.

    Args:
        rollout: what they are of.
        longest: sets of a block, which follow each other; None: there are no blocks.

    Attributes:
        decisions: ``D``.
        sets: ``S``.
        joint: int [D + F], the set of each entity.
        entity: int [N], which entity each transition is.
        block: int [D], with blocks the number of each decision's.
        turn: int [D + F], with blocks the place of each entity where all lie by block, agent and time; last
            observations lie behind.
        fresh: bool [D + F], with blocks whether a sequence begins with it.
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
        # Who really ended is apart from those that a limit cut in the same moment.
        seen_last = together(2 * moment[self._finals] + self._ended[self.last], group[self.last])
        self.joint: Rows = np.concatenate((decided, first + seen_last))
        self.sets = first + int(seen_last.max(initial=-1)) + 1
        if longest is not None:
            self.turn = np.concatenate((self.turn, np.arange(len(decided), len(self.joint))))
            self.fresh = np.concatenate((self.fresh, np.ones(len(seen_last), np.bool_)))

    def _in_blocks(self, decided: Rows, longest: int) -> Rows:
        """The set of each decision [D], numbered anew so that those of a block follow each other."""
        row, group, moment, before = (
            self._rollout.whole(name)[1:] for name in ("row", GROUP.name, MOMENT.name, "previous")
        )
        group = np.where(group == 0, -1 - row, group)  # who is alone is a group of its own
        _, first = np.unique(decided, return_index=True)
        order = np.lexsort((moment[first], group[first]))
        decided = np.argsort(order)[decided]
        # Where nobody goes on from what came before, a block begins in any case.
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
        """[N], the transition whose return each one has: its own, or that of a mate that stays longer."""
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
        """[N], the set that came after each transition; ``sets``: nothing did, or the heir knows."""
        return np.where(self._ended, self.sets, self.beyond)

    @cached_property
    def beyond(self) -> Rows:
        """The same, as if limits had brought about all ends, where the memory keeps ``ends``."""
        after = np.full(len(self._rollout), self.sets)
        after[self._followed] = self.joint[self._successor[self._followed] - 1]
        after[self.last] = self.joint[self.decisions :]
        return after

    @cached_property
    def next(self) -> Rows:
        """[N]: the transition whose return comes after each one's rewards; any valid one where there is none."""
        return self.heir[self._rollout.next]

    def observations(self) -> Observations:
        """One [D + F, *shape] for each sensor."""
        rollout, finals = self._rollout, self._finals
        last = [sensor[finals] for sensor in rollout.bootstrap_observations]
        return tuple(np.concatenate((rollout.whole(f"obs_{i}")[1:], sensor)) for i, sensor in enumerate(last))

    def summed(self, rewards: NDArray[Any]) -> NDArray[Any]:
        """[N, R] of rewards of each transition: those of all that decided with it and whose outcome is known."""
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
        """[F]: transitions that are bootstrapped from what their agent saw last."""
        rollout = self._rollout
        alone = self.heir == np.arange(len(rollout))
        ended = rollout.truncated | rollout.left | (self._ended & (rollout.bootstrap >= 0))
        return np.flatnonzero(ended & alone & ~self._followed)

    @cached_property
    def _ended(self) -> NDArray[np.bool_]:
        """Bool [N]: a real end, and with it that of all its group."""
        ended: NDArray[np.bool_] = self._rollout.terminated & ~self._rollout.left
        return ended

    @cached_property
    def _finals(self) -> Rows:
        """[F]: where those observations stand among the rollout's bootstrap observations."""
        return self._rollout.bootstrap[self.last]
