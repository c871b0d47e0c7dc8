from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tau_trainer.errors import DataError, sentence_of
from tau_trainer.metrics import PairMetrics, PairState, RunReport
from tau_trainer.training.pairs.states import allowed


def report(outcome: str, *states: PairState) -> RunReport:
    pairs = tuple(PairMetrics(i, state, 10) for i, state in enumerate(states))
    return RunReport("run", Path("run"), "parallel", outcome, 10 * len(pairs), 1.0, 10.0, pairs)


def test_the_way_of_a_pair() -> None:
    way = [PairState.IDLE, PairState.PREPARING, PairState.TRAINING, PairState.EVALUATING, PairState.COMPLETED]
    assert all(allowed(before, after) for before, after in itertools.pairwise(way))
    assert not any(allowed(after, before) for before, after in itertools.pairwise(way))


@pytest.mark.parametrize("state", list(PairState))
def test_failed_and_cancelled_can_come_at_any_time_but_the_end(state: PairState) -> None:
    assert state.ended == (state.value in ("Completed", "Failed", "Cancelled"))
    assert allowed(state, PairState.FAILED) is not state.ended
    assert allowed(state, PairState.CANCELLED) is not state.ended
    assert not state.ended or not any(allowed(state, after) for after in PairState)


@pytest.mark.parametrize(
    ("outcome", "states", "code"),
    [
        ("completed", (PairState.COMPLETED, PairState.COMPLETED), 0),
        ("cancelled", (PairState.CANCELLED, PairState.COMPLETED), 0),
        ("completed", (PairState.FAILED, PairState.COMPLETED), 1),
        ("failed", (PairState.FAILED, PairState.FAILED), 2),
        ("failed", (PairState.CANCELLED, PairState.CANCELLED), 2),
    ],
)
def test_exit_codes(outcome: str, states: tuple[PairState, ...], code: int) -> None:
    assert report(outcome, *states).exit_code == code


def test_errors_in_one_sentence() -> None:
    assert sentence_of(DataError("row 3 has no answer")) == "row 3 has no answer"
    assert sentence_of(KeyError("x")) == "internal error: KeyError: 'x'"
