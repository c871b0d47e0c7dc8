from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.models import RunningNormalizer


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(0, 2**31), st.floats(-1e3, 1e3))
def test_merging_batches_equals_all_rows_at_once(sizes: list[int], seed: int, offset: float) -> None:
    rng = np.random.default_rng(seed)
    batches = [(rng.normal(size=(size, 3)) * [1, 10, 0.1] + offset).astype(np.float32) for size in sizes]
    merged, whole = RunningNormalizer(3), RunningNormalizer(3)
    for batch in batches:
        merged.merge(batch)
    whole.merge(np.concatenate(batches))
    assert merged.count == whole.count == sum(sizes) + 1
    np.testing.assert_allclose(merged.mean, whole.mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(merged.variance, whole.variance, rtol=1e-7, atol=1e-7)


def test_statistics_are_those_of_the_rows_and_one_imagined_row() -> None:
    rows = np.array([[1.0, 5.0], [3.0, 5.0]], np.float32)
    normalizer = RunningNormalizer(2)
    normalizer.merge(rows)
    np.testing.assert_allclose(normalizer.mean, [4 / 3, 10 / 3])
    # The imagined row contributes its distance from the mean and a variance of 1 of its own.
    expected = [(1 + 16 / 9 + 1 / 9 + 25 / 9) / 3, (1 + 100 / 9 + 2 * 25 / 9) / 3]
    np.testing.assert_allclose(normalizer.variance, expected)


def test_without_data_normalising_changes_nothing() -> None:
    state = RunningNormalizer(4).state()
    assert state.mean.tolist() == [0.0] * 4
    assert state.std.tolist() == [1.0] * 4


def test_large_offsets_keep_their_variance() -> None:
    rng = np.random.default_rng(0)
    normalizer = RunningNormalizer(1)
    for _ in range(50):
        normalizer.merge((1e4 + rng.normal(size=(1000, 1))).astype(np.float32))
    # The imagined row at 0 is far away: (1e4)² / 50,001 of variance come from it.
    assert abs(normalizer.variance[0] - (1.0 + 1e8 / 50_001)) < 1.0


def test_state_is_a_copy() -> None:
    normalizer = RunningNormalizer(1)
    state = normalizer.state()
    normalizer.merge(np.full((10, 1), 3.0, np.float32))
    assert state.mean[0] == 0.0
