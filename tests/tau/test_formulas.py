"""Reward formulas: the vectors of tau.md 5.2 and what must hold for every input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tau_trainer.errors import SettingsError
from tau_trainer.specs import Float64Array
from tau_trainer.tau.formulas import REWARDS, reward_name_by_index

WITH_COMPONENTS = [name for name, formula in REWARDS.items() if formula.by_component is not None]
ORDER = ("binary", "binary_strict", "difference", "incremental", "binary01")
SHAPES = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=8)
VALUES = st.floats(-1.0, 1.0, allow_nan=False)
ARRAYS = SHAPES.flatmap(
    lambda shape: st.tuples(
        hnp.arrays(np.float64, shape, elements=VALUES), hnp.arrays(np.float64, shape, elements=VALUES)
    )
)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ((0.0, 0.0, 0.0), (1.0, 1.0, 0.0, 1.0, 1.0)),
        ((0.05, 0.05, 0.05), (1.0, 1.0, -0.05, 0.9, 1.0)),
        ((2.0, 2.0, 2.0), (-1.0, -1.0, -2.0, -3.0, 0.0)),
        ((0.05, 0.05, 0.5), (1 / 3, -1.0, -0.2, 0.6, 0.0)),
    ],
)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_reference_vectors(error: tuple[float, ...], expected: tuple[float, ...], sign: float) -> None:
    target = np.array([[1.0, -1.0, 0.25]])
    output = target + sign * np.array([error])
    values = [REWARDS[name](output, target)[0] for name in ORDER]
    np.testing.assert_allclose(values, expected, atol=1e-12)


@pytest.mark.parametrize("index", [-1.0, 0.5, 5.0])
def test_unknown_index_names_the_known_ones(index: float) -> None:
    with pytest.raises(SettingsError, match=r"reward_type.*0 \(`binary`\)"):
        reward_name_by_index(index)


@given(ARRAYS)
def test_ranges_and_dtype(arrays: tuple[Float64Array, Float64Array]) -> None:
    output, target = arrays
    ranges = {"binary": (-1, 1), "difference": (-2, 0), "incremental": (-3, 1), "binary_strict": (-1, 1)}
    for name, formula in REWARDS.items():
        values = formula(output, target)
        low, high = ranges.get(name, (0, 1))
        assert values.shape == (len(output),)
        assert values.dtype == np.float64
        assert (values >= low - 1e-12).all()
        assert (values <= high + 1e-12).all()


@given(ARRAYS)
def test_symmetric_and_blind_to_row_order(arrays: tuple[Float64Array, Float64Array]) -> None:
    output, target = arrays
    for formula in REWARDS.values():
        np.testing.assert_array_equal(formula(output, target), formula(target, output))
        np.testing.assert_array_equal(formula(output[::-1], target[::-1])[::-1], formula(output, target))


@given(ARRAYS, st.floats(0.0, 1.0))
def test_never_pays_for_being_further_off(arrays: tuple[Float64Array, Float64Array], step: float) -> None:
    output, target = arrays
    closer = output + step * (target - output)
    for formula in REWARDS.values():
        assert (formula(closer, target) >= formula(output, target) - 1e-12).all()


@given(ARRAYS, st.data())
def test_components_average_to_the_formula(arrays: tuple[Float64Array, Float64Array], data: st.DataObject) -> None:
    output, target = arrays
    columns = data.draw(st.none() | st.integers(1, output.shape[1]))
    for name in WITH_COMPONENTS:
        parts = REWARDS[name].components(output, target, 0.2, columns)
        assert parts.shape == output.shape
        assert not parts[:, columns or output.shape[1] :].any()
        mean = parts[:, :columns].mean(axis=1)
        np.testing.assert_allclose(mean, REWARDS[name](output, target, 0.2, columns), atol=1e-12)


@given(ARRAYS)
def test_strict_forms_agree_with_the_mean_form(arrays: tuple[Float64Array, Float64Array]) -> None:
    output, target = arrays
    perfect = REWARDS["binary"](output, target) == 1.0
    np.testing.assert_array_equal(REWARDS["binary_strict"](output, target) == 1.0, perfect)
    np.testing.assert_array_equal(REWARDS["binary01"](output, target) == 1.0, perfect)


@pytest.mark.parametrize("name", ["binary_strict", "binary01"])
def test_strict_formulas_have_no_components(name: str) -> None:
    assert name not in WITH_COMPONENTS
    with pytest.raises(SettingsError, match="judges all components together"):
        REWARDS[name].components([[0.0]], [[0.0]])


def test_float32_input_is_compared_in_float64() -> None:
    output = np.array([[1e-9]], np.float32)
    assert REWARDS["difference"](output, np.zeros((1, 1), np.float32))[0] == -np.float64(np.float32(1e-9))


@pytest.mark.parametrize("columns", [0, 4, -1])
def test_columns_outside_of_the_action_are_refused(columns: int) -> None:
    with pytest.raises(SettingsError, match=r"`columns` is .* between 1 and the 3"):
        REWARDS["incremental"](np.zeros((2, 3)), np.zeros((2, 3)), columns=columns)


@pytest.mark.parametrize("threshold", [0.0, -0.1, float("nan")])
def test_threshold_must_be_positive(threshold: float) -> None:
    with pytest.raises(SettingsError, match="must be greater than 0"):
        REWARDS["binary"](np.zeros((1, 1)), np.zeros((1, 1)), threshold)


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"must both be \[n, d\]"):
        REWARDS["binary"](np.zeros((2, 3)), np.zeros((2, 1)))
