"""Named tensors as one safetensors file, with or without torch.

Arrays of numpy alone need no torch, so that a checkpoint can be read and written where torch is not installed or
not worth the two seconds of its import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from tau_trainer.errors import CheckpointError, NonFiniteError

if TYPE_CHECKING:
    from torch import Tensor

    AnyTensor = Tensor | NDArray[Any]

Table = dict[str, dict[str, object]]
"""Shape and type of each tensor, by name."""

_KINDS = "biuf"  # numpy's booleans, integers and floats


def pack(tensors: Mapping[str, AnyTensor], owner: str) -> tuple[bytes, Table]:
    """The content of a safetensors file, and the table of what it holds. Copies everything first.

    Args:
        tensors: torch tensors (any device, any layout) or numpy arrays, by name.
        owner: whose they are, for errors.

    Raises:
        NonFiniteError: NaN or infinity; the text names owner and tensor.
        CheckpointError: something that is no tensor of booleans, integers or floats.
    """
    copies = {name: _copy(value, name, owner) for name, value in tensors.items()}
    table = table_of(copies)
    arrays = {name: value for name, value in copies.items() if isinstance(value, np.ndarray)}
    if len(arrays) == len(copies):
        return safetensors.numpy.save(arrays), table
    import torch
    from safetensors.torch import save

    return save({k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in copies.items()}), table


def unpack(data: bytes, framework: Literal["torch", "numpy"] = "torch") -> dict[str, Any]:
    """The tensors of a safetensors file: on the CPU, owned by the caller."""
    if framework == "numpy":
        return {name: np.array(value, order="C") for name, value in safetensors.numpy.load(data).items()}
    from safetensors.torch import load

    return dict(load(data))


def table_of(tensors: Mapping[str, Any]) -> Table:
    """Shape and type of each tensor; the same for torch and numpy."""
    return {
        name: {"shape": [int(size) for size in value.shape], "dtype": str(value.dtype).removeprefix("torch.")}
        for name, value in sorted(tensors.items())
    }


def _copy(value: AnyTensor, name: str, owner: str) -> AnyTensor:
    """A copy that later training steps cannot change; checked after it was made for the same reason."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in _KINDS:
            raise CheckpointError(
                f"Cannot save '{name}' of '{owner}': arrays of {value.dtype} are not supported; use numbers."
            )
        array = np.array(value, value.dtype.newbyteorder("="), order="C", copy=True)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise _non_finite(name, owner)
        return array
    if not hasattr(value, "is_floating_point"):
        raise CheckpointError(
            f"Cannot save '{name}' of '{owner}': a {type(value).__name__} is no tensor; put it into the manifest."
        )
    tensor = value.detach().cpu().clone().contiguous()
    if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
        raise _non_finite(name, owner)
    return tensor


def _non_finite(name: str, owner: str) -> NonFiniteError:
    return NonFiniteError(
        f"Tensor '{name}' of '{owner}' holds NaN or infinity, so no checkpoint was written; the last one is unharmed, "
        "resume from it with a lower learning_rate."
    )
