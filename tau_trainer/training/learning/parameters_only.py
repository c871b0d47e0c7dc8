"""``save_param_only``: checkpoints of weights, statistics and counters, without the state that only training needs."""

from __future__ import annotations

from collections.abc import Callable

from tau_trainer.algorithms import State
from tau_trainer.columns import Arrays
from tau_trainer.specs import Json

_LEFT_OUT = ("optimizer.", "random.", "replay.", "older.", "cloning.")
"""Prefixes of the names of optimizers' moments, of random numbers and of experience."""
_MARK = "parameters_only"


def lean(arrays: Arrays, values: Json) -> State:
    """The state of :meth:`.learner.Learner.state` without the optimizer, experience and random numbers."""
    kept = {name: array for name, array in arrays.items() if not name.startswith(_LEFT_OUT)}
    metadata = {name: fact for name, fact in values["algorithm"].items() if name != "replay"}
    return kept, {**values, "algorithm": metadata, _MARK: True}


def whole(arrays: Arrays, values: Json, fresh: Callable[[], State]) -> State:
    """The full state: initial values (``fresh``) for the parts that :func:`lean` left out, everything else as saved."""
    if not is_lean(values):
        return dict(arrays), dict(values)
    others, metadata = fresh()
    return {**others, **arrays}, {**values, "algorithm": {**metadata, **values["algorithm"]}}


def is_lean(values: Json) -> bool:
    """Whether the values come from :func:`lean`."""
    return bool(values.get(_MARK))


def lost(place: object, learner: str) -> str:
    """A sentence on the state that a learner loses when it continues from a lean checkpoint."""
    return (
        f"{place} has only parameters (save_param_only): '{learner}' continues with its weights and counters, but "
        "with a fresh optimizer, fresh random numbers and no experience"
    )
