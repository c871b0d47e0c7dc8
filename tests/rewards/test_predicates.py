"""What counts as a success."""

from __future__ import annotations

import numpy as np
import pytest

from tau_trainer.rewards.predicates import StepData, succeeded
from tau_trainer.settings import RewardSettings
from tau_trainer.specs import BoolArray


def _facts(
    reward: float = 0.0, episode_return: float = 0.0, error: float | None = None, done: bool = False
) -> StepData:
    column = None if error is None else np.array([[error]])
    return StepData(np.array([[reward]]), np.array([[episode_return]]), column, np.array([done]))


def judged(name: str, facts: StepData, **limits: float) -> BoolArray:
    won = succeeded(facts, RewardSettings.model_validate({"predicate": name, **limits}))
    assert won is not None
    return won


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
def test_limits(name: str, facts: StepData, won: bool) -> None:
    assert judged(name, facts, success_threshold=0.5, success_distance=0.2).tolist() == [[won]]


def test_components_are_judged_one_by_one() -> None:
    error = np.array([[0.0, 0.3], [0.3, 0.0]])
    facts = StepData(np.zeros((2, 1)), np.zeros((2, 1)), error, np.zeros(2, np.bool_))
    assert judged("distance", facts).tolist() == [[True, False], [False, True]]


def test_distance_without_target() -> None:
    with pytest.raises(ValueError, match="needs a target"):
        judged("distance", _facts())


def test_without_a_predicate_nothing_is_a_success() -> None:
    assert succeeded(_facts(reward=1.0, done=True), RewardSettings(predicate="none")) is None
