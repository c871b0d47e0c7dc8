"""Parameters and optimizer of a learner: made, copied, rolled back, written out and read in as a whole."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from tau_trainer.algorithms.fused import Optimizer
from tau_trainer.errors import CheckpointError
from tau_trainer.models.actor_critic import ActorCritic
from tau_trainer.models.normalizer import RunningNormalizer
from tau_trainer.specs import FloatArray

_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


def new_optimizer(network: ActorCritic, generator: torch.Generator, device: torch.device) -> Optimizer:
    """Freshly initialised parameters (drawn on the CPU, so equal on every device) and an Adam that has seen nothing."""
    layout = network.layout
    parameters = layout.zeros()
    network.initialize(parameters, generator)
    return Optimizer(
        parameters=parameters.to(device),
        gradient=layout.zeros(device),
        exp_avg=layout.zeros(device),
        exp_avg_sq=layout.zeros(device),
        scratch=layout.zeros(device),
        step=torch.zeros((), dtype=torch.int64, device=device),
    )


def copy_of(optimizer: Optimizer) -> Optimizer:
    """A deep copy, to roll back to."""
    return Optimizer(*(tensor.clone() for tensor in optimizer))


def restore(optimizer: Optimizer, backup: Optimizer) -> None:
    """Write a copy back in place: views of the flat vectors stay valid."""
    for tensor, saved in zip(optimizer, backup, strict=True):
        tensor.copy_(saved)


def tensors_of(network: ActorCritic, optimizer: Optimizer, normalizer: RunningNormalizer) -> dict[str, torch.Tensor]:
    """Everything that is needed to go on, as contiguous CPU tensors that share no memory with the learner."""
    model = network.layout.views(optimizer.parameters)
    tensors = {f"model.{name}": tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in model.items()}
    tensors |= {f"optimizer.{name}": getattr(optimizer, name).to("cpu", copy=True) for name in _MOMENTS}
    return tensors | {
        "normalizer.count": torch.tensor(normalizer.count, dtype=torch.float64),
        "normalizer.mean": torch.tensor(normalizer.mean),
        "normalizer.squares": torch.tensor(normalizer.squares),
    }


def load_tensors(
    network: ActorCritic,
    optimizer: Optimizer,
    normalizer: RunningNormalizer,
    tensors: Mapping[str, torch.Tensor | FloatArray],
    *,
    weights_only: bool,
) -> None:
    """Read what :func:`tensors_of` wrote; nothing is changed unless everything fits.

    Raises:
        CheckpointError: a tensor is missing, has another shape, or holds NaN or infinity.
    """
    targets = {f"model.{name}": view for name, view in network.layout.views(optimizer.parameters).items()}
    if not weights_only:
        targets |= {f"optimizer.{name}": getattr(optimizer, name) for name in _MOMENTS}
    sources = {name: fitting(tensors, name, tuple(target.shape)) for name, target in targets.items()}
    size = (len(normalizer.mean),)
    count = fitting(tensors, "normalizer.count", ())
    mean, squares = fitting(tensors, "normalizer.mean", size), fitting(tensors, "normalizer.squares", size)
    for name, target in targets.items():
        target.copy_(sources[name])
    normalizer.load(float(count), mean.double().numpy(), squares.double().numpy())


def fitting(tensors: Mapping[str, torch.Tensor | FloatArray], name: str, shape: tuple[int, ...] | None) -> torch.Tensor:
    """One tensor of a checkpoint, checked (``shape`` None = any).

    Raises:
        CheckpointError: it is missing, has another shape, or holds NaN or infinity.
    """
    if name not in tensors:
        raise CheckpointError(f"The checkpoint has no tensor '{name}'; it was written by another kind of trainer.")
    value = tensors[name]
    tensor = torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value.detach().cpu()
    if shape is not None and tuple(tensor.shape) != shape:
        raise CheckpointError(
            f"Tensor '{name}' of the checkpoint has shape {list(tensor.shape)}, the settings ask for {list(shape)}; "
            "use the network settings that the run was started with."
        )
    if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
        raise CheckpointError(f"Tensor '{name}' of the checkpoint holds NaN or infinity; use an earlier checkpoint.")
    return tensor
