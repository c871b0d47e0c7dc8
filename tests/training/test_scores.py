from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.training.scores import DecisionScores, EpisodeScores, RecentMean


def floats(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, np.float32)


def rows(*values: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    return np.array(values, np.intp)


def test_no_mean_before_the_first_value() -> None:
    mean = RecentMean(10)
    mean.add(floats())
    assert mean.value is None
    mean.add(floats(3.0))
    assert mean.value == pytest.approx(3.0)


@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=30))
def test_a_recent_mean_lies_between_its_values(values: list[float]) -> None:
    mean = RecentMean(5)
    for value in values:
        mean.add(floats(value))
    assert mean.value is not None
    assert min(values) - 1e-3 <= mean.value <= max(values) + 1e-3


def test_old_values_fade() -> None:
    mean = RecentMean(10)
    mean.add(np.zeros(100, np.float32))
    mean.add(np.ones(100, np.float32))
    assert mean.value is not None
    assert mean.value > 0.99


def step(scores: EpisodeScores, chosen: np.ndarray[tuple[int], np.dtype[np.intp]], *own: float) -> None:
    """A group gets ten times as much, and a tenth is learned from."""
    values = floats(*own)
    scores.step(chosen, scores.acted(chosen), own=values, group=10 * values, paid=values * np.float32(0.1))


def end(
    scores: EpisodeScores, chosen: np.ndarray[tuple[int], np.dtype[np.intp]], *own: float
) -> tuple[dict[str, list[float]], list[float]]:
    values = floats(*own)
    returns, lengths = scores.end(
        chosen, scores.acted(chosen), own=values, group=10 * values, paid=values * np.float32(0.1)
    )
    return {kind: sums.tolist() for kind, sums in returns.items()}, lengths.tolist()


def test_returns_and_lengths_of_an_episode() -> None:
    scores = EpisodeScores()
    step(scores, rows(0, 1), 9.0, 9.0)  # came before any decision of the episode
    step(scores, rows(0, 1), 1.0, 2.0)
    step(scores, rows(0), 1.0)
    returns, lengths = end(scores, rows(0, 1), 0.5, 0.25)
    assert returns == {"own": [2.5, 2.25], "group": [25.0, 22.5], "paid": pytest.approx([0.25, 0.225])}
    assert lengths == [3.0, 2.0]
    assert scores.episodes == 2
    assert scores.recent_return.value == pytest.approx(2.375, abs=0.01)


def test_a_kind_that_nobody_pays_is_0() -> None:
    scores = EpisodeScores()
    scores.step(rows(0), scores.acted(rows(0)), own=floats(1.0))
    returns, _ = scores.end(rows(0), scores.acted(rows(0)), own=floats(2.0))
    assert {kind: sums.tolist() for kind, sums in returns.items()} == {"own": [2.0], "group": [0.0], "paid": [0.0]}


def test_an_end_without_a_decision_is_no_episode() -> None:
    scores = EpisodeScores()
    assert end(scores, rows(4), 7.0) == ({"own": [], "group": [], "paid": []}, [])
    assert scores.episodes == 0
    assert scores.recent_return.value is None


def test_the_next_episode_begins_at_zero() -> None:
    scores = EpisodeScores()
    step(scores, rows(2), 0.0)
    end(scores, rows(2), 5.0)
    assert scores.acted(rows(2)).tolist() == [False]
    step(scores, rows(2), 100.0)
    assert end(scores, rows(2), 1.0)[0]["own"] == [1.0]


def test_rows_beyond_the_first_table_and_clear() -> None:
    scores = EpisodeScores()
    step(scores, rows(1000), 0.0)
    assert scores.acted(rows(1000, 5)).tolist() == [True, False]
    scores.clear()
    assert not scores.acted(rows(1000)).any()


def test_a_pairs_scores_begin_empty() -> None:
    scores = DecisionScores()
    assert scores.reward.value is None
    assert scores.success.value is None
