from __future__ import annotations

import numpy as np
import pytest

from tau_trainer.memory.trajectories import accumulate


def test_one_chain_sums_with_discount() -> None:
    delta = np.ones((4, 1))
    factor = np.array([0.5, 0.5, 0.5, 0.0])
    following = np.array([1, 2, 3, 0])
    assert accumulate(delta, factor, following)[:, 0].tolist() == [1.875, 1.75, 1.5, 1.0]


def test_no_trace_returns_a_copy() -> None:
    delta = np.arange(3.0)[:, None]
    result = accumulate(delta, np.zeros(3), np.zeros(3, np.intp))
    assert result is not delta
    assert result.tolist() == delta.tolist()


@pytest.mark.parametrize("length", [1, 2, 3, 63, 64, 65, 1000])
def test_any_length_equals_the_loop(length: int) -> None:
    rng = np.random.default_rng(length)
    delta, factor = rng.normal(size=(length, 2)), rng.uniform(0.5, 1.0, length)
    factor[-1] = 0.0
    expected = delta.copy()
    for row in reversed(range(length - 1)):
        expected[row] += factor[row] * expected[row + 1]
    following = np.minimum(np.arange(length) + 1, length - 1)
    np.testing.assert_allclose(accumulate(delta, factor, following), expected, rtol=1e-12, atol=1e-12)
