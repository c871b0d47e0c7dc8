from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.metrics.timing import RateMeter, eta_seconds


class Ticker:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now = 10.0

    def __call__(self) -> float:
        return self.now


@given(st.floats(1.0, 1e5), st.floats(0.5, 20.0), st.integers(20, 400))
def test_a_steady_rate_is_found_from_the_start(rate: float, half_life: float, ticks: int) -> None:
    clock = Ticker()
    meter = RateMeter(half_life, clock)
    for _ in range(ticks):
        clock.now += half_life / 50
        meter.add(max(round(rate * half_life / 50), 1))
    expected = max(round(rate * half_life / 50), 1) / (half_life / 50)
    assert meter.rate() == pytest.approx(expected, rel=0.02)


def test_a_stopped_rate_halves_with_the_half_life() -> None:
    clock = Ticker()
    meter = RateMeter(2.0, clock)
    for _ in range(10_000):
        clock.now += 0.01
        meter.add(10)
    before = meter.rate()
    clock.now += 2.0
    assert meter.rate() == pytest.approx(before / 2, rel=1e-3)
    assert meter.total == 100_000


def test_an_unused_meter_is_zero() -> None:
    clock = Ticker()
    meter = RateMeter(clock=clock)
    assert meter.rate() == 0.0
    clock.now += 1
    assert meter.rate() == 0.0


@pytest.mark.parametrize(
    ("done", "total", "rate", "expected"),
    [(50, 150, 10.0, 10.0), (150, 100, 10.0, 0.0), (50, 0, 10.0, None), (50, 100, 0.0, None)],
)
def test_eta(done: float, total: float, rate: float, expected: float | None) -> None:
    assert eta_seconds(done, total, rate) == expected
