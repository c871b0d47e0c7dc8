"""The budget of restarts, on a clock of the test's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.collection.restarts import RestartBudget


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def spend(budget: RestartBudget, clock: Clock, every_s: float, most: int) -> int:
    """Restarts that are allowed, one every ``every_s`` seconds."""
    for done in range(most):
        if budget.refusal() is not None:
            return done
        budget.spend()
        clock.now += every_s
    return most


@pytest.mark.parametrize("lifetime", [0, 1, 7])
def test_a_lifetimes_restarts(lifetime: int) -> None:
    clock = Clock()
    budget = RestartBudget(lifetime, -1, 60.0, clock)
    assert spend(budget, clock, 1000.0, 20) == lifetime
    times = "once" if lifetime == 1 else f"{lifetime} times"
    assert budget.refusal() == f"it was restarted {times}, the most that max_lifetime_restarts allows"
    assert budget.restarts == lifetime


def test_restarts_within_a_period() -> None:
    clock = Clock()
    budget = RestartBudget(-1, 2, 60.0, clock)
    assert spend(budget, clock, 10.0, 20) == 2
    assert budget.refusal() == ("it was restarted 2 times within 60 s, the most that restarts_rate_limit_n allows")
    clock.now += 39.5  # the first was 59.5 s ago
    assert budget.refusal() is not None
    clock.now += 0.5
    assert budget.refusal() is None


def test_no_restarts_at_all_and_unlimited_ones() -> None:
    clock = Clock()
    assert spend(RestartBudget(-1, 0, 60.0, clock), clock, 0.0, 5) == 0
    assert spend(RestartBudget(-1, -1, 60.0, clock), clock, 0.0, 2000) == 2000


def test_waits_double_up_to_the_longest_and_begin_anew_once_the_engine_has_proved_itself() -> None:
    budget = RestartBudget(-1, -1, 60.0, Clock())
    assert [budget.spend() for _ in range(10)] == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    budget.proved()
    assert [budget.spend() for _ in range(2)] == [0.25, 0.5]
    assert budget.restarts == 12


def test_a_very_long_row_of_failures_keeps_the_longest_wait() -> None:
    budget = RestartBudget(-1, -1, 60.0, Clock())
    assert {budget.spend() for _ in range(3000)} >= {30.0}
    assert budget.spend() == 30.0


@given(st.lists(st.floats(0.0, 30.0), max_size=60), st.integers(0, 5), st.floats(0.5, 60.0), st.integers(-1, 10))
def test_no_limit_is_ever_exceeded(gaps: list[float], rate: int, period: float, lifetime: int) -> None:
    clock = Clock()
    budget = RestartBudget(lifetime, rate, period, clock)
    times: list[float] = []
    for gap in gaps:
        clock.now += gap
        if budget.refusal() is None:
            budget.spend()
            times.append(clock.now)
        assert sum(clock.now - time < period for time in times) <= rate
    assert lifetime == -1 or len(times) <= lifetime
