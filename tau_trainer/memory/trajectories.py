"""What a :class:`~tau_trainer.memory.rollout.RolloutMemory` hands to the learner, and advantages over it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tau_trainer.memory.log import ExperienceLog, IndexArray, RecordState
from tau_trainer.specs import BoolArray, FloatArray, IntArray

DoubleArray = NDArray[np.float64]

_T = TypeVar("_T", bound=np.generic)


class _Links:
    """How transitions follow each other, from the rows of one log. ``N`` transitions, ``M`` bootstrap observations."""

    def __init__(self, log: ExperienceLog, horizon: int) -> None:
        size = log.size
        state = log.state[:size]
        successor = np.zeros(size, np.intp)
        successor[log.previous[1:size]] = np.arange(1, size)
        closed = (successor > 0) | (state == RecordState.TERMINATED) | (state == RecordState.TRUNCATED)
        closed[0] = False
        self.rows: IndexArray = np.flatnonzero(closed)
        """[N]: log row of each transition."""
        count = len(self.rows)
        place = np.full(size, -1, np.intp)
        place[self.rows] = np.arange(count)
        follower = successor[self.rows]
        self.following: IndexArray = place[follower]
        """[N]: the next transition of the same agent, -1 = none in this rollout."""
        self.truncated: BoolArray = state[self.rows] == RecordState.TRUNCATED
        self.terminated: BoolArray = state[self.rows] == RecordState.TERMINATED
        hanging = np.flatnonzero((follower > 0) & (self.following < 0))
        self.hanging_rows: IndexArray = follower[hanging]
        """Log rows of decisions that are not transitions but follow one: their observation bootstraps it."""
        self.bootstrap: IndexArray = np.full(count, -1, np.intp)
        """[N]: which bootstrap observation stands after the transition, -1 = none."""
        self.bootstrap[hanging] = np.arange(len(hanging))
        finals = place[log.final_record[: log.final_size]]
        self.bootstrap[finals] = np.arange(len(hanging), len(hanging) + len(finals))
        self.cut: BoolArray = log.step[self.rows] == horizon - 1
        """[N]: the trace ends here because the horizon is reached."""


class Rollout:
    """``N`` transitions in order of arrival, with the ``M`` further observations that bootstrapping needs.

    Every array is built when it is first asked for, in the thread that asks. The arrays may be views: do not read
    them after :meth:`release`.
    """

    def __init__(
        self, log: ExperienceLog, *, size: int, horizon: int, recycle: Callable[[ExperienceLog], None]
    ) -> None:
        self._log = log
        self._size = size
        self._horizon = horizon
        self._recycle: Callable[[ExperienceLog], None] | None = recycle

    def __len__(self) -> int:
        """Number of transitions, ``N``."""
        return self._size

    def release(self) -> None:
        """Give the arrays back to the memory; the rollout must not be read afterwards. Further calls do nothing."""
        recycle, self._recycle = self._recycle, None
        if recycle is not None:
            recycle(self._log)

    @cached_property
    def _links(self) -> _Links:
        return _Links(self._log, self._horizon)

    @cached_property
    def observations(self) -> tuple[FloatArray, ...]:
        """One float32 [N, *shape] for each sensor."""
        return tuple(self._rows(array) for array in self._log.obs)

    @cached_property
    def bootstrap_observations(self) -> tuple[FloatArray, ...]:
        """One float32 [M, *shape] for each sensor: what came after transitions that have no successor here."""
        log, rows = self._log, self._links.hanging_rows
        return tuple(
            np.concatenate((array[rows], final[: log.final_size]))
            for array, final in zip(log.obs, log.final_obs, strict=True)
        )

    @cached_property
    def continuous(self) -> FloatArray:
        """float32 [N, c], the raw sample."""
        return self._rows(self._log.continuous)

    @cached_property
    def discrete(self) -> IntArray:
        """int32 [N, b]."""
        return self._rows(self._log.discrete)

    @cached_property
    def log_prob(self) -> FloatArray:
        """float32 [N, c + b], of each action component when it was chosen."""
        return self._rows(self._log.log_prob)

    @cached_property
    def mask(self) -> BoolArray | None:
        """Action masks, bool [N, sum of branches], True = forbidden; None where no mask was ever given."""
        return self._rows(self._log.mask) if self._log.masked else None

    @cached_property
    def reward(self) -> FloatArray:
        """float32 [N, R]."""
        return self._rows(self._log.reward)

    @cached_property
    def version(self) -> IntArray:
        """int32 [N], version of the policy that acted."""
        return self._rows(self._log.version)

    @cached_property
    def slots(self) -> IntArray:
        """int32 [N], whose transition it is."""
        return self._rows(self._log.slot)

    @property
    def following(self) -> IndexArray:
        """[N], index of the same agent's next transition, -1 = none in this rollout."""
        return self._links.following

    @property
    def bootstrap(self) -> IndexArray:
        """[N], index into :attr:`bootstrap_observations`, -1 = none."""
        return self._links.bootstrap

    @property
    def terminated(self) -> BoolArray:
        """Bool [N]: the episode really ended after the transition."""
        return self._links.terminated

    @property
    def truncated(self) -> BoolArray:
        """Bool [N]: a limit cut the episode after the transition."""
        return self._links.truncated

    @property
    def cut(self) -> BoolArray:
        """Bool [N]: the trace ends after the transition because the horizon is reached."""
        return self._links.cut

    def gae(
        self,
        values: NDArray[np.floating],
        bootstrap_values: NDArray[np.floating],
        gamma: float,
        lambd: float,
        *,
        strength: float = 1.0,
    ) -> tuple[DoubleArray, DoubleArray]:
        """Generalised advantage estimates and returns (Schulman et al. 2016, equations 11 to 16).

        ``A_t = delta_t + gamma * lambd * A_{t+1}``, ``delta_t = r_t + gamma * V_{t+1} - V_t``. ``V_{t+1}`` is 0 after
        a real end; the trace ends at the end of an episode, at the horizon, and where the rollout ends.

        Args:
            values: [N, R] of :attr:`observations`.
            bootstrap_values: [M, R] of :attr:`bootstrap_observations`.
            gamma: discount.
            lambd: GAE's lambda.
            strength: factor on the reward.

        Returns:
            Advantages and returns (advantage + value), float64 [N, R].
        """
        links, count = self._links, len(self._links.rows)
        reward = self.reward.astype(np.float64) * strength
        current = np.asarray(values, np.float64).reshape(reward.shape)
        # One table of all values, with a row of zeros at its end for "nothing comes after".
        boot = np.asarray(bootstrap_values, np.float64).reshape(-1, reward.shape[1])
        table = np.concatenate((current, boot, np.zeros((1, reward.shape[1]))))
        after = np.where(links.following >= 0, links.following, np.where(links.bootstrap >= 0, count, len(table) - 1))
        after = after + np.where((links.following < 0) & (links.bootstrap >= 0), links.bootstrap, 0)
        delta = reward + gamma * table[after] - current
        trace = np.where((links.following >= 0) & ~links.cut, gamma * lambd, 0.0)
        advantage = accumulate(delta, trace, np.maximum(links.following, 0))
        return advantage, advantage + current

    def _rows(self, array: NDArray[_T]) -> NDArray[_T]:
        rows = self._links.rows
        if len(rows) == self._log.size - 1:
            return array[1 : self._log.size]
        return array[rows]


def accumulate(delta: DoubleArray, factor: DoubleArray, following: IndexArray) -> DoubleArray:
    """Solve ``A[i] = delta[i] + factor[i] * A[following[i]]`` for all rows at once by pointer jumping.

    Every pass doubles the stretch that each row has summed, so the longest chain of ``T`` rows takes ``log2(T)``
    passes and no Python loop over time (Wyllie's list ranking; Blelloch 1990, section 1.4).

    Args:
        delta: float64 [N, R].
        factor: float64 [N]; 0 ends a chain.
        following: [N], any valid row where the factor is 0. Chains must not close to a ring.

    Returns:
        float64 [N, R].
    """
    result, factor = delta.copy(), factor[:, None]
    while factor.any():
        result += factor * result[following]
        factor = factor * factor[following]
        following = following[following]
    return result
