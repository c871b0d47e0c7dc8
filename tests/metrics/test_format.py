from __future__ import annotations

import math

import pytest

from tau_trainer.metrics.format import (
    format_bytes,
    format_count,
    format_milliseconds,
    format_percent,
    format_reward,
    format_seconds,
    format_speed,
)


def test_numbers_read_well() -> None:
    assert format_count(1234567) == "1,234,567"
    assert format_reward(-0.12345) == "-0.123"
    assert format_percent(0.8125) == "81.2 %"
    assert format_speed(12345.6) == "12,346"
    assert format_speed(9.87) == "9.9"
    assert [format_milliseconds(s) for s in (2.14e-4, 5.44e-3, 0.543, 1.26)] == [
        "0.21 ms",
        "5.4 ms",
        "540 ms",
        "1,300 ms",
    ]
    for unknown in (None, math.nan, math.inf):
        assert (format_reward(unknown), format_percent(unknown)) == ("-", "-")
    assert format_speed(math.inf) == "-"
    assert (format_bytes(411_700_000), format_bytes(1_349_000_000)) == ("412 MB", "1.3 GB")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00:00"), (83.4, "0:01:23"), (59.6, "0:01:00"), (93_600, "26:00:00"), (None, "-"), (float("inf"), "-")],
)
def test_seconds_read_as_a_clock(seconds: float | None, text: str) -> None:
    assert format_seconds(seconds) == text
