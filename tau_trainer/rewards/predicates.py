"""When a step counts as a success: predicates over the reward, the outcome of an episode, or the distance to a target.

A predicate sees one step of ``n`` agents and ``r`` reward components and answers for each component. All of them are
stateless; whatever needs memory (the sum of an episode) is kept by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tau_trainer.errors import SettingsError

Float64Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
PredicateName = Literal["none", "positive", "threshold", "outcome", "distance"]


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What a predicate may look at: one step of ``n`` agents."""

    reward: Float64Array
    """float64 ``[n, r]``: reward of this step."""
    episode_return: Float64Array
    """float64 ``[n, r]``: reward since the episode began, this step included."""
    error: Float64Array | None
    """float64 ``[n, r]``: absolute distance to the target, where a target is known."""
    done: Bools
    """bool ``[n]``: the episode ended with this step."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers that predicates compare with."""

    distance: float = 0.1
    """Absolute error strictly below which a component has reached its target."""
    success: float = 0.0
    """Reward (``threshold``) or return (``outcome``) from which on a step or an episode counts as a success."""


Predicate = Callable[[StepFacts, Limits], Bools]
"""From facts to success: bool ``[n, r]``."""


def positive(facts: StepFacts, _limits: Limits) -> Bools:
    """The reward of this step is greater than 0."""
    return facts.reward > 0.0


def threshold(facts: StepFacts, limits: Limits) -> Bools:
    """The reward of this step is at least ``limits.success``."""
    return facts.reward >= limits.success


def outcome(facts: StepFacts, limits: Limits) -> Bools:
    """The episode has ended and its return is at least ``limits.success``. Means nothing before the end."""
    return facts.done[:, None] & (facts.episode_return >= limits.success)


def distance(facts: StepFacts, limits: Limits) -> Bools:
    """The absolute error is strictly below ``limits.distance``.

    Raises:
        SettingsError: no target is known.
    """
    if facts.error is None:
        raise SettingsError(
            "Success predicate `distance` needs a target but the behavior has no sensor named `target`; "
            "add the sensor or choose `positive`, `threshold` or `outcome`."
        )
    return facts.error < limits.distance


def within_or_positive(facts: StepFacts, limits: Limits) -> Bools:
    """What is reported as success where no predicate is asked for: ``distance`` with a target, else ``positive``."""
    return positive(facts, limits) if facts.error is None else distance(facts, limits)


PREDICATES: dict[PredicateName, Predicate] = {
    "none": within_or_positive,
    "positive": positive,
    "threshold": threshold,
    "outcome": outcome,
    "distance": distance,
}
"""Predicates by the name that the settings use."""


def get_predicate(name: str) -> Predicate:
    """Predicate called ``name``.

    Raises:
        SettingsError: there is no such predicate.
    """
    for key, predicate in PREDICATES.items():
        if key == name:
            return predicate
    known = ", ".join(f"`{key}`" for key in PREDICATES)
    raise SettingsError(f"There is no success predicate `{name}`; choose one of {known}.")
