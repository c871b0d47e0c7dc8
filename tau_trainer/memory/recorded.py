"""Recorded experience in the form in which a memory hands experience out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import Arrays
from tau_trainer.memory.base import WorkData
from tau_trainer.memory.rollout import RecordState
from tau_trainer.specs import BoolArray, Observations

_NEVER = 2**31 - 1


def recorded(
    observations: Observations,
    columns: Mapping[str, NDArray[Any] | None],
    rewards: Arrays,
    *,
    begins: BoolArray,
    ended: BoolArray,
    truncated: BoolArray,
) -> WorkData:
    """``k`` messages of agents, episodes end to end, in the form that :class:`~tau_trainer.memory.Rollout` reads.

    A message is a decision, or the end of an episode. The last decision of an episode without an end has no outcome, so
    it is not a transition; the one before it is bootstrapped from its observation.

    Args:
        observations: one [k, *shape] for each sensor.
        columns: [k, *shape] of all other columns of a decision; None: there were no values.
        rewards: float32 [k, R] by stream, since the previous message.
        begins: bool [k], whether a message does not continue from the previous one.
        ended: bool [k], whether it is an end.
        truncated: bool [k], whether a limit caused the end.
    """
    decisions = np.flatnonzero(~ended)  # messages that are decisions, int [n]
    # Number of each message's record, 0 for ends; one spare for the index -1.
    record = np.zeros(len(ended) + 1, np.intp)
    record[decisions] = 1 + np.arange(len(decisions))
    goes_on = np.concatenate((~begins[1:], [False]))  # [k]: the next message is of the same episode
    # [n]: whether the previous message is a decision of the same episode.
    before = np.concatenate(([False], goes_on[:-1] & ~ended[:-1]))[decisions]
    closed = goes_on[decisions]  # [n]: whether the outcome is known
    # Message with the outcome; the decision's own if there is none, to keep indices valid.
    after = np.where(closed, decisions + 1, decisions)
    state = np.where(closed & ended[after], RecordState.TERMINATED, RecordState.LIVE).astype(np.uint8)
    cut = closed & ended[after] & truncated[after]  # ended by a limit: its observation is kept
    state[cut] = RecordState.TRUNCATED
    values = {f"obs_{i}": sensor[decisions] for i, sensor in enumerate(observations)}
    values |= {name: column[decisions] for name, column in columns.items() if column is not None}
    for name, reward in rewards.items():
        # The reward in the next message is for this action.
        values[f"reward.{name}"] = np.where(closed[:, None], reward[after], np.float32(0))
    values |= {
        "version": np.zeros(len(decisions), np.int32),
        "row": (np.cumsum(begins) - 1)[decisions].astype(np.int32),
        "previous": np.where(before, record[decisions - 1], 0),
        "step": np.zeros(len(decisions), np.int32),  # no horizon: only episodes cut traces
        "state": state,
    }
    # Record 0 is the sentinel.
    data: dict[str, Any] = {
        name: np.concatenate((np.zeros((1, *value.shape[1:]), value.dtype), value)) for name, value in values.items()
    }
    last = after[cut]  # messages with the last observations
    finals = {f"final.obs_{i}": sensor[last] for i, sensor in enumerate(observations)}
    finals["final.record"] = 1 + np.flatnonzero(cut)
    return {**data, **finals, "horizon": _NEVER, "open": np.zeros(0, np.intp), "carried": 0}
