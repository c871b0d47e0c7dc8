"""Formats of numbers in a terminal."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

MISSING = "-"


def format_count(count: int) -> str:
    """``123,456``."""
    return f"{count:,d}"


def format_reward(reward: float | None) -> str:
    """``0.812``; ``-`` for None, NaN and infinity."""
    return MISSING if reward is None or not math.isfinite(reward) else f"{reward:.3f}"


def format_loss(loss: float) -> str:
    """Three significant digits: ``0.0213``, ``1.38``, ``2.1e-05``."""
    return f"{loss:.3g}"


def format_percent(share: float | None) -> str:
    """A share from 0 to 1 as ``81.2 %``."""
    return MISSING if share is None or not math.isfinite(share) else f"{100.0 * share:.1f} %"


def format_speed(per_second: float) -> str:
    """``12,345``; one decimal below ten."""
    if not math.isfinite(per_second):
        return MISSING
    return f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.1f}"


def format_milliseconds(seconds: float) -> str:
    """Two significant digits: ``0.21 ms``, ``5.4 ms``, ``540 ms``."""
    rounded = float(f"{1e3 * seconds:.2g}")
    return f"{rounded:,g} ms"


def format_bytes(count: int) -> str:
    """``412 MB``, ``1.3 GB``; 1 MB is a million bytes."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def format_seconds(seconds: float | None) -> str:
    """``0:01:23``, ``26:00:00``; ``-`` for None or a number that is not finite."""
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    minutes, second = divmod(round(max(seconds, 0.0)), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{second:02d}"


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Rows as lines of columns, those numbered ``left`` aligned to the left, and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(row: Sequence[str]) -> str:
        places = enumerate(zip(row, widths, strict=True))
        return "  ".join(cell.ljust(width) if i in left else cell.rjust(width) for i, (cell, width) in places).rstrip()

    return [line(row) for row in rows]
