"""Named arrays as one safetensors file."""

from __future__ import annotations

from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError, NonFiniteError

Table = dict[str, dict[str, object]]
"""Shape and type of each array, by name."""

_KINDS = "biuf"  # booleans, integers and floats


def to_safetensors(arrays: Arrays, owner: str) -> tuple[bytes, Table]:
    """The content of a safetensors file, and a table of its arrays. Copies all arrays first.

    Args:
        arrays: arrays of booleans, integers or floats, by name.
        owner: name of their owner, for errors.

    Raises:
        NonFiniteError: an array has NaN or infinity; the message names owner and array.
        CheckpointError: a value is not an array of numbers.
    """
    copies = {name: _copy(value, name, owner) for name, value in arrays.items()}
    return safetensors.numpy.save(copies), table_of(copies)


def from_safetensors(data: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file, owned by the caller."""
    return {name: np.array(value, order="C") for name, value in safetensors.numpy.load(data).items()}


def table_of(arrays: Arrays) -> Table:
    """Shape and type of each array."""
    return {name: {"shape": list(value.shape), "dtype": str(value.dtype)} for name, value in sorted(arrays.items())}


def _copy(value: NDArray[Any], name: str, owner: str) -> NDArray[Any]:
    """A copy that later training steps cannot change; for the same reason, the copy is checked, not the original."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in _KINDS:
        kind = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
        raise CheckpointError(f"Cannot save '{name}' of '{owner}': it is {kind}, not an array of numbers.")
    array = np.array(value, value.dtype.newbyteorder("="), order="C", copy=True)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise NonFiniteError(
            f"Tensor '{name}' of '{owner}' has NaN or infinity, so no checkpoint was written; the last one is "
            "intact: resume from it with a lower learning_rate."
        )
    return array
