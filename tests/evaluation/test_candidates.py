from __future__ import annotations

import itertools

import pytest

from tau_trainer.evaluation.candidates import still_rises, validation_after


def points(most: int, until: int) -> list[int]:
    """All decisions at which a run of ``most`` validates, up to ``until``."""
    found = itertools.accumulate(itertools.repeat(most), validation_after, initial=0)
    return list(itertools.takewhile(lambda decision: decision <= until, found))[1:]


@pytest.mark.parametrize("most", [1, 150, 10_000, 10**9])
def test_validations_are_close_enough_to_wherever_a_run_ends(most: int) -> None:
    due = points(most, most)
    for one, following in itertools.pairwise(due):
        assert following - one <= max(1, min(one // 50, most // 200))
    assert due[0] == 1
    assert len(due) < 1100, "however long it is"


def test_they_do_not_depend_on_where_the_run_is_to_end() -> None:
    assert points(10**6, 10**6 // 4) == points(10**9, 10**6 // 4)
    assert points(10**6, 10**6)[-1] == 10**6


@pytest.mark.parametrize("decisions", [0, 1, 99, 100, 12_345, 10**7])
def test_the_next_is_later(decisions: int) -> None:
    for most in (10, 1000, 10**8):
        assert validation_after(decisions, most) > decisions
        assert validation_after(validation_after(decisions, most) - 1, most) == validation_after(decisions, most)


def test_accuracies_that_rise_to_the_end() -> None:
    assert still_rises([0.1, 0.2, 0.3, 0.4])
    assert still_rises([0.0] * 9 + [0.02] * 3)
    assert not still_rises([0.0, 0.3, 0.5, 0.505])
    assert not still_rises([0.1, 0.5, 0.4, 0.4])
    assert not still_rises([0.9] * 7 + [0.2] + [0.9] * 4), "a short fall"
    assert not still_rises([0.0, 0.5, 1.0])
    assert not still_rises([0.1, 0.2, 0.5, 1.0]), "it is all there is"
    assert not still_rises([])
