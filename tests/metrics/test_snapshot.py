"""The result of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer.metrics import PairMetrics, PairState, RunReport


def report(outcome: str, *states: PairState) -> RunReport:
    pairs = tuple(PairMetrics(i, state, 10) for i, state in enumerate(states))
    return RunReport("run", Path("run"), "parallel", outcome, 10 * len(pairs), 1.0, 10.0, pairs)


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
