"""Windows of binary rewards, against a plain Python model."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.errors import SettingsError
from tau_trainer.rewards.aggregation import AGGREGATES, VALUES, WindowAggregator

STEPS = st.lists(st.lists(st.tuples(st.integers(0, 9), st.booleans()), unique_by=lambda step: step[0]), max_size=20)


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
    windows = {slot: deque[bool](maxlen=size) for slot in range(10)}
    aggregator = WindowAggregator(aggregate, size, values)
    for step in steps:
        slots = np.array([slot for slot, _ in step], np.int64)
        won = np.array([[success] for _, success in step], np.bool_).reshape(-1, 1)
        for slot, success in step:
            windows[slot].append(success)
        found = aggregator.push(slots, won)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found[:, 0], [model(windows[slot], aggregate, values) for slot in slots], atol=1e-12)
        np.testing.assert_array_equal(aggregator.peek(slots), found)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12), st.sampled_from(AGGREGATES))
def test_channels_do_not_touch_each_other(steps: list[tuple[bool, bool]], aggregate: str) -> None:
    both = WindowAggregator(aggregate, 3, channels=2)
    single = [WindowAggregator(aggregate, 3) for _ in range(2)]
    slot = np.array([4])
    for step in steps:
        found = both.push(slot, np.array([step]))
        parts = [window.push(slot, np.array([[won]]))[0, 0] for window, won in zip(single, step, strict=True)]
        assert found[0].tolist() == parts


def test_a_tie_is_no_majority() -> None:
    aggregator = WindowAggregator("majority", 4, "pm1")
    results = [aggregator.push(np.array([0]), np.array([[won]]))[0, 0] for won in (True, False, True, False, True)]
    assert results == [1.0, -1.0, 1.0, -1.0, -1.0]


def test_clear_empties_only_the_slots_asked_for() -> None:
    aggregator = WindowAggregator("sum", 3)
    slots = np.array([0, 1])
    aggregator.push(slots, np.ones((2, 1), np.bool_))
    aggregator.clear(np.array([1]))
    assert aggregator.peek(slots)[:, 0].tolist() == [1.0, 0.0]
    aggregator.clear()
    assert aggregator.peek(slots)[:, 0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("aggregate", "empty"), [("mean", -1.0), ("sum", 0.0), ("any", -1.0), ("all", -1.0)])
def test_an_empty_window_is_no_success(aggregate: str, empty: float) -> None:
    assert WindowAggregator(aggregate, 2, "pm1").peek(np.array([0])).tolist() == [[empty]]


def test_grows_by_doubling_and_keeps_what_it_holds() -> None:
    aggregator = WindowAggregator("sum", 2)
    sizes = set()
    for slot in range(200):
        aggregator.push(np.array([slot]), np.array([[True]]))
        sizes.add(aggregator.slots)
    assert len(sizes) <= 9
    assert (aggregator.peek(np.arange(200)) == 1.0).all()


def test_state_goes_on_exactly() -> None:
    generator = np.random.default_rng(0)
    steps = generator.random((20, 5, 2)) < 0.5
    slots = np.arange(5)
    straight, first = WindowAggregator("mean", 4, channels=2), WindowAggregator("mean", 4, channels=2)
    for won in steps[:10]:
        straight.push(slots, won)
        first.push(slots, won)
    second = WindowAggregator("mean", 4, channels=2)
    second.load_state_dict(first.state_dict())
    for won in steps[10:]:
        np.testing.assert_array_equal(straight.push(slots, won), second.push(slots, won))
    with pytest.raises(ValueError, match=r"not \[slots, 3, 2\]"):
        WindowAggregator("mean", 3, channels=2).load_state_dict(first.state_dict())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("median", 1, "01"), "`median`"), (("mean", 0, "01"), "`window` is 0"), (("mean", 1, "yes"), "`01` or `pm1`")],
)
def test_wrong_settings(arguments: tuple[str, int, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        WindowAggregator(*arguments)
