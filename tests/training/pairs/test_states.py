from __future__ import annotations

import itertools

import pytest

from tau_trainer.metrics import PairState
from tau_trainer.training.pairs.states import allowed


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
