from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tau_trainer.metrics import Summary
from tau_trainer.metrics.hub import Series
from tau_trainer.metrics.summary import summarize
from tau_trainer.specs import Aggregation


@given(arrays(np.float64, st.integers(1, 200), elements=st.floats(allow_nan=True, allow_infinity=True)))
def test_a_histogram_counts_every_finite_value(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    got = summarize(values, Aggregation.HISTOGRAM)
    finite = int(np.isfinite(values).sum())
    assert (got.count, got.non_finite) == (finite, len(values) - finite)
    if finite:
        assert got.histogram is not None
        assert got.histogram.counts.sum() == finite
        assert len(got.histogram.edges) == len(got.histogram.counts) + 1
        assert (got.histogram.edges[1:] > got.histogram.edges[:-1]).all()


def test_nan_is_counted_and_stays_out_of_the_mean() -> None:
    got = summarize(np.array([1.0, math.nan, 3.0, math.inf]))
    assert (got.count, got.non_finite, got.mean, got.std, got.max) == (2, 2, 2.0, 1.0, 3.0)
    nothing = summarize(np.array([math.nan]), Aggregation.HISTOGRAM)
    assert math.isnan(nothing.value)
    assert nothing.histogram is None


@pytest.mark.parametrize("value", [True, 2, 2.5, np.float32(0.5), [1, 2], np.ones((2, 3), np.float16), ((1.0,),)])
def test_series_takes_numbers_and_arrays_of_any_shape(value: object) -> None:
    series = Series(Aggregation.SUM)
    series.add(value)  # type: ignore[arg-type]
    assert series.statistics().value == pytest.approx(float(np.sum(np.asarray(value, np.float64))))


def test_pair_values_stand_under_the_pair_so_that_they_never_meet_those_of_a_game() -> None:
    one = summarize(np.array([2.0]))
    summary = Summary("A", 1, 0.0, 0.0, {}, {"3": {"a/Tau/Mean Reward": one}, "x": {"plain": one}})
    assert summary.pair_values() == {"Pair 3/Mean Reward": 2.0, "Pair x/plain": 2.0}
