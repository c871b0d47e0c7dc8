from __future__ import annotations

import math

import pytest

from tau_trainer.report.numbers import compact, duration, exact, mean_and_deviation, reward, size


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.95671, "0.9567"), (-2.2e-5, "-2.2e-05"), (14339.4, "14,339"), (3e12, "3e+12"), (math.nan, "-")],
)
def test_exact(value: float, text: str) -> None:
    assert exact(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (500, "500"), (20_000, "20k"), (1.5e6, "1.5M"), (2e9, "2G")])
def test_compact(value: float, text: str) -> None:
    assert compact(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"), (0.0, "0.0 s"), (0.2214, "221 ms"), (0.9999, "1.0 s"), (4.86, "4.9 s"), (59.96, "1 min 00 s"),
        (725, "12 min 05 s"), (12_000, "3 h 20 min"),
    ],
)  # fmt: skip
def test_duration(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_the_others() -> None:
    assert reward(0.9567) == "+0.957"
    assert reward(-100.8) == "-100.8"
    assert mean_and_deviation([1.0, 3.0]) == (2.0, math.sqrt(2.0)), "that of a sample"
    assert mean_and_deviation([5.0]) == (5.0, 0.0)
    assert [size(count) for count in (12, 116_200, 1.9e6, 3e9)] == ["12 bytes", "116.2 kB", "1.9 MB", "3.0 GB"]
