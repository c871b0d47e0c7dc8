"""Windows of binary rewards, against a plain Python model."""

from __future__ import annotations

from collections import deque
from typing import Any, get_args

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.rewards.aggregation import VALUES, WindowAggregator
from tau_trainer.settings import RewardSettings

AGGREGATES = get_args(RewardSettings.model_fields["aggregate"].annotation)
STEPS = st.lists(st.lists(st.tuples(st.integers(0, 9), st.booleans()), unique_by=lambda step: step[0]), max_size=20)


def aggregator_of(aggregate: str, window: int, values: str = "01", channels: int = 1) -> WindowAggregator:
    settings: dict[str, Any] = {"aggregate": aggregate, "window": window, "values": values}
    return WindowAggregator(RewardSettings.model_validate(settings), channels)


def model(window: deque[bool], aggregate: str, values: str) -> float:
    """The definition, one window at a time."""
    low, high = VALUES[values]
    worth = [high if won else low for won in window]
    if aggregate == "mean":
        return sum(worth) / len(worth)
    if aggregate == "sum":
        return sum(worth)
    won = {"any": any(window), "all": all(window), "majority": sum(window) > len(window) / 2}[aggregate]
    return high if won else low


@given(STEPS, st.sampled_from(AGGREGATES), st.integers(1, 5), st.sampled_from(sorted(VALUES)))
def test_equals_the_model_whatever_the_order_of_slots(
    steps: list[list[tuple[int, bool]]], aggregate: str, size: int, values: str
) -> None:
    windows = {row: deque[bool](maxlen=size) for row in range(10)}
    aggregator = aggregator_of(aggregate, size, values)
    for step in steps:
        rows = np.array([row for row, _ in step], np.int64)
        won = np.array([[success] for _, success in step], np.bool_).reshape(-1, 1)
        for row, success in step:
            windows[row].append(success)
        found = aggregator.push(rows, won)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found[:, 0], [model(windows[row], aggregate, values) for row in rows], atol=1e-12)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12), st.sampled_from(AGGREGATES))
def test_channels_do_not_touch_each_other(steps: list[tuple[bool, bool]], aggregate: str) -> None:
    both = aggregator_of(aggregate, 3, channels=2)
    single = [aggregator_of(aggregate, 3) for _ in range(2)]
    row = np.array([4])
    for step in steps:
        found = both.push(row, np.array([step]))
        parts = [window.push(row, np.array([[won]]))[0, 0] for window, won in zip(single, step, strict=True)]
        assert found[0].tolist() == parts


def test_clear_empties_only_the_rows_asked_for() -> None:
    aggregator, rows, won = aggregator_of("sum", 3), np.array([0, 1]), np.ones((2, 1), np.bool_)
    aggregator.push(rows, won)
    aggregator.clear(np.array([1, 77]))
    assert aggregator.push(rows, won)[:, 0].tolist() == [2.0, 1.0]
    aggregator.clear()
    assert aggregator.push(rows, ~won)[:, 0].tolist() == [0.0, 0.0]


def test_windows_survive_when_more_rows_come() -> None:
    aggregator = aggregator_of("sum", 2)
    for row in range(200):
        aggregator.push(np.array([row]), np.array([[True]]))
    assert (aggregator.push(np.arange(200), np.ones((200, 1), np.bool_)) == 2.0).all()
