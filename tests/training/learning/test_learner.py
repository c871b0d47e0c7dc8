from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from tau_trainer.metrics import MetricsHub, keys
from tau_trainer.models import Policy
from tests.training.fakes import Memory
from tests.training.learners import collect, learn
from tests.training.learning.learning import Make


def test_an_update_makes_the_next_version(make: Make, memory: Memory, hub: MetricsHub) -> None:
    learner = make(validator=lambda policy: {keys.VALIDATION_ACCURACY: float(policy.version)})
    learn(learner)
    assert (learner.progress.updates, learner.policy.version, learner.actor.policy.version) == (1, 1, 1)
    assert learner.actor.policy is learner.policy
    assert learner.progress.update_seconds > 0
    assert learner.tracker.scores == {keys.VALIDATION_ACCURACY: 1.0}
    learner.flush()
    hub.drain(5.0)
    values = memory.summaries[-1].values
    assert values[keys.VALIDATION_ACCURACY] == 1.0
    assert values[keys.POLICY_AGE] == 0.0


def scripted(*scores: tuple[float, float]) -> Callable[[Policy], Mapping[str, float]]:
    """A validator that gives the policy of version i the i-th accuracy and reward."""

    def validator(policy: Policy) -> Mapping[str, float]:
        accuracy, reward = scores[policy.version - 1]
        return {keys.VALIDATION_ACCURACY: accuracy, keys.VALIDATION_REWARD: reward}

    return validator


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ([(0.1, 0.0), (0.5, 0.0), (0.0, 9.0)], 2),
        ([(0.5, 0.0), (0.5, 0.3), (0.5, -9.0)], 2),
        ([(0.5, 0.3), (0.5, 0.3), (0.4, 0.9)], 1),
        ([(0.0, -1.0), (0.0, -2.0), (0.0, -3.0)], 1),
        ([(0.1, 0.0), (0.5, 0.0), (0.4, 0.0)], 3),
        ([(0.0, 0.0), (0.6, 0.0), (0.3, 0.0), (0.2, 0.0)], 4),
        ([(0.1, 0.0), (0.2, 0.0), (0.9, 0.0), (0.1, 0.0), (0.3, 0.0)], 5),
    ],
    ids=[
        "accuracy",
        "reward where accuracies are equal",
        "the first of equals",
        "from the first update on",
        "a mean over updates",
        "of three in a row",
        "not of all",
    ],
)
def test_the_best_policy_is_kept(make: Make, scores: list[tuple[float, float]], best: int) -> None:
    learner = make(validator=scripted(*scores))
    for _ in scores:
        learn(learner)
    assert learner.tracker.best is not None
    assert learner.tracker.best.policy.version == best
    assert tuple(learner.tracker.best.scores.values()) == scores[best - 1]
    assert learner.tracker.best.decisions == 32 * best
    assert learner.tracker.accuracies == [accuracy for accuracy, _ in scores]
    again = make(validator=scripted(*scores))
    again.restore(*learner.state())
    assert again.tracker.accuracies == learner.tracker.accuracies


def test_policies_are_scored_at_decisions_that_grow_whatever_the_end_is(make: Make) -> None:
    """An update every 32 decisions; a checkpoint in between changes nothing."""
    scored: dict[int, list[int]] = {}
    for most in (1_000_000, 1_000_000_000):
        found = scored.setdefault(most, [])

        def validator(policy: Policy, found: list[int] = found) -> Mapping[str, float]:
            found.append(policy.version)
            return {}

        learner = make(validator=validator, max_steps=most)
        for _ in range(3):
            learn(learner)
        learner.progress.decisions = 32 * 200
        again = make(validator=validator, max_steps=most)
        again.restore(*learner.state())
        for _ in range(9):
            learn(again)
    # 2 % of 6,400 decisions are four updates.
    assert scored == {1_000_000: [1, 2, 3, 4, 8, 12], 1_000_000_000: [1, 2, 3, 4, 8, 12]}


def test_the_last_policy_is_scored_like_those_before_it(make: Make) -> None:
    scores = (0.1, 0.0), (0.5, 0.0), (0.5, 0.0), (0.9, 0.0), (0.2, 0.0)
    learner = make(validator=scripted(*scores), max_steps=1_000_000_000)
    for _ in range(3):
        learn(learner)
    assert learner.tracker.best is not None
    assert learner.tracker.best.policy is learner.tracker.last(learner.policy).policy
    assert learner.tracker.validate_last(learner.policy) == {}, "it has been"
    learner.tracker._next = 10**6
    learn(learner)
    before = learner.state()[1]
    assert (learner.tracker.last(learner.policy).scores, learner.tracker.best.policy.version) == ({}, 3)
    assert learner.tracker.validate_last(learner.policy) == {keys.VALIDATION_ACCURACY: 0.9, keys.VALIDATION_REWARD: 0.0}
    assert learner.tracker.last(learner.policy).rank == pytest.approx((1.9 / 3, 0.0)), "a mean of three"
    assert learner.tracker.best.policy.version == 4
    after = learner.state()[1]
    assert before.pop("best") != after.pop("best")
    assert before == after, "a run that goes on validates what it would have"
    learn(learner)
    learner.tracker.validate_last(learner.policy)
    assert learner.tracker.last(learner.policy).rank == pytest.approx((1.2 / 3, 0.0)), "with the two that were due"
    assert learner.tracker.best.policy.version == 4


