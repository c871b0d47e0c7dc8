"""Joins several rollouts into one: successive takes of a memory, and those of several memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import MOMENT
from tau_trainer.memory.base import Work, WorkData
from tau_trainer.memory.trajectories import WENT_ON

_MOMENT_BITS, _SOURCES = 48, 1024
"""Bits for a source's own moments; the next number is larger than any number of sources."""


def joined(older: WorkData, newer: WorkData) -> WorkData:
    """Join the data of two successive takes; decisions that were open in between continue.

    If the memory was cleared in between, trajectories are cut there.
    """
    last = len(older["row"]) - 1  # without the newer log's own sentinel
    result: dict[str, Any] = {"horizon": newer["horizon"], "open": newer["open"] + last, "carried": older["carried"]}
    for name in (older.keys() | newer.keys()) - result.keys():
        skip = 0 if name.startswith("final.") else 1  # no sentinel twice
        result[name] = np.concatenate((_column(name, older, newer), _column(name, newer, older)[skip:]))
    previous = result["previous"]
    previous[last + 1 :] += np.where(newer["previous"][1:] > 0, last, 0)  # 0 stays 0: no decision before
    result["final.record"][len(older["final.record"]) :] += last
    still_open = older["open"]
    if newer["carried"] == len(still_open):  # they continue as the newer log's first; a later successor counts
        previous[last + 1 : last + 1 + len(still_open)] = older["previous"][still_open]
    return result | {"older": last}


def gathered(parts: Sequence[Work]) -> WorkData:
    """Join the data of several sources' memories, source by source, into one rollout.

    Successive takes of a source are joined; nothing continues from one source to the next. Rows and moments belong to a
    source, so those of different sources are made different. Open decisions at the start of a source's part are no
    longer first, so a column marks them.
    """
    whole: dict[str, Any] = {}
    for part, before in zip(parts, (None, *parts), strict=False):
        names = {MOMENT.name, f"final.{MOMENT.name}"} & part.keys()
        data = {**part, **{name: part[name] + (part.source << _MOMENT_BITS) for name in names}}
        data["row"] = part["row"] * _SOURCES + part.source
        went_on = data[WENT_ON] = np.arange(len(part["row"])) <= part["carried"]
        if before is None:
            whole = data
            continue
        known = whole if before.source == part.source else whole | {"open": whole["open"][:0]}
        if part["carried"] == len(known["open"]):
            went_on[1 : part["carried"] + 1] = known[WENT_ON][known["open"]]
        whole = {name: value for name, value in joined(known, data).items() if name != "older"}
    return whole | {"open": whole["open"][:0], "carried": 0}


def _column(name: str, data: WorkData, other: WorkData) -> NDArray[Any]:
    """A column, or zeros like the other's if no decision had a value for it."""
    values: NDArray[Any] | None = data.get(name)
    if values is not None:
        return values
    like: NDArray[Any] = other[name]
    return np.zeros((len(data["row"]), *like.shape[1:]), like.dtype)
