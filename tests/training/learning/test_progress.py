"""Counters and summaries of a learner."""

from __future__ import annotations

import json

import pytest

from tau_trainer.metrics import MetricsHub, keys
from tests.training.fakes import Memory
from tests.training.learning.learning import Make


def test_a_summary_every_so_many_decisions(make: Make, memory: Memory, hub: MetricsHub) -> None:
    learner = make()
    for _ in range(10):
        learner.count(10)
    hub.drain(5.0)
    assert [summary.step for summary in memory.summaries] == [40, 70, 100]
    assert all(summary.training for summary in memory.summaries)


def test_done_after_max_steps_and_not_before(make: Make) -> None:
    learner = make()
    learner.count(999)
    almost = learner.done
    learner.count(1)
    assert (almost, learner.done) == (False, True)
    assert learner.progress.max_steps == 1000


@pytest.mark.parametrize(
    ("max_steps", "given", "points"), [(40, "auto", 20), (400, "auto", 20), (7, "auto", 7), (40, 32, 2), (400, 100, 4)]
)
def test_a_short_run_has_a_curve_too_and_one_that_is_asked_for_is_kept(
    make: Make, memory: Memory, hub: MetricsHub, max_steps: int, given: int | str, points: int
) -> None:
    learner = make(max_steps=max_steps, summary_freq=given)
    while not learner.done:
        learner.count(1)
    learner.flush()
    hub.drain(5.0)
    assert len(memory.summaries) == points
    assert memory.summaries[-1].step == max_steps


def test_a_learner_that_is_done_is_measured_up_to_its_last_decision(
    make: Make, hub: MetricsHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, rested = make(max_steps=40), list[int]()
    monkeypatch.setattr(hub, "rest", lambda name: rested.append(learner.decisions))
    for _ in range(5):
        learner.count(16)
    assert rested == [48, 64, 80], "its agents may go on while others are not done"


def test_the_last_word_is_that_of_the_last_summary_and_goes_on_with_the_run(make: Make, hub: MetricsHub) -> None:
    """What has ended since the last summary is in a checkpoint too, and counts in the next."""
    whole, cut = make(name="whole", summary_freq=100), make(name="cut", summary_freq=100)
    for learner in (whole, cut):
        hub.episode(learner.name, 0, [0.0] * 50, [1] * 50)
        learner.count(100)
        hub.episode(learner.name, 0, [20.0, 10.0], [1, 1], [3.0, 5.0])
    rewards = whole.progress.rewards
    assert (rewards.mean, rewards.mean_of(keys.GROUP_CUMULATIVE_REWARD), rewards.episodes) == (0.0, None, 50)
    arrays, values = cut.state()
    resumed = make(name="resumed", summary_freq=100)
    resumed.restore(arrays, json.loads(json.dumps(values)))
    assert (resumed.progress.rewards.mean, resumed.progress.rewards.episodes) == (0.0, 50)
    for learner in (whole, resumed):
        hub.episode(learner.name, 0, [0.0], [1], [1.0])
        learner.count(100)
        rewards = learner.progress.rewards
        assert (rewards.mean, rewards.mean_of(keys.GROUP_CUMULATIVE_REWARD), rewards.episodes) == (10.0, 3.0, 3)
