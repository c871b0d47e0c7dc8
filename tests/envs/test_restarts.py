"""The budget of restarts, on a clock of the test's own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.errors import EngineError, EngineExitedError, LaunchError
from tau_trainer.specs import StepBatch
from tests.envs.playing import Sentences
from tests.waiting import Clock


def budget_of(lifetime: int, rate: int, period_s: float = 60.0, **more: Any) -> RestartBudget:
    return RestartBudget(lifetime, rate, period_s, **{"clock": Clock()} | more)


def spend(budget: RestartBudget, clock: Clock, every_s: float, most: int) -> int:
    """Restarts that are allowed, one every ``every_s`` seconds."""
    for done in range(most):
        if budget.refusal() is not None:
            return done
        budget.spend()
        clock.now += every_s
    return most


@pytest.mark.parametrize("lifetime", [1, 7])
def test_a_lifetimes_restarts(lifetime: int) -> None:
    clock = Clock()
    budget = budget_of(lifetime, -1, clock=clock)
    assert spend(budget, clock, 1000.0, 20) == lifetime
    times = "once" if lifetime == 1 else f"{lifetime} times"
    assert budget.refusal() == f"it was restarted {times}, the most that max_lifetime_restarts allows"
    assert budget.restarts == lifetime


def test_restarts_within_a_period() -> None:
    clock = Clock()
    budget = budget_of(-1, 2, clock=clock)
    assert spend(budget, clock, 10.0, 20) == 2
    assert budget.refusal() == ("it was restarted 2 times within 60 s, the most that restarts_rate_limit_n allows")
    clock.now += 39.5  # the first was 59.5 s ago
    assert budget.refusal() is not None
    clock.now += 0.5
    assert budget.refusal() is None


def test_waits_double_up_to_the_longest_and_begin_anew_once_the_engine_has_proved_itself() -> None:
    budget = budget_of(-1, -1)
    assert [budget.spend() for _ in range(10)] == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    budget.worked(99)
    assert budget.spend() == 30.0
    budget.worked(100)
    assert [budget.spend() for _ in range(2)] == [0.25, 0.5]
    assert budget.restarts == 13
    assert [budget.spend() for _ in range(3000)][-1] == 30.0


@given(st.lists(st.floats(0.0, 30.0), max_size=60), st.integers(0, 5), st.floats(0.5, 60.0), st.integers(-1, 10))
def test_no_limit_is_ever_exceeded(gaps: list[float], rate: int, period: float, lifetime: int) -> None:
    clock = Clock()
    budget = budget_of(lifetime, rate, period, clock=clock)
    times: list[float] = []
    for gap in gaps:
        clock.now += gap
        if budget.refusal() is None:
            budget.spend()
            times.append(clock.now)
        assert sum(clock.now - time < period for time in times) <= rate
    assert lifetime == -1 or len(times) <= lifetime


class Starts:
    """A start that fails as often as there are errors."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.made = 0

    async def __call__(self) -> list[StepBatch]:
        self.made += 1
        if self.errors:
            raise self.errors.pop(0)
        return []


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RestartBudget, "FIRST_WAIT_S", 0.001)


@pytest.mark.usefixtures("at_once")
def test_an_environment_is_started_until_it_works_and_every_time_is_told() -> None:
    told = Sentences()
    budget, starts = budget_of(5, -1, on_event=told), Starts(LaunchError("no program"))
    assert asyncio.run(budget.revive(EngineExitedError("engine 0 ended"), starts)) == []
    assert (starts.made, budget.restarts) == (2, 2)
    assert told == [
        "engine 0 ended; starting it again in 0.001 s (restart 1)",
        "no program; starting it again in 0.002 s (restart 2)",
    ]
    assert told.restarts == [1, 2]


@pytest.mark.usefixtures("at_once")
def test_a_spent_budget_raises_the_last_error_with_its_reason() -> None:
    starts = Starts(LaunchError("no program"), LaunchError("still none"), LaunchError("never"))
    with pytest.raises(
        LaunchError, match=r"^still none \(not started again: it was restarted 2 times, the most that max"
    ):
        asyncio.run(budget_of(2, -1).revive(EngineError("engine 0 ended"), starts))
    assert starts.made == 2


@pytest.mark.usefixtures("at_once")
def test_what_is_no_engines_fault_is_not_tried_again() -> None:
    starts = Starts(ZeroDivisionError("somewhere"))
    with pytest.raises(ZeroDivisionError):
        asyncio.run(budget_of(5, -1).revive(EngineError("engine 0 ended"), starts))
    assert starts.made == 1
