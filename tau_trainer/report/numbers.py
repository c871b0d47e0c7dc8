"""Formats of numbers in a report."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

Shown = Callable[[float], str]
"""A function that formats a number."""
_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def exact(value: float) -> str:
    """Four significant digits, with commas between thousands: ``0.9567``, ``-2.2e-05``, ``14,339``."""
    if not math.isfinite(value):
        return "-"
    size = abs(value)
    if size >= 1e9 or (size and size < 1e-4):
        return f"{value:.3g}"
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def reward(value: float) -> str:
    """Three decimals, so that a column of them can be compared: ``+0.957``; large ones as :func:`exact`."""
    return f"{value:+.3f}" if abs(value) < 100 else exact(value)


def compact(value: float) -> str:
    """For axes: ``0``, ``500``, ``20k``, ``1.5M``."""
    for size, letter in _PREFIXES:
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def size(count: float) -> str:
    """Bytes: ``1.9 MB``."""
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= limit:
            return f"{count / limit:.1f} {unit}"
    return f"{count:.0f} bytes"


def duration(seconds: float | None) -> str:
    """``221 ms``, ``4.9 s``, ``12 min 05 s``, ``3 h 20 min``."""
    if seconds is None or not math.isfinite(seconds):
        return "-"
    if 0.0 < seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (divided by the count less one; 0 of a single value)."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def when(text: object) -> str:
    """``2026-11-22 10:36:05 UTC`` from ISO 8601."""
    said = str(text)
    return said[:19].replace("T", " ") + " UTC" if said.endswith("+00:00") else said
