"""``save_param_only``: checkpoints of weights, statistics and counters, without what only learning on needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from tau_trainer.algorithms import State
from tau_trainer.columns import Arrays

_LEFT_OUT = ("optimizer.", "random.", "replay.", "older.", "cloning.")
"""What the names of the optimizers' moments, of random numbers and of experience begin with."""
_MARK = "parameters_only"


def lean(arrays: Arrays, values: Mapping[str, Any]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """What :meth:`.learner.Learner.state` gave, without the optimizer, experience and random numbers."""
    kept = {name: array for name, array in arrays.items() if not name.startswith(_LEFT_OUT)}
    facts = {name: fact for name, fact in values["algorithm"].items() if name != "replay"}
    return kept, {**values, "algorithm": facts, _MARK: True}


def whole(
    arrays: Arrays, values: Mapping[str, Any], fresh: Callable[[], State]
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """What :func:`lean` left out as it is at the beginning (``fresh``), everything else as it is."""
    if not is_lean(values):
        return dict(arrays), dict(values)
    others, facts = fresh()
    return {**others, **arrays}, {**values, "algorithm": {**facts, **values["algorithm"]}}


def is_lean(values: Mapping[str, Any]) -> bool:
    """Whether :func:`lean` made them."""
    return bool(values.get(_MARK))


def lost(place: object, learner: str) -> str:
    """What a learner that goes on from a lean checkpoint has lost, in a sentence."""
    return (
        f"{place} keeps parameters alone (save_param_only): '{learner}' goes on with its weights and counters, and "
        "with a fresh optimizer, fresh random numbers and no experience"
    )
