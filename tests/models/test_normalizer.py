from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.models import Normalizer


def variance(normalizer: Normalizer) -> torch.Tensor:
    return normalizer.std.square()


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(0, 2**31), st.floats(-1e3, 1e3))
def test_merging_batches_equals_all_rows_at_once(sizes: list[int], seed: int, offset: float) -> None:
    rng = np.random.default_rng(seed)
    batches = [(rng.normal(size=(size, 3)) * [1, 10, 0.1] + offset).astype(np.float32) for size in sizes]
    merged, whole = Normalizer(3), Normalizer(3)
    for batch in batches:
        merged.merge(batch)
    whole.merge(np.concatenate(batches))
    assert merged.count == whole.count == sum(sizes) + 1
    assert merged.untouched == (sum(sizes) == 0)
    torch.testing.assert_close(merged.mean, whole.mean, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(variance(merged), variance(whole), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("rows", [0, 1, 8192, 20_000])
def test_a_tensor_is_taken_in_as_an_array_is(rows: int) -> None:
    batch = (np.random.default_rng(0).normal(size=(rows, 3)) * [1, 10, 0.1] + [0, 5, 1e3]).astype(np.float32)
    array, tensor = Normalizer(3), Normalizer(3)
    for begin in (0, rows // 2):
        array.merge(batch[begin:])
        tensor.take_in(torch.from_numpy(batch[begin:]))
    assert array.count == tensor.count
    torch.testing.assert_close(tensor.mean, array.mean, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(variance(tensor), variance(array), rtol=1e-7, atol=1e-7)


def test_statistics_are_those_of_the_rows_and_one_imagined_row() -> None:
    normalizer = Normalizer(2)
    normalizer.merge(np.array([[1.0, 5.0], [3.0, 5.0]], np.float32))
    np.testing.assert_allclose(normalizer.mean, [4 / 3, 10 / 3])
    # The imagined row contributes its distance from the mean and a variance of 1 of its own.
    expected = [(1 + 16 / 9 + 1 / 9 + 25 / 9) / 3, (1 + 100 / 9 + 2 * 25 / 9) / 3]
    np.testing.assert_allclose(variance(normalizer), expected)


def test_without_data_normalising_changes_nothing() -> None:
    normalizer, x = Normalizer(4), torch.rand(3, 4)
    assert normalizer.untouched
    assert torch.equal(normalizer(x), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normalised_is_shifted_scaled_and_clipped(dtype: torch.dtype) -> None:
    normalizer, x = Normalizer(2), torch.tensor([[1.0, 2.0], [500.0, -500.0]], dtype=dtype)
    normalizer.merge(np.array([[1.0, 0.0], [3.0, 7.0], [8.0, 2.0]], np.float32))
    kept = x.clone()
    expected = ((x.double() - normalizer.mean) / normalizer.std).clamp(-5, 5)
    assert expected[1].tolist() == [5.0, -5.0]
    torch.testing.assert_close(normalizer(x), expected.to(dtype))
    assert torch.equal(x, kept), "the observations themselves are not written to"
