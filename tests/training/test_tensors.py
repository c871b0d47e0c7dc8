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
from tau_trainer.training.tensors import pack, table_of, unpack

_DTYPES = st.sampled_from([np.bool_, np.uint8, np.int32, np.int64, np.float16, np.float32, np.float64])
_ARRAYS = hnp.arrays(
    _DTYPES,
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    elements={"allow_nan": False, "allow_infinity": False},
)


@given(st.dictionaries(st.text(min_size=1, max_size=8), _ARRAYS, max_size=4))
def test_arrays_come_back_bit_for_bit(arrays: dict[str, NDArray[np.generic]]) -> None:
    data, table = pack(arrays, "B")
    back = unpack(data, "numpy")
    assert table_of(back) == table
    assert set(back) == set(arrays)
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert back[name].shape == array.shape
        assert back[name].tobytes() == array.tobytes()


def test_torch_and_numpy_share_one_file() -> None:
    tensors: dict[str, Any] = {
        "weight": torch.arange(6, dtype=torch.float32).reshape(2, 3).T,
        "half": torch.ones(3, dtype=torch.bfloat16),
        "mask": torch.tensor([True, False]),
        "scalar": torch.tensor(3, dtype=torch.int64),
        "array": np.arange(3, dtype=np.float64),
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }
    data, table = pack(tensors, "B")
    back = unpack(data)
    assert table_of(back) == table
    assert table["weight"] == {"shape": [3, 2], "dtype": "float32"}
    assert torch.equal(back["weight"], tensors["weight"])
    assert back["half"].dtype == torch.bfloat16
    assert back["scalar"].item() == 3
    assert back["array"].tolist() == [0.0, 1.0, 2.0]


def test_tensors_that_share_memory_are_stored_each() -> None:
    base = torch.arange(4.0)
    back = unpack(pack({"a": base[:2], "b": base[1:], "c": base}, "B")[0])
    assert back["b"].tolist() == [1.0, 2.0, 3.0]


def test_both_readers_agree_on_the_table() -> None:
    data, table = pack({"a": np.ones((2, 1), np.float32), "b": np.zeros((), np.int32)}, "B")
    assert table_of(unpack(data, "torch")) == table_of(unpack(data, "numpy")) == table


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_named(number: float) -> None:
    for tensor in (np.array([0.0, number]), torch.tensor([0.0, number]), torch.tensor([number], dtype=torch.bfloat16)):
        with pytest.raises(NonFiniteError, match=r"'actor\.weight' of 'Tau'"):
            pack({"fine": np.ones(2), "actor.weight": tensor}, "Tau")


def test_what_is_no_tensor_is_named() -> None:
    with pytest.raises(CheckpointError, match="'x' of 'B': arrays of object"):
        pack({"x": np.array([object()])}, "B")
    with pytest.raises(CheckpointError, match="'x' of 'B': a list is no tensor"):
        pack({"x": [1.0]}, "B")  # type: ignore[dict-item]


def test_loaded_tensors_can_be_trained_on() -> None:
    data = pack({"a": np.zeros(2, np.float32)}, "B")[0]
    unpack(data)["a"].add_(1)
    unpack(data, "numpy")["a"][0] = 1
    assert unpack(data)["a"].tolist() == [0.0, 0.0]
