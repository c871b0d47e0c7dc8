from __future__ import annotations

import pytest

from tau_trainer.metrics import RateMeter
from tau_trainer.training.pairs import speeds as module
from tau_trainer.training.pairs.speeds import Speeds


class Clock:
    """Seconds that pass when the test says so."""

    now = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "RateMeter", lambda half_life=5.0: RateMeter(half_life, lambda: clock.now))
    return clock


def test_a_speed_counts_what_this_process_has_done_and_nothing_twice(clock: Clock) -> None:
    """A resumed run begins with the decisions of those before."""
    speeds = Speeds(5000, [5000])
    assert speeds.of_run(5000) == 0.0
    clock.now = 1.0
    assert speeds.of_pair(0, 5040) == pytest.approx(40.0, rel=0.1)
    assert speeds.of_pair(0, 5040) == speeds.of_pair(0, 5040)


def test_the_runs_speed_outlasts_the_change_from_one_pair_to_the_next(clock: Clock) -> None:
    """One of two pairs at a time, 100 decisions a second, 2 s until the next has started: neither 0 nor 200."""
    decisions = 1000  # a resumed run
    speeds = Speeds(decisions, [500, 500])
    clock.now = 30.0  # engines took their time
    for turn in range(2):
        for _ in range(40):
            clock.now += 0.25
            decisions += 25
            speed = speeds.of_run(decisions)
        assert speed == pytest.approx(100.0 if turn == 0 else 90.0, rel=0.06)
        clock.now += 2.0
        assert 75.0 < speeds.of_run(decisions) < 95.0
