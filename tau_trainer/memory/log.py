"""The store behind :class:`~tau_trainer.memory.rollout.RolloutMemory`: decisions in order of arrival."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tau_trainer.specs import ActionSpec, BoolArray, FloatArray, IntArray, ObservationSpec

IndexArray = NDArray[np.intp]
"""Row numbers; row 0 is the sentinel that stands for "no record"."""

_T = TypeVar("_T", bound=np.generic)

_GROWTH = 1.5


class RecordState(IntEnum):
    """What is known of a record beyond its successor."""

    LIVE = 0
    """Waits for its reward, or has a successor."""
    TERMINATED = 1
    """The episode really ended here: nothing comes after."""
    TRUNCATED = 2
    """A limit cut the episode: bootstrap from the final observation."""
    VOID = 3
    """The engine was lost before the outcome was known: not a transition."""


class ExperienceLog:
    """Flat, growable struct of arrays. Row 0 is a sentinel that swallows writes for agents without an open record.

    Attributes (``C`` rows allocated, ``size`` rows used, row 0 included):
        obs: one float32 [C, *shape] for each sensor.
        continuous: float32 [C, c], the raw sample. discrete: int32 [C, b].
        log_prob: float32 [C, K]. mask: bool [C, sum of branches], True = forbidden.
        reward: float32 [C, R]. version: int32 [C], the policy that acted. slot: int32 [C].
        previous: [C], row of the same agent's decision before, 0 = none. step: int32 [C], place within the horizon.
        state: uint8 [C], a :class:`RecordState`.
        final_obs, final_record: observations after truncated records, and which record each belongs to.
    """

    __slots__ = (
        "continuous",
        "discrete",
        "final_obs",
        "final_record",
        "final_size",
        "log_prob",
        "mask",
        "masked",
        "obs",
        "previous",
        "reward",
        "size",
        "slot",
        "state",
        "step",
        "version",
    )

    obs: list[FloatArray]
    final_obs: list[FloatArray]

    def __init__(
        self, observations: Sequence[ObservationSpec], actions: ActionSpec, capacity: int, reward_components: int
    ) -> None:
        rows = max(capacity, 1) + 1
        # zeros, not empty: untouched pages of a zeroed array cost nothing, and the sentinel row must hold numbers.
        self.obs = [np.zeros((rows, *sensor.shape), np.float32) for sensor in observations]
        self.continuous: FloatArray = np.zeros((rows, actions.continuous_size), np.float32)
        self.discrete: IntArray = np.zeros((rows, actions.discrete_size), np.int32)
        self.log_prob: FloatArray = np.zeros((rows, actions.components), np.float32)
        self.mask: BoolArray = np.zeros((rows, actions.mask_size), np.bool_)
        self.reward: FloatArray = np.zeros((rows, reward_components), np.float32)
        self.version: IntArray = np.zeros(rows, np.int32)
        self.slot: IntArray = np.zeros(rows, np.int32)
        self.previous: IndexArray = np.zeros(rows, np.intp)
        self.step: IntArray = np.zeros(rows, np.int32)
        self.state: NDArray[np.uint8] = np.zeros(rows, np.uint8)
        self.final_obs = [np.zeros((16, *sensor.shape), np.float32) for sensor in observations]
        self.final_record: IndexArray = np.zeros(16, np.intp)
        self.clear()

    def clear(self) -> None:
        """Forget all records; the memory stays."""
        self.size = 1
        self.final_size = 0
        self.masked = False
        self.step[0] = -1

    @property
    def capacity(self) -> int:
        """Rows allocated, the sentinel included."""
        return len(self.version)

    def reserve(self, rows: int) -> None:
        """Make room for ``rows`` rows in all (the sentinel included)."""
        if rows <= self.capacity:
            return
        target = max(rows, int(self.capacity * _GROWTH))
        self.obs = [_grown(array, target) for array in self.obs]
        self.continuous, self.discrete = _grown(self.continuous, target), _grown(self.discrete, target)
        self.log_prob, self.mask = _grown(self.log_prob, target), _grown(self.mask, target)
        self.reward, self.version = _grown(self.reward, target), _grown(self.version, target)
        self.slot, self.previous = _grown(self.slot, target), _grown(self.previous, target)
        self.step, self.state = _grown(self.step, target), _grown(self.state, target)

    def add_final(self, records: IndexArray, obs: Sequence[FloatArray], rows: IndexArray) -> None:
        """Keep ``obs[:][rows]`` as the observations after ``records`` (both [m])."""
        begin, end = self.final_size, self.final_size + len(records)
        if end > len(self.final_record):
            target = max(end, 2 * len(self.final_record))
            self.final_obs = [_grown(array, target) for array in self.final_obs]
            self.final_record = _grown(self.final_record, target)
        for store, values in zip(self.final_obs, obs, strict=True):
            store[begin:end] = values[rows]
        self.final_record[begin:end] = records
        self.final_size = end

    def carry(self, source: ExperienceLog, records: IndexArray) -> None:
        """Copy ``records`` [m] of ``source`` to rows 1..m of this empty log, as decisions without a predecessor."""
        end = 1 + len(records)
        self.reserve(end)
        for store, values in zip(self.obs, source.obs, strict=True):
            store[1:end] = values[records]
        for name in ("continuous", "discrete", "log_prob", "mask", "version", "slot"):
            getattr(self, name)[1:end] = getattr(source, name)[records]
        self.previous[1:end] = 0
        self.step[1:end] = 0
        self.state[1:end] = RecordState.LIVE
        self.masked = source.masked
        self.size = end


def _grown(array: NDArray[_T], rows: int) -> NDArray[_T]:
    larger = np.zeros((rows, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger
