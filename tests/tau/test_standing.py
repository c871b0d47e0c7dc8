"""A policy is better than another where chance would hardly have made it so."""

from __future__ import annotations

import numpy as np
import pytest

from tau_trainer.tau.standing import Standing


@pytest.mark.parametrize(
    ("won", "lost", "p_value", "verdict"),
    [
        (0, 0, 1.0, "equals"),
        (1, 0, 1.0, "equals"),
        (5, 0, 0.0625, "equals"),
        (6, 0, 0.03125, "beats"),
        (0, 6, 0.03125, "below"),
        (10, 2, 0.03857421875, "beats"),
        (2, 9, 0.0654296875, "equals"),
        (40, 38, 0.91, "equals"),
        (1000, 800, 2.7e-6, "beats"),
    ],
)
def test_a_sign_test_on_the_rows_where_they_differ(won: int, lost: int, p_value: float, verdict: str) -> None:
    """The values are those of scipy's binomtest."""
    standing = Standing(won, lost)
    assert standing.p_value == pytest.approx(p_value, rel=0.02)
    assert standing.verdict == verdict


def test_rows_that_both_know_tell_nothing() -> None:
    right, rival = np.array([True, True, False, False, True]), np.array([True, False, True, False, False])
    assert Standing.of(right, rival) == Standing(2, 1)
    assert Standing.of(right, right).sentence() == "right about the same rows"
    assert Standing(6, 0).sentence() == "alone right about 6 rows against 0, p = 0.031"
