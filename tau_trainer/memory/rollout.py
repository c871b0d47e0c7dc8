"""On-policy experience of any number of agents, in order of arrival.

A decision opens a *record* (observation, action, and the algorithm's own columns); the agent's next message closes it:
now its reward and its next observation are known, and it is a *transition*. A table holds each row's open record. All
calls are a few vectorised writes, independent of the number of agents, and :meth:`RolloutMemory.take` copies only open
records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import GROUP, KNOWN, MOMENT, Column, ColumnTable, Rows
from tau_trainer.memory.base import StepFacts, Values, Work
from tau_trainer.specs import BoolArray, Observations

RECORD = (
    Column("version", (), np.int32),
    Column("row", (), np.int32),
    Column("previous", (), np.intp),
    Column("step", (), np.int32),
    Column("state", (), np.uint8),
)
"""Columns of every record.

The version of the policy that acted, the agent's row, the record of the same agent's previous decision (0 = none), its
place within the horizon, and a :class:`RecordState`.
"""

GROUP_REWARD = Column("group_reward")
"""Column of a record if groups are paid separately from their agents."""

_SPARE = 4096
"""Room in a log for unexpected records: open decisions, and those that arrived together with the last one.

Unused room takes no memory.
"""


class RecordState(IntEnum):
    """State of a record beyond its successor."""

    LIVE = 0
    """Waits for its reward, or has a successor."""
    TERMINATED = 1
    """The episode really ended here, without a next observation."""
    TRUNCATED = 2
    """A limit cut the episode: bootstrap from the final observation."""
    VOID = 3
    """The engine was lost before the outcome was known: not a transition."""
    LEFT = 4
    """The agent's episode really ended here, but its group continues: the group's later rewards are still to come."""


class _Log:
    """Records in order of arrival. Record 0 is a sentinel for values of agents without an open record."""

    def __init__(
        self, columns: Sequence[Column], rewards: Sequence[Column], finals: Sequence[Column], room: int
    ) -> None:
        self.records = ColumnTable((*columns, *rewards, GROUP_REWARD, *RECORD), room)
        self.finals = ColumnTable((*finals, Column("record", (), np.intp)))
        self.clear()

    def clear(self) -> None:
        """Forget all records; the memory stays."""
        self.size = 1
        self.final_size = 0
        self.carried = 0
        """Number of records at the start that were open when the previous log was taken."""
        self.given: set[str] = set()
        """Optional columns for which there have been values."""
        self.records["step"][0] = -1  # the first decision of an agent has record 0 before it, and step -1 + 1 = 0

    def give(self, column: Column) -> None:
        """Mark ``column`` as having values from now on; earlier records get its fill."""
        if column.name not in self.given:
            self.given.add(column.name)
            self.records[column.name][: self.size] = column.fill


class RolloutMemory:
    """Memory of on-policy algorithms.

    One thread writes (:meth:`append`, :meth:`end`, :meth:`abandon`, :meth:`take`); a :class:`Work` that was taken
    belongs to its holder and may be read in another thread while writing continues in other arrays.

    Args:
        observations: the sensors that the policy sees, a column each.
        columns: further columns of a decision (actions, masks, log-probabilities, recurrent state, ...), and those of
            :data:`~tau_trainer.columns.KNOWN` that the algorithm reads.
        rewards: width ``R`` of each reward stream that is paid.
        capacity: expected number of transitions in one rollout; more are possible, because the arrays grow.
        horizon: longest stretch of one agent's transitions before the trace is cut and bootstrapped
            (ML-Agents' ``time_horizon``).
        ends: whether to keep also the last observation of an episode that really ended, as if a limit had cut it. If
            groups are among the columns, that of an agent whose group continues is always kept.
    """

    def __init__(
        self,
        observations: Sequence[Column],
        columns: Sequence[Column],
        *,
        rewards: dict[str, int],
        capacity: int,
        horizon: int,
        ends: bool = False,
    ) -> None:
        if horizon < 1 or not rewards or min(rewards.values()) < 1:
            raise ValueError(f"horizon and the width of every reward must be at least 1, not {horizon}, {rewards}")
        self.columns = (*observations, *columns)
        self.horizon = horizon
        self._ends = ends
        self._facts = tuple(column for column in columns if column in KNOWN)
        self._observations = tuple(observations)
        self._rewards = tuple(Column(f"reward.{name}", (width,)) for name, width in rewards.items())
        self._room = max(capacity, 1) + 1 + _SPARE  # record 0 is the sentinel
        self._log = self._new_log()
        self._free: deque[_Log] = deque()
        self._open = ColumnTable((Column("record", (), np.intp),), 64)
        self._completed = 0
        self.lost = 0

    def __len__(self) -> int:
        """Number of records in the log, including open ones."""
        return self._log.size - 1

    @property
    def completed(self) -> int:
        """Number of transitions that :meth:`take` would hand out now."""
        return self._completed

    def waiting(self, column: Column) -> NDArray[Any]:
        """[k, *shape]: a column with values, for all records that :func:`len` counts. A view; do not keep it."""
        return self._log.records[column.name][1 : self._log.size]

    @property
    def open_rows(self) -> Rows:
        """Rows whose last decision still waits for its outcome, ascending."""
        return np.flatnonzero(self._open["record"])

    def append(self, rows: Rows, facts: StepFacts, values: Values, version: int) -> None:
        """See :meth:`.Memory.append`."""
        count = len(rows)
        if count == 0:
            return
        log, begin = self._log, self._log.size  # records begin ... end - 1 are these decisions
        end = begin + count
        log.records.reserve(end)
        previous = self._close(rows, facts)  # first, the same agents' previous decisions, int [n]
        records = log.records
        if self._facts:
            values = {**values, **{column.name: getattr(facts, column.name) for column in self._facts}}
        for column in self.columns:
            value = values[column.name]
            if value is not None and column.name not in log.given:
                log.give(column)
            if column.name in log.given:
                records[column.name][begin:end] = column.fill if value is None else value
        step = records["step"][previous] + 1  # place in the horizon, 0 ... horizon - 1
        step[step == self.horizon] = 0  # the trace is cut after the last one, and a new one starts
        records["version"][begin:end] = version
        records["row"][begin:end] = rows
        records["previous"][begin:end] = previous
        records["step"][begin:end] = step
        records["state"][begin:end] = RecordState.LIVE
        self._open["record"][rows] = np.arange(begin, end)  # the agents' open records, until their next message
        log.size = end

    def end(self, rows: Rows, facts: StepFacts, obs: Observations, truncated: BoolArray) -> None:
        """See :meth:`.Memory.end`."""
        if len(rows) == 0:
            return
        records = self._close(rows, facts)
        kept = truncated | self._ends
        states = np.where(truncated, np.uint8(RecordState.TRUNCATED), np.uint8(RecordState.TERMINATED))
        if facts.plays_on is not None:
            left = facts.plays_on & ~truncated
            states[left] = RecordState.LEFT
            kept |= left & (GROUP in self._facts)  # the group's future is bootstrapped from it
        self._log.records["state"][records] = states
        self._open["record"][rows] = 0
        kept &= records > 0  # an agent that never decided has no record to end
        if kept.any():
            self._keep_final(records[kept], [sensor[kept] for sensor in obs], facts)

    def abandon(self, rows: Rows) -> None:
        """See :meth:`.Memory.abandon`.

        The transition before each is bootstrapped from the abandoned observation, so the rest of the trajectory is not
        lost.
        """
        self._open.fit(rows)
        records = self._open["record"][rows]
        self.lost += int(np.count_nonzero(records))
        self._log.records["state"][records] = RecordState.VOID
        self._open["record"][rows] = 0

    def clear(self) -> None:
        """Forget all experience that was not handed out."""
        self._log.clear()
        self._open.clear()
        self._completed = 0

    def take(self) -> Work:
        """Hand out all transitions and continue with an empty log, in which the open records are open again.

        Cheap: arrays are handed over, not copied. Read them with :class:`~tau_trainer.memory.trajectories.Rollout`.
        """
        taken, fresh = self._log, self._free.popleft() if self._free else self._new_log()
        fresh.clear()
        rows = self.open_rows
        records = self._open["record"][rows]  # ascending by agent, not by time
        self._carry(taken, fresh, records)
        self._open["record"][rows] = np.arange(1, 1 + len(rows))  # they are the first in the new log
        self._log, self._completed = fresh, 0
        release = partial(self._free.extend, iter((taken,)))  # further calls find the iterator empty
        facts = {"horizon": self.horizon, "open": records, "carried": taken.carried}
        return Work({**self._data(taken), **facts}, release)

    def _new_log(self) -> _Log:
        finals = (*self._observations, MOMENT) if MOMENT in self._facts else self._observations
        return _Log(self.columns, self._rewards, finals, self._room)

    def _data(self, log: _Log) -> dict[str, NDArray[Any]]:
        """Views of the written records. A column without values is left out."""
        optional = (*self.columns, GROUP_REWARD)
        kept = [column.name for column in log.records.columns if column not in optional or column.name in log.given]
        data = {name: log.records[name][: log.size] for name in kept}
        return data | {
            f"final.{column.name}": log.finals[column.name][: log.final_size] for column in log.finals.columns
        }

    def _carry(self, source: _Log, target: _Log, records: Rows) -> None:
        """Copy open ``records`` [m] to 1..m of an empty log, as decisions without a predecessor."""
        end = 1 + len(records)
        target.records.reserve(end)
        target.given |= source.given - {GROUP_REWARD.name}
        for name in (*target.given, "version", "row", "step"):  # rewards are not carried: they are still to come
            target.records[name][1:end] = source.records[name][records]
        for name in ("previous", "state"):
            target.records[name][1:end] = 0  # no decision before them here; the trace was cut between two logs
        target.size = end
        target.carried = len(records)

    def _close(self, rows: Rows, facts: StepFacts) -> Rows:
        """Give rewards to the open records of ``rows`` and return them (0 if there is none)."""
        self._open.fit(rows)
        log = self._log
        records: Rows = self._open["record"][rows]  # [n]; 0: none
        for column in self._rewards:
            # Record 0 takes the rewards of rows without an open one; it is never read.
            log.records[column.name][records] = facts.rewards[column.name.removeprefix("reward.")]
        if facts.group_reward is not None:
            log.give(GROUP_REWARD)
            log.records[GROUP_REWARD.name][records] = facts.group_reward
        elif GROUP_REWARD.name in log.given:
            log.records[GROUP_REWARD.name][records] = 0
        self._completed += int(np.count_nonzero(records))  # without sentinels
        return records

    def _keep_final(self, records: Rows, obs: Sequence[NDArray[Any]], facts: StepFacts) -> None:
        """Keep ``obs``, one [m, *shape] for each sensor, as the next observations of ``records`` [m]."""
        log = self._log
        begin, end = log.final_size, log.final_size + len(records)
        log.finals.reserve(end)
        for column, values in zip(self._observations, obs, strict=True):
            log.finals[column.name][begin:end] = values
        if MOMENT in self._facts:
            log.finals[MOMENT.name][begin:end] = facts.moment
        log.finals["record"][begin:end] = records
        log.final_size = end
