"""The nearest answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tau_trainer.errors import NonFiniteError
from tau_trainer.specs import Float64Array
from tau_trainer.tau.decoding import nearest

GRID = st.integers(-8, 8).map(lambda value: value / 8.0)


@given(hnp.arrays(np.float64, (5, 3), elements=GRID), hnp.arrays(np.float64, (7, 3), elements=GRID))
def test_equals_the_definition(output: Float64Array, targets: Float64Array) -> None:
    squares = ((output[:, None, :] - targets[None, :, :]) ** 2).sum(axis=2)
    found = nearest(output, targets)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(squares[np.arange(5), found], squares.min(axis=1))


def test_tie_goes_to_the_first() -> None:
    assert nearest([[0.0, 0.0]], [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]).tolist() == [0]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_number_that_is_none_is_not_read_as_an_answer(bad: float) -> None:
    with pytest.raises(NonFiniteError, match="row 2"):
        nearest([[0.0], [bad]], [[0.0]])


def test_widths_must_agree() -> None:
    with pytest.raises(ValueError, match=r"K >= 1"):
        nearest(np.zeros((1, 3)), np.zeros((2, 384)))
    with pytest.raises(ValueError, match=r"K >= 1"):
        nearest(np.zeros((1, 3)), np.zeros((0, 3)))
