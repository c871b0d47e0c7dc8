from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tau_trainer.errors import CheckpointError, NonFiniteError
from tau_trainer.runs.tensors import from_safetensors, table_of, to_safetensors

_DTYPES = st.sampled_from([np.bool_, np.uint8, np.int32, np.int64, np.float16, np.float32, np.float64])
_ARRAYS = hnp.arrays(
    _DTYPES,
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    elements={"allow_nan": False, "allow_infinity": False},
)


@given(st.dictionaries(st.text(min_size=1, max_size=8), _ARRAYS, max_size=4))
def test_arrays_come_back_bit_for_bit(arrays: dict[str, NDArray[Any]]) -> None:
    data, table = to_safetensors(arrays, "B")
    back = from_safetensors(data)
    assert table_of(back) == table
    assert set(back) == set(arrays)
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert back[name].shape == array.shape
        assert back[name].tobytes() == array.tobytes()


def test_views_of_one_array_are_stored_each() -> None:
    base = np.arange(6, dtype=np.float32).reshape(2, 3)
    data, table = to_safetensors({"a": base[:1], "b": base.T, "c": base, "d": base.astype(">f4")}, "B")
    back = from_safetensors(data)
    assert back["b"].tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert back["d"].tolist() == base.tolist()
    back["d"][0] = 7
    assert from_safetensors(data)["d"].tolist() == base.tolist(), "what was loaded belongs to the caller"
    assert table["b"] == {"shape": [3, 2], "dtype": "float32"}


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_named(number: float, kind: type[np.floating[Any]]) -> None:
    with pytest.raises(NonFiniteError, match=r"'actor\.weight' of 'Tau'"):
        to_safetensors({"fine": np.ones(2), "actor.weight": np.array([0.0, number], kind)}, "Tau")


@pytest.mark.parametrize(
    ("value", "text"), [(np.array([object()]), "object"), ([1.0], "list"), (torch.ones(2), "Tensor")]
)
def test_what_is_no_array_of_numbers_is_named(value: Any, text: str) -> None:
    with pytest.raises(CheckpointError, match=f"'x' of 'B': it is {text}"):
        to_safetensors({"x": value}, "B")
