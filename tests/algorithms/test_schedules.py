from __future__ import annotations

import pytest

from tau_trainer.algorithms.schedules import BETA_FLOOR, EPSILON_FLOOR, LEARNING_RATE_FLOOR, learning_rate, scheduled
from tau_trainer.settings import PPOHyperparameters


@pytest.mark.parametrize(("progress", "expected"), [(0.0, 0.2), (0.5, 0.15), (1.0, 0.1), (7.0, 0.1), (-1.0, 0.2)])
def test_linear_goes_down_to_its_floor_and_stays_there(progress: float, expected: float) -> None:
    assert scheduled(0.2, "linear", progress, EPSILON_FLOOR, 100) == pytest.approx(expected)


def test_constant_stays() -> None:
    assert scheduled(3e-4, "constant", 1.0, LEARNING_RATE_FLOOR, 100) == 3e-4


def test_floors_are_ml_agents() -> None:
    assert learning_rate(PPOHyperparameters(learning_rate=3e-4), 1.0, 100) == pytest.approx(1e-10, abs=0)
    assert scheduled(5e-3, "linear", 1.0, BETA_FLOOR, 100) == pytest.approx(1e-5)


def test_value_below_its_floor_does_not_rise() -> None:
    assert scheduled(0.0, "linear", 1.0, BETA_FLOOR, 100) == 0.0
    assert scheduled(0.05, "linear", 0.5, EPSILON_FLOOR, 100) == 0.05


def test_a_number_that_is_a_schedule_follows_the_steps() -> None:
    points = ((0.0, 1e-3), (1000.0, 1e-4))
    # Neither the kind nor its floor has a say, and steps are those of the run.
    assert scheduled(points, "linear", 0.25, 1.0, 2000) == pytest.approx(5.5e-4)
    assert scheduled(points, "constant", 0.75, 1.0, 2000) == pytest.approx(1e-4)
    assert scheduled(points, "constant", 2.0, 1.0, 500) == pytest.approx(5.5e-4)  # progress is clamped
