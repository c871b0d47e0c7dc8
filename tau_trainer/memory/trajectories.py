"""A rollout as an algorithm reads it: transitions, and their next observations."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import EXTRINSIC, MOMENT, Rows
from tau_trainer.memory.advantages import gae
from tau_trainer.memory.base import Work, WorkData
from tau_trainer.memory.rollout import GROUP_REWARD, RecordState
from tau_trainer.specs import BoolArray, Float64Array, FloatArray, IntArray, Observations

if TYPE_CHECKING:
    from tau_trainer.memory.tensors import TensorRollout

WENT_ON = "went_on"
"""Bool [records], in a rollout joined from several memories: records that were open at the start of their memory's."""
NO_TRANSITIONS: WorkData = {
    "row": np.zeros(1, np.int32),
    "previous": np.zeros(1, np.intp),
    "state": np.zeros(1, np.uint8),
    "horizon": 1,
}
"""The data of a rollout that holds only the log's sentinel."""


def experience(work: WorkData) -> Rollout | TensorRollout:
    """The rollout of an update: the work's tensors if it has any, otherwise a reader of its data."""
    if not isinstance(work, Work):
        return Rollout(work)
    return Rollout(work.data) if work.tensors is None else work.tensors


class Rollout:
    """``N`` transitions in order of arrival, with the ``M`` further observations that bootstrapping needs.

    A reader of the plain data from :meth:`RolloutMemory.take`. Every array is computed at its first use, in the thread
    that uses it, and may be a view of the memory's.
    """

    def __init__(self, data: WorkData) -> None:
        self._data = data
        self._size = len(data["row"])
        self._horizon = data["horizon"]
        self._older = data.get("older", 0)

    def __len__(self) -> int:
        """Number of transitions, ``N``."""
        return len(self.records)

    @cached_property
    def older(self) -> int:
        """Number of transitions, the first ones, that were handed out before: see :func:`joined`."""
        return int(np.searchsorted(self.records, self._older, side="right"))

    def column(self, name: str) -> NDArray[Any]:
        """[N, *shape] of a declared column. Raises KeyError if no decision had a value for it."""
        return self.whole(name)[self._rows]

    def whole(self, name: str) -> NDArray[Any]:
        """[records, *shape] of a declared column: all records of the log, the first of which is its sentinel."""
        values: NDArray[Any] = self._data[name]
        return values

    def as_column(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the transitions [N, *shape] as a column of the underlying data."""
        column = np.zeros((self._size, *values.shape[1:]), values.dtype)
        column[self.records] = values
        return column

    @cached_property
    def observations(self) -> Observations:
        """One [N, *shape] for each sensor."""
        return tuple(self.column(name) for name in self._sensors)

    @cached_property
    def bootstrap_observations(self) -> Observations:
        """One [M, *shape] for each sensor: the next observations of transitions without a successor here."""
        # Decisions that are still open, then ends by a limit.
        return tuple(
            np.concatenate((self._data[name][self._hanging], self._data[f"final.{name}"])) for name in self._sensors
        )

    def next_observations(self, sensor: int) -> NDArray[Any]:
        """[N, *shape] of one sensor: the next observation of each transition.

        After a real end it is the transition's own observation, unless the memory keeps ``ends``.
        """
        return self._after(self.observations[sensor], self.bootstrap_observations[sensor])

    @cached_property
    def bootstrap_mask(self) -> BoolArray | None:
        """Masks [M, sum of branches] for :attr:`bootstrap_observations`; without a decision, everything is allowed."""
        if "mask" not in self._data:
            return None
        mask: BoolArray = self._data["mask"][self._hanging]
        # After an end there was no decision, so everything is allowed there.
        return np.concatenate((mask, np.zeros((len(self._data["final.record"]), mask.shape[1]), np.bool_)))

    @cached_property
    def next_mask(self) -> BoolArray | None:
        """Masks [N, sum of branches] of the next decisions; None if there never was a mask."""
        last = self.bootstrap_mask
        return None if self.mask is None or last is None else self._after(self.mask, last)

    def _after(self, now: NDArray[Any], last: NDArray[Any]) -> NDArray[Any]:
        """[N]: the next value of each transition, from values of transitions ``now`` [N] and ``last`` ones [M]."""
        # A transition without a next value gets its own, for an array without gaps.
        places = np.where(self.following >= 0, self.following, np.arange(len(self)))
        places = np.where(self.bootstrap >= 0, len(self) + self.bootstrap, places)
        return np.concatenate((now, last))[places]

    @cached_property
    def mask(self) -> BoolArray | None:
        """Action masks, bool [N, sum of branches], True = forbidden; None if there never was a mask."""
        return self.column("mask") if "mask" in self._data else None

    @cached_property
    def bootstrap_moments(self) -> NDArray[np.int64]:
        """int64 [M]: the moment of each of :attr:`bootstrap_observations`, if the memory keeps moments."""
        return np.concatenate((self._data[MOMENT.name][self._hanging], self._data[f"final.{MOMENT.name}"]))

    @cached_property
    def rewards(self) -> dict[str, FloatArray]:
        """float32 [N, R] for each reward stream that was paid, without groups' rewards (:attr:`group_reward`)."""
        names = [name for name in self._data if name.startswith("reward.")]
        return {name.removeprefix("reward."): self.column(name) for name in names}

    @cached_property
    def group_reward(self) -> FloatArray | None:
        """float32 [N]: the reward of each agent's group; None if no group got any."""
        return self.column(GROUP_REWARD.name) if GROUP_REWARD.name in self._data else None

    def earned(self, stream: str) -> FloatArray:
        """float32 [N, R]: the reward of each transition from a stream that was paid, including its group's share."""
        paid, shared = self.rewards[stream], self.group_reward
        return paid if stream != EXTRINSIC or shared is None else paid + shared[:, None]

    @cached_property
    def version(self) -> IntArray:
        """int32 [N], version of the policy that acted."""
        return self.column("version")

    @cached_property
    def rows(self) -> IntArray:
        """int32 [N], row of the agent of each transition."""
        return self.column("row")

    @cached_property
    def terminated(self) -> BoolArray:
        """Bool [N]: the agent's episode really ended after the transition, even if its group continues."""
        terminated: BoolArray = (self.column("state") == RecordState.TERMINATED) | self.left
        return terminated

    @cached_property
    def left(self) -> BoolArray:
        """Bool [N]: those of :attr:`terminated` whose group continues, so that its rewards are still to come."""
        left: BoolArray = self.column("state") == RecordState.LEFT
        return left

    @cached_property
    def truncated(self) -> BoolArray:
        """Bool [N]: a limit cut the episode after the transition."""
        truncated: BoolArray = self.column("state") == RecordState.TRUNCATED
        return truncated

    @cached_property
    def cut(self) -> BoolArray:
        """Bool [N]: the trace ends after the transition because the horizon is reached."""
        cut: BoolArray = self.column("step") == self._horizon - 1
        return cut

    @cached_property
    def following(self) -> Rows:
        """[N], index of the same agent's next transition, -1 = none in this rollout."""
        return self._place[self.successor[self.records]]

    @cached_property
    def bootstrap(self) -> Rows:
        """[N], index into :attr:`bootstrap_observations`, -1 = none."""
        result = np.full(len(self.records), -1, np.intp)
        hanging = len(self._hanging)
        result[self._hanging_after] = np.arange(hanging)
        finals = self._place[self._data["final.record"]]
        result[finals] = np.arange(hanging, hanging + len(finals))
        return result

    @cached_property
    def bootstrapped(self) -> Rows:
        """[M], the transition before each of :attr:`bootstrap_observations`."""
        return np.argsort(self.bootstrap)[np.count_nonzero(self.bootstrap < 0) :]

    @cached_property
    def resumed(self) -> Rows:
        """The transition of each decision that was open when the previous rollout was taken; -1: none.

        They are in the order of :attr:`waiting` there.
        """
        return self._place[1 : 1 + self._data["carried"]]

    @cached_property
    def waiting(self) -> tuple[Rows, Rows]:
        """For each open decision: the transition before it, and its place in :attr:`resumed`; -1: none."""
        records = self._data["open"]
        carried = np.where(records <= self._data["carried"], records - 1, -1)
        return self._place[self._data["previous"][records]], carried

    @cached_property
    def after(self) -> Rows:
        """[N], the successor of each transition, in a table of three: transitions, bootstrap observations, nothing."""
        return np.where(self.terminated, self._nothing, self.beyond)

    @cached_property
    def beyond(self) -> Rows:
        """The same, but with all ends treated as limits, if the memory keeps ``ends``."""
        boots = np.where(self.bootstrap >= 0, len(self) + self.bootstrap, self._nothing)
        return np.where(self.following >= 0, self.following, boots)

    @property
    def _nothing(self) -> int:
        return len(self) + len(self._data["final.record"]) + len(self._hanging)

    @cached_property
    def begins(self) -> BoolArray:
        """Bool [N]: the agent has no known transition before this one; usually an episode starts with it."""
        alone = self._data["previous"][self.records] == 0
        went_on = self._data.get(WENT_ON)
        known = self.records <= self._data["carried"] if went_on is None else went_on[self.records]
        begins: BoolArray = alone & ~known
        return begins

    @cached_property
    def goes_on(self) -> BoolArray:
        """Bool [N]: whether rewards of the same agent's next transition count for this one."""
        goes_on: BoolArray = (self.following >= 0) & ~self.cut
        return goes_on

    @cached_property
    def next(self) -> Rows:
        """[N], :attr:`following`, or the first transition if there is none."""
        return np.maximum(self.following, 0)

    def gae(
        self,
        rewards: NDArray[np.floating],
        values: NDArray[np.floating],
        bootstrap_values: NDArray[np.floating],
        gamma: float,
        lambd: float,
    ) -> tuple[Float64Array, Float64Array]:
        """Advantages and returns of one stream (:func:`~tau_trainer.memory.advantages.gae`).

        The value after a real end is 0; traces end there, at a limit, at the horizon, and with the rollout.

        Args:
            rewards: [N, R] of one stream.
            values: [N, R], the stream's values of :attr:`observations`.
            bootstrap_values: [M, R], those of :attr:`bootstrap_observations`.
            gamma: discount.
            lambd: GAE's lambda.

        Returns:
            Advantages and returns (advantage + value), float64 [N, R].
        """
        reward = np.asarray(rewards, np.float64)  # float64: errors would add up over a long trace
        current = np.asarray(values, np.float64).reshape(reward.shape)
        boot = np.asarray(bootstrap_values, np.float64).reshape(-1, reward.shape[1])
        after = np.concatenate((current, boot, np.zeros((1, reward.shape[1]))))[self.after]  # [N, R]
        advantage = gae(reward, current, after, self.goes_on * np.float64(gamma * lambd), gamma, self.next)
        return advantage, advantage + current

    def sequences(self, longest: int) -> tuple[Rows, BoolArray]:
        """The transitions in order of agents and time, as sequences that follow one another without gaps.

        Args:
            longest: steps of a sequence; an agent's transitions in an episode are cut into pieces of this length.

        Returns:
            Their indices [N], and the starts of sequences in this order, bool [N].
        """
        order = np.argsort(self.rows, kind="stable")  # stable: an agent's transitions keep their order
        begins = np.ones(len(order), np.bool_)
        # Also if a transition of another episode or agent follows.
        begins[1:] = self.following[order[:-1]] != order[1:]
        places = np.arange(len(order))
        # Steps since the start of the sequence, cut at every multiple.
        begins |= (places - np.maximum.accumulate(np.where(begins, places, 0))) % longest == 0
        return order, begins

    @cached_property
    def _sensors(self) -> tuple[str, ...]:
        names = [name.removeprefix("final.") for name in self._data if name.startswith("final.obs_")]
        return tuple(sorted(names, key=lambda name: int(name.removeprefix("obs_"))))

    @cached_property
    def successor(self) -> Rows:
        """[records]: the record of the same agent's next decision, 0 = none."""
        successor = np.zeros(self._size, np.intp)
        successor[self._data["previous"][1:]] = np.arange(1, self._size)  # a record without a successor keeps 0
        return successor

    @cached_property
    def records(self) -> Rows:
        """[N]: indices of the records that are transitions."""
        state = self._data["state"]
        # With a successor, or ended; open and void ones are not.
        closed = (self.successor > 0) | ((state != RecordState.LIVE) & (state != RecordState.VOID))
        closed[0] = False  # the sentinel is not a transition
        return np.flatnonzero(closed)

    @cached_property
    def _rows(self) -> Rows | slice:
        """The same records.

        Usually they are consecutive, because open ones come last: then as a slice, which gives views.
        """
        records = self.records
        following = len(records) > 0 and records[-1] - records[0] == len(records) - 1
        return slice(int(records[0]), int(records[-1]) + 1) if following else records

    @cached_property
    def _place(self) -> Rows:
        """[records]: each record's index among the transitions, -1 = it is not one."""
        place = np.full(self._size, -1, np.intp)
        place[self.records] = np.arange(len(self.records))
        return place

    @cached_property
    def _hanging_after(self) -> Rows:
        """Transitions followed by a decision that is not a transition: its observation bootstraps them."""
        return np.flatnonzero((self.successor[self.records] > 0) & (self.following < 0))

    @cached_property
    def _hanging(self) -> Rows:
        """The records of these decisions."""
        return self.successor[self.records[self._hanging_after]]