def test_what_an_earlier_version_found_due_is_not_waited_for(make: Make) -> None:
    learner = make(max_steps=1_000_000_000)
    learner.progress.decisions = 6400
    arrays, values = learner.state()
    again = make(validator=scripted((0.1, 0.0)), max_steps=1_000_000_000)
    again.restore(arrays, values | {"next_evaluation": 5_000_000})
    assert 6400 < again.tracker._next <= 6400 * 1.02


def test_without_validation_scores_there_is_no_best(make: Make) -> None:
    for validator in (None, lambda policy: {}, lambda policy: {"Task/Other": 1.0}):
        learner = make(validator=validator)
        learn(learner)
        assert learner.tracker.best is None


def test_the_best_policy_goes_through_a_checkpoint_and_is_beaten_only_by_a_better_one(make: Make) -> None:
    learner = make(validator=scripted((0.5, 0.0), (0.1, 0.0)))
    for _ in range(2):
        learn(learner)
    arrays, values = learner.state()
    again = make(validator=scripted((0.0, 0.0), (0.0, 0.0), (0.8, 0.0), (0.7, 0.0)))
    again.restore(arrays, json.loads(json.dumps(values)))
    assert learner.tracker.best is not None
    assert again.tracker.best is not None
    kept = again.tracker.best
    assert (kept.decisions, kept.rank, kept.policy.version) == (32, (0.5, 0.0), 1)
    np.testing.assert_equal(dict(again.tracker.best.policy.weights), dict(learner.tracker.best.policy.weights))
    best = learner.tracker.best.policy.weights
    assert any((again.policy.weights[name] != weights).any() for name, weights in best.items())
    learn(again)
    assert again.tracker.best.policy.version == 1, "0.5, 0.1 and 0.8 are no better on average"
    learn(again)
    assert again.tracker.best.policy.version == 4


def test_a_checkpoint_from_before_there_was_a_best_policy(make: Make) -> None:
    learner = make()
    arrays, values = learner.state()
    del values["best"]
    again = make(validator=scripted((0.1, 0.0)))
    again.restore(arrays, values)
    assert again.tracker.best is None


def test_a_real_nan_in_the_rewards_keeps_the_weights(make: Make) -> None:
    learner = make()
    before = {name: values.copy() for name, values in learner.state()[0].items()}
    learn(learner, reward=float("nan"))
    np.testing.assert_equal(learner.state()[0], before)
    assert learner.error is None


def test_rows_are_given_once(make: Make) -> None:
    learner = make()
    assert learner.new_rows(3).tolist() == [0, 1, 2]
    assert learner.new_rows(2).tolist() == [3, 4]


def test_a_restored_learner_goes_on_to_the_bit(make: Make) -> None:
    """Two updates against one, a checkpoint, and one more in another learner."""
    one = make()
    learn(one)
    one.memory.clear()
    arrays, values = one.state()
    two = make(seed=99)
    two.restore(arrays, values)
    assert (two.decisions, two.policy.version, two.actor.policy.version) == (one.decisions, 1, 1)
    learn(one)
    learn(two)
    np.testing.assert_equal(two.state()[0], one.state()[0])
    assert one.actor.rng.bit_generator.state == two.actor.rng.bit_generator.state


def test_forget_open_leaves_nothing(make: Make) -> None:
    learner = make()
    collect(learner)
    learner.memory.clear()
    assert len(learner.memory.open_rows) == 0
    assert learner.algorithm.memory.completed == 0  # type: ignore[attr-defined]
    assert len(learner.algorithm.memory) == 0  # type: ignore[arg-type]


def test_why_it_was_never_updated_where_agents_act_elsewhere(make: Make) -> None:
    learner = make()
    learner.progress.decisions, learner.progress.samples = 200, 200
    assert "200 decisions did not fill" in learner.why_never(here=False)
    learner.progress.samples = 20
    assert "180 of 200 decisions have no outcome" in learner.why_never(here=False)
    assert "200 decisions did not fill" in learner.why_never(here=True), "its own memory has lost none"
