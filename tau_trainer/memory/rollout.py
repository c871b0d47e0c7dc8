"""On-policy experience of any number of agents, kept in order of arrival.

A decision opens a *record* (observation, action, log-probability); the agent's next message closes it: now its reward
and what came after are known, and it is a *transition*. Every agent owns a slot, a small integer that the caller
chooses; a table holds each slot's open record. All calls are a handful of vectorised writes, whatever the number of
agents, and :meth:`RolloutMemory.take` copies only what is still open.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from tau_trainer.memory.log import ExperienceLog, IndexArray, RecordState
from tau_trainer.memory.trajectories import Rollout
from tau_trainer.specs import ActionSpec, BoolArray, FloatArray, IntArray, ObservationSpec


class RolloutMemory:
    """Struct-of-arrays memory for on-policy algorithms.

    One thread writes (:meth:`append`, :meth:`end`, :meth:`abandon`, :meth:`take`); a :class:`Rollout` that was taken
    belongs to whoever holds it and may be read in another thread while writing goes on in other arrays.

    Args:
        observations: the sensors that the policy sees.
        actions: the behavior's actions.
        capacity: transitions that are expected in one rollout; more is possible, the arrays grow.
        horizon: longest stretch of one agent's transitions before the trace is cut and bootstrapped
            (ML-Agents' ``time_horizon``).
        reward_components: ``R``, numbers in one reward: 1, or one for each action component.
    """

    def __init__(
        self,
        observations: tuple[ObservationSpec, ...],
        actions: ActionSpec,
        *,
        capacity: int,
        horizon: int,
        reward_components: int = 1,
    ) -> None:
        if horizon < 1 or reward_components < 1:
            raise ValueError(f"horizon and reward_components must be at least 1, not {horizon}, {reward_components}")
        self.observations = observations
        self.actions = actions
        self.horizon = horizon
        self.reward_components = reward_components
        self._expected = max(capacity, 1)
        self._log = self._new_log()
        self._free: deque[ExperienceLog] = deque()
        self._open: IndexArray = np.zeros(64, np.intp)
        self._completed = 0

    def __len__(self) -> int:
        """Records in the log, open ones included."""
        return self._log.size - 1

    @property
    def completed(self) -> int:
        """Transitions that :meth:`take` would hand out now."""
        return self._completed

    @property
    def open_slots(self) -> IndexArray:
        """Slots whose last decision still waits for its outcome, ascending."""
        return np.flatnonzero(self._open)

    def append(
        self,
        slots: IntArray | IndexArray,
        reward: FloatArray,
        obs: Sequence[FloatArray],
        continuous: FloatArray,
        discrete: IntArray,
        log_prob: FloatArray,
        mask: BoolArray | None,
        version: int,
    ) -> None:
        """Record one decision of each slot; ``reward`` closes the slot's decision before, if there is one.

        Args:
            slots: integers [n], each at most once.
            reward: float32 [n, R] (or [n] where R is 1), for the action *before* this observation; ignored for a slot
                that has no open record.
            obs: one float32 [n, *shape] for each sensor.
            continuous: float32 [n, c], the raw sample.
            discrete: int32 [n, b].
            log_prob: float32 [n, c + b], one for each action component.
            mask: bool [n, sum of branches], True = forbidden; None = everything allowed.
            version: version of the policy that acted.
        """
        count = len(slots)
        if count == 0:
            return
        log, begin = self._log, self._log.size
        end = begin + count
        log.reserve(end)
        previous = self._close(slots, reward)
        for store, values in zip(log.obs, obs, strict=True):
            store[begin:end] = values
        log.continuous[begin:end] = continuous
        log.discrete[begin:end] = discrete
        log.log_prob[begin:end] = log_prob
        self._write_mask(mask, begin, end)
        log.version[begin:end] = version
        log.slot[begin:end] = slots
        log.previous[begin:end] = previous
        step = log.step[previous]
        step += 1
        step[step == self.horizon] = 0
        log.step[begin:end] = step
        log.state[begin:end] = RecordState.LIVE
        self._open[slots] = np.arange(begin, end)
        log.size = end

    def end(
        self, slots: IntArray | IndexArray, reward: FloatArray, obs: Sequence[FloatArray], truncated: BoolArray
    ) -> None:
        """Close the open records of agents whose episode ended; slots without an open record are ignored.

        Args:
            slots: integers [m], each at most once.
            reward: float32 [m, R] (or [m] where R is 1), the last reward.
            obs: the episode's last observation, one float32 [m, *shape] for each sensor.
            truncated: bool [m], True where a limit cut the episode: the rest is bootstrapped from ``obs``.
        """
        if len(slots) == 0:
            return
        log = self._log
        records = self._close(slots, reward)
        log.state[records] = np.where(truncated, np.uint8(RecordState.TRUNCATED), np.uint8(RecordState.TERMINATED))
        self._open[slots] = 0
        rows = np.flatnonzero(truncated & (records > 0))
        if len(rows):
            log.add_final(records[rows], obs, rows)

    def abandon(self, slots: IntArray | IndexArray) -> None:
        """Give up decisions whose outcome will never be known (the engine was lost).

        Their open records become no transitions; the transition before each is bootstrapped from the abandoned
        observation, so nothing else of the trajectory is lost.
        """
        if len(slots) == 0:
            return
        self._fit(slots)
        self._log.state[self._open[slots]] = RecordState.VOID
        self._open[slots] = 0

    def take(self) -> Rollout:
        """Hand out all transitions and go on with an empty log in which the open records are open again.

        Cheap: arrays are handed over, not copied. Call :meth:`Rollout.release` when the rollout has been read, and
        its arrays serve again.
        """
        taken, fresh = self._log, self._free.popleft() if self._free else self._new_log()
        fresh.clear()
        slots = np.flatnonzero(self._open)
        fresh.carry(taken, self._open[slots])
        self._open[slots] = np.arange(1, 1 + len(slots))
        self._log = fresh
        size, self._completed = self._completed, 0
        return Rollout(taken, size=size, horizon=self.horizon, recycle=self._free.append)

    def _new_log(self) -> ExperienceLog:
        return ExperienceLog(self.observations, self.actions, self._expected, self.reward_components)

    def _fit(self, slots: IntArray | IndexArray) -> None:
        needed = int(slots.max()) + 1
        if needed > len(self._open):
            table = np.zeros(max(needed, 2 * len(self._open)), np.intp)
            table[: len(self._open)] = self._open
            self._open = table

    def _close(self, slots: IntArray | IndexArray, reward: FloatArray) -> IndexArray:
        """Give ``reward`` to the open records of ``slots`` and return them (0 where there is none)."""
        self._fit(slots)
        records = self._open[slots]
        # Row 0 takes the rewards of slots without a record; nobody reads it.
        self._log.reward[records] = reward if reward.ndim == 2 else reward[:, None]
        self._completed += int(np.count_nonzero(records))
        return records

    def _write_mask(self, mask: BoolArray | None, begin: int, end: int) -> None:
        if mask is not None:
            self._log.mask[begin:end] = mask
            self._log.masked = True
        elif self._log.mask.shape[1]:
            self._log.mask[begin:end] = False
