"""Checkpoints of ``dqn`` on tensors from earlier versions, whose learner had names of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.algorithms.base import State
from tau_trainer.columns import Arrays
from tau_trainer.settings import OffPolicyHyperparameters
from tau_trainer.specs import Json

_COLUMNS = {"observation": "input_0", "following": "next_0", "action": "discrete", "reward": "rewards"} | {
    "forbidden_after": "next_forbidden",
    "written": "written",
}
"""Columns of the replay memory, by their earlier names."""


def of_earlier(arrays: Arrays, metadata: Json, known: Arrays, hyper: OffPolicyHyperparameters) -> State:
    """The same state under today's names; ``known``: arrays of a learner that it is for."""
    found = dict[str, NDArray[Any]]()
    for name, values in arrays.items():
        part, _, rest = name.partition(".")
        if part == "model":
            found[f"model.network.{rest}"] = values
        elif part == "target":
            found[f"model.{name}" if f"model.{name}" in known else name] = values
        elif part == "replay" and rest == "goes_on":
            found["replay.terminated"] = values[:, 0] == 0.0
        elif part == "replay":
            found[f"replay.{_COLUMNS.get(rest, rest)}"] = values
        elif name in known and values.ndim and values.size < known[name].size:
            # Moments of the network alone; those of its target, which follow it, are zeros.
            found[name] = np.concatenate((values, np.zeros(known[name].size - values.size, values.dtype)))
        else:  # moments and random numbers, or the network's own statistics and clock
            found[name if part in ("optimizer", "random") else f"network.{name}"] = values
    if "replay.next_forbidden" in found:  # not learned from, so it was not stored
        found["replay.forbidden"] = np.zeros_like(found["replay.next_forbidden"])
    held, least = int(metadata["held"]), max(hyper.buffer_init_steps, hyper.batch_size)
    paid = round(float(metadata["owed"]) * hyper.decisions_per_step[1])  # decisions that no step was taken for
    seen = held if held < least else hyper.buffer_init_steps + paid
    of_memory = {"replay": min(held, hyper.buffer_size)} if held else {}
    return {**found, "shares": known["shares"]}, {**metadata, "seen": seen, "steps": 0, **of_memory}
