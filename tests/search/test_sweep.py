from __future__ import annotations

import numpy as np
import pytest

from tau_trainer.search.sweep import Sweep, learning_rates


def sweep(metric: str, values: list[float], window: int = 3) -> Sweep:
    found = Sweep(metric, window)  # type: ignore[arg-type]
    for rate, value in zip(learning_rates(1e-6, 1e-1, max(2, len(values) - 1)), values, strict=False):
        found.add(float(rate), value)
    return found


def rises_at(place: int, count: int = 41, *, low: float = 20.0, high: float = 200.0) -> list[float]:
    return [float(low + (high - low) / (1 + np.exp(place - i))) for i in range(count)]


def test_after_all_steps_the_rate_is_the_last() -> None:
    rates = learning_rates(1e-5, 1e-1, 4)
    np.testing.assert_allclose(rates, [1e-5, 1e-4, 1e-3, 1e-2, 1e-1])
    assert len(learning_rates(1e-7, 3.0, 77)) == 78
    np.testing.assert_allclose(learning_rates(1e-7, 3.0, 77)[-1], 3.0)


def test_windows_are_of_what_came_before() -> None:
    found = sweep("reward", [1.0, 3.0, 5.0, 9.0])
    assert found.recent() == pytest.approx([1.0, 2.0, 3.0, 17 / 3])
    deviations = [0.0, 1.0, np.std([1, 3, 5]), np.std([3, 5, 9])]
    means = [1.0, 2.0, 3.0, 17 / 3]
    values = [1.0, 3.0, 5.0, 9.0]
    expected = (np.array(values) - means) / (np.array(deviations) + 1e-8)
    assert found.normalized() == pytest.approx(expected)


def test_what_is_smoothed_lags_behind_nothing() -> None:
    found = sweep("reward", [0.0, 0.0, 9.0, 0.0, 0.0])
    assert found.smoothed() == pytest.approx([0.0, 3.0, 3.0, 3.0, 0.0])


def test_the_change_is_by_decade() -> None:
    found = Sweep("reward", 1, [1e-4, 1e-3, 1e-2], [2.0, 5.0, 8.0])
    assert found.change() == pytest.approx([3.0, 3.0, 3.0])
    assert Sweep("reward", 1, [1e-4], [2.0]).change() == [0.0]


@pytest.mark.parametrize(("metric", "offset"), [("reward", 0.0), ("reward", -1000.0), ("loss", 1000.0)])
def test_the_suggestion_is_where_it_gets_better_fastest(metric: str, offset: float) -> None:
    values = [offset + (value if metric == "reward" else -value) for value in rises_at(23)]
    found = sweep(metric, values)
    assert found.best == pytest.approx(23, abs=1)
    assert found.suggestion == found.rates[found.best or 0]


def test_a_jump_at_the_end_is_no_reason_to_suggest_it() -> None:
    found = sweep("reward", [*rises_at(12, 30), 500.0])
    assert found.best == pytest.approx(12, abs=1)


def test_a_rise_over_few_steps_is_no_chance() -> None:
    values = [22.1, 21.4, 23.0, 21.8, 22.6, 22.9, 25.2, 31.7, 44.3, 68.9, 101.5, 132.0, 151.4, 157.3, 149.8, 120.6]
    found = sweep("reward", values, window=5)
    assert found.best == pytest.approx(9, abs=1)
    shuffled = np.random.default_rng(1).permutation(values).tolist()
    assert sweep("reward", shuffled, window=5).best is None


def test_the_fall_that_ends_a_sweep_takes_nothing_from_the_rise_before_it() -> None:
    rise = [23, 24, 23, 22, 21, 23, 20, 24, 23, 26, 26, 27, 32, 25, 33, 33, 50, 118, 122, 109, 121]
    whole = [float(value) for value in [*rise, 91, 16, 9, 9]]
    assert sweep("reward", whole, window=5).best == pytest.approx(16, abs=1)


@pytest.mark.parametrize("metric", ["reward", "loss"])
def test_noise_suggests_nothing(metric: str) -> None:
    for seed in range(3):
        noise = np.random.default_rng(seed).normal(-1200, 300, 41)
        assert sweep(metric, noise.tolist(), window=5).suggestion is None


def test_what_only_gets_worse_or_is_too_short_suggests_nothing() -> None:
    assert sweep("reward", rises_at(20)[::-1]).suggestion is None
    assert sweep("loss", rises_at(20)).suggestion is None
    assert sweep("reward", [1.0, 2.0, 3.0, 4.0, 5.0]).suggestion is None


@pytest.mark.parametrize(
    ("values", "over"),
    [
        ([100.0, 100.0, 100.0, 0.0, 0.0], False),  # the first five end nothing
        ([100.0, 100.0, 100.0, 100.0, 100.0, 0.0], False),  # a single bad episode
        ([100.0, 100.0, 100.0, 100.0, 0.0, 0.0], True),
        ([100.0, 100.0, 100.0, 60.0, 60.0, 60.0], False),
        ([100.0, 100.0, 100.0, 40.0, 40.0, 40.0], True),
        ([-100.0, -100.0, -100.0, -100.0, -100.0, -100.0], False),  # half of the best is above the best
        ([-100.0, -100.0, -100.0, -140.0, -140.0, -140.0], False),
        ([-100.0, -100.0, -100.0, -160.0, -160.0, -160.0], True),
        ([0.0, 1.0, -1.0, 0.5, -0.5, 1.0, -1.0, -0.8], False),  # around zero, what varies anyway
    ],
)
def test_a_reward_that_fell_by_half_of_the_best_ends_it(values: list[float], over: bool) -> None:
    assert (sweep("reward", values).over is not None) == over


@pytest.mark.parametrize(
    ("values", "over"),
    [
        ([1.0, 1.0, 1.0, 50.0, 50.0], False),
        ([1.0, 1.0, 1.0, 3.9, 3.9, 3.9], False),
        ([1.0, 1.0, 1.0, 4.1, 4.1, 4.1], True),
        ([-10.0, -10.0, -10.0, 19.0, 19.0, 19.0], False),
        ([-10.0, -10.0, -10.0, 21.0, 21.0, 21.0], True),
    ],
)
def test_a_loss_of_four_times_the_best_ends_it(values: list[float], over: bool) -> None:
    assert (sweep("loss", values).over is not None) == over
