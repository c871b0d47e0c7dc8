"""What counts as a success."""

from __future__ import annotations

import numpy as np
import pytest

from tau_trainer.errors import SettingsError
from tau_trainer.rewards.predicates import PREDICATES, Limits, StepFacts, distance, get_predicate, outcome


def _facts(
    reward: float = 0.0, episode_return: float = 0.0, error: float | None = None, done: bool = False
) -> StepFacts:
    column = None if error is None else np.array([[error]])
    return StepFacts(np.array([[reward]]), np.array([[episode_return]]), column, np.array([done]))


@pytest.mark.parametrize(
    ("name", "facts", "won"),
    [
        ("positive", _facts(reward=1e-9), True),
        ("positive", _facts(reward=0.0), False),
        ("threshold", _facts(reward=0.5), True),
        ("threshold", _facts(reward=0.4999), False),
        ("outcome", _facts(episode_return=0.51, done=True), True),
        ("outcome", _facts(episode_return=0.5, done=True), False),
        ("outcome", _facts(episode_return=0.51, done=False), False),
        ("distance", _facts(error=0.2), True),
        ("distance", _facts(error=0.2001), False),
    ],
)
def test_limits(name: str, facts: StepFacts, won: bool) -> None:
    result = get_predicate(name)(facts, Limits(success=0.5, distance=0.2))
    assert result.tolist() == [[won]]


def test_components_are_judged_one_by_one() -> None:
    error = np.array([[0.0, 0.3], [0.3, 0.0]])
    facts = StepFacts(np.zeros((2, 1)), np.zeros((2, 1)), error, np.zeros(2, np.bool_))
    assert distance(facts, Limits()).tolist() == [[True, False], [False, True]]


def test_outcome_is_judged_per_agent() -> None:
    facts = StepFacts(np.zeros((2, 2)), np.array([[1.0, -1.0], [1.0, 1.0]]), None, np.array([True, False]))
    assert outcome(facts, Limits()).tolist() == [[True, False], [False, False]]


def test_distance_without_target() -> None:
    with pytest.raises(ValueError, match="needs a target"):
        distance(_facts(), Limits())


def test_unknown_predicate_lists_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"`win`.*`none`, `positive`, `threshold`, `outcome`, `distance`"):
        get_predicate("win")
    assert set(PREDICATES) == {"positive", "threshold", "outcome", "distance"}
