"""When a step counts as a success: predicates over the reward, the outcome of an episode, or the distance to a target.

A predicate sees one step of ``n`` agents and ``r`` reward components and answers for each component. All of them are
stateless; whatever needs memory (the sum of an episode) is kept by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tau_trainer.errors import SettingsError
from tau_trainer.specs import BoolArray, Float64Array

PredicateName = Literal["positive", "threshold", "outcome", "distance"]


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What a predicate may look at: one step of ``n`` agents."""

    reward: Float64Array
    """float64 ``[n, r]``: reward of this step."""
    episode_return: Float64Array
    """float64 ``[n, r]``: reward since the episode began, this step included."""
    error: Float64Array | None
    """float64 ``[n, r]``: absolute error of each component, where a target is known."""
    done: BoolArray
    """bool ``[n]``: the episode ended with this step."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers that predicates compare with."""

    success: float = 0.0
    """Reward from which on a step is a success (``threshold``); return above which an episode is one (``outcome``)."""
    distance: float = 0.1
    """Largest absolute error with which a component has reached its target (``distance``)."""


Predicate = Callable[[StepFacts, Limits], BoolArray]
"""From facts to success: bool ``[n, r]``."""


def positive(facts: StepFacts, _limits: Limits) -> BoolArray:
    """The reward of this step is greater than 0."""
    return facts.reward > 0.0


def threshold(facts: StepFacts, limits: Limits) -> BoolArray:
    """The reward of this step is at least ``limits.success``."""
    return facts.reward >= limits.success


def outcome(facts: StepFacts, limits: Limits) -> BoolArray:
    """The episode has ended and its return is above ``limits.success``. Means nothing before the end."""
    return facts.done[:, None] & (facts.episode_return > limits.success)


def distance(facts: StepFacts, limits: Limits) -> BoolArray:
    """The absolute error is at most ``limits.distance``.

    Raises:
        ValueError: no target is known.
    """
    if facts.error is None:
        raise ValueError("predicate `distance` needs a target")
    return facts.error <= limits.distance


PREDICATES: dict[PredicateName, Predicate] = {
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
    known = ", ".join(f"`{key}`" for key in ("none", *PREDICATES))
    raise SettingsError(f"There is no success predicate `{name}`; choose one of {known}.")
