from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.metrics.games import HEADINGS, Games, lines
from tau_trainer.metrics.jsonl import to_line


@pytest.mark.parametrize(
    ("won", "lost", "low", "high"),
    # Worked out with Wilson's formula, and found so in tables: 0 of 10, 8 of 10, all of 20.
    [(0, 10, 0.0, 0.2775), (8, 2, 0.4902, 0.9433), (20, 0, 0.8389, 1.0), (50, 50, 0.4038, 0.5962)],
)
def test_the_interval_is_wilsons(won: int, lost: int, low: float, high: float) -> None:
    assert Games("x", won=won, lost=lost).interval == pytest.approx((low, high), abs=5e-5)


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500))
def test_the_interval_holds_the_score_and_seen_from_the_other_side_is_its_mirror(
    won: int, drawn: int, lost: int
) -> None:
    games = Games("x", won, drawn, lost)
    low, high = games.interval
    assert 0.0 <= low <= high <= 1.0
    assert games.score is None or low - 1e-12 <= games.score <= high + 1e-12
    assert Games("x", lost, drawn, won).interval == pytest.approx((1.0 - high, 1.0 - low), abs=1e-9)


def test_games_are_counted_by_result() -> None:
    nothing = Games("x")
    assert (nothing.score, nothing.interval, nothing.cells[-2]) == (None, (0.0, 1.0), "-")
    games = nothing.and_more(1.0).and_more(0.5, 2).and_more(0.0, 3)
    assert (games.won, games.drawn, games.lost, games.played) == (1, 2, 3, 6)
    assert games.score == pytest.approx(2.0 / 6.0)


def test_the_table_is_plain_text() -> None:
    table = lines([Games("newest", 1, 0, 1), Games("snapshot at 20,000", 8, 0, 2, made=20000, behavior="Goalie")])
    assert len({len(line) for line in table}) == 1
    assert [heading for heading in HEADINGS if heading not in table[0]] == []
    assert table[2].startswith("Goalie: snapshot at 20,000  ")
    assert table[2].endswith("80.0 %  49.0 % to 94.3 %")
    assert all(line.isascii() for line in table)
    assert lines([]) == []


def test_a_record_has_what_is_worked_out_too() -> None:
    record = json.loads(to_line(Games("newest", 8, 0, 2).record))
    assert record["interval"] == pytest.approx([0.4902, 0.9433], abs=5e-5)
    assert (record["score"], record["won"], record["opponent"]) == (0.8, 8, "newest")
